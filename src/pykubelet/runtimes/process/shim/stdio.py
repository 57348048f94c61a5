"""The three files every program has, as the supervisor holds their other ends.

Without a terminal: two pipes for output, and one for input if the container wants any. With one: both ends of it.

What a container writes: into its log, line by line, and to whoever watches.

A line is written when it is whole, when it is longer than one entry may be, or when its stream ends. A log that cannot be
written loses lines; the container never waits for it, nor for those who watch.

Upstream: containerd's pkg/cri/io/logger.go
"""

import fcntl
import os
import selectors
import struct
import termios
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pykubelet.runtimes.log_format import PIECE_BYTES, format_lines

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
# Readable for a group, so that collectors need not be root.
_MODE = 0o640


class ContainerLogFile:
    """The log file of a container."""

    def __init__(self, path: str) -> None:
        """OSError if it cannot be opened."""
        self._path = path
        self._file = os.open(path, _APPEND, _MODE)
        self._unfinished: dict[str, bytes] = {}

    def reopen(self) -> None:
        """Go on in a new file, the old one having been moved away; OSError if there cannot be one."""
        file = os.open(self._path, _APPEND, _MODE)
        os.close(self._file)
        self._file = file

    def take(self, stream: str, output: bytes) -> None:
        """Some more output."""
        output = self._unfinished.pop(stream, b"") + output
        end = output.rfind(b"\n") + 1
        # Of a line without end only whole pieces go out, so that pieces are as large as they may be.
        end += (len(output) - end) // PIECE_BYTES * PIECE_BYTES
        if end < len(output):
            self._unfinished[stream] = output[end:]
        self._write(stream, output[:end])

    def finish(self) -> None:
        """No more output: the rest goes out as it is."""
        for stream, rest in self._unfinished.items():
            self._write(stream, rest)
        self._unfinished.clear()

    def _write(self, stream: str, output: bytes) -> None:
        rest = memoryview(format_lines(time.time_ns(), stream, output))
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            # A full disk, most likely; the container goes on.
            return


class AttachedOutput:
    """Somebody attached to the container; one who does not keep up is left behind."""

    def __init__(self, files: dict[str, int], on_gone: Callable[["AttachedOutput"], None]) -> None:
        self._files, self._on_gone = files, on_gone
        for file in files.values():
            os.set_blocking(file, False)

    def show(self, stream: str, output: bytes) -> None:
        """Some more output."""
        file = self._files.get(stream)
        if file is None:
            return
        try:
            is_taken = os.write(file, output) == len(output)
        except OSError:
            is_taken = False
        if not is_taken:
            self._on_gone(self)

    def close(self) -> None:
        """No more output."""
        for file in self._files.values():
            os.close(file)
        self._files = {}


_BLOCK_BYTES = 64 * 1024
STDOUT = "stdout"
STDERR = "stderr"


class Stdio:
    """Input and output of a container's first process."""

    def __init__(self, config: Mapping[str, Any], selector: selectors.BaseSelector, log: ContainerLogFile) -> None:
        self.is_terminal: bool = config["tty"]
        self._selector, self._log = selector, log
        self._is_once: bool = config["stdin_once"]
        self.viewers: list[AttachedOutput] = []
        self._outputs: dict[int, str] = {}
        self._input: int | None = None
        if self.is_terminal:
            master, slave = os.openpty()
            self.files: tuple[int, ...] = (slave, slave, slave)
            self._outputs[master] = STDOUT
            self._input = os.dup(master)
        else:
            self.files = (
                self._open_input(wanted=config["stdin"]),
                self._open_output(STDOUT),
                self._open_output(STDERR),
            )
        self._give_to(config["user"])
        for file in self._outputs:
            os.set_blocking(file, False)
            selector.register(file, selectors.EVENT_READ, lambda file=file: self._pump(file))

    def _open_input(self, *, wanted: bool) -> int:
        if not wanted:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        source, self._input = os.pipe()
        return source

    def _open_output(self, stream: str) -> int:
        output, target = os.pipe()
        self._outputs[output] = stream
        return target

    def _give_to(self, user: Mapping[str, Any] | None) -> None:
        # Programs open /dev/stdout or their terminal by name, which takes the rights of an owner.
        for file in set(self.files) if user is not None else ():
            with suppress(OSError):
                os.fchown(file, user["uid"] if user else -1, -1)

    def release(self) -> None:
        """The container has its ends; ours of the same are closed."""
        for file in set(self.files):
            os.close(file)
        self.files = ()

    def drain(self) -> None:
        """Take all output that is there, without waiting for more."""
        for file in list(self._outputs):
            while self._pump(file):
                pass
        self._log.finish()

    def _pump(self, file: int) -> bool:
        """Take some output; False if there is none now."""
        try:
            output = os.read(file, _BLOCK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            # What a terminal says when nobody has it open any more.
            output = b""
        if not output:
            self._selector.unregister(file)
            del self._outputs[file]
            os.close(file)
            return False
        stream = self._outputs[file]
        self._log.take(stream, output)
        for viewer in tuple(self.viewers):
            viewer.show(stream, output)
        return True

    def resize(self, columns: int, rows: int) -> None:
        """The terminal of whoever watches has another size now."""
        if self.is_terminal and self._input is not None:
            with suppress(OSError):
                fcntl.ioctl(self._input, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def feed(self, source: int) -> None:
        """Carry what comes from a file to the container's input; the file is ours then."""
        if self._input is None:
            os.close(source)
            return
        StdinFeed(self._selector, source, os.dup(self._input), self._end_of_feed)

    def _end_of_feed(self) -> None:
        if self._is_once and not self.is_terminal and self._input is not None:
            os.close(self._input)
            self._input = None


class StdinFeed:
    """Carries input from one file to another, no faster than it is taken."""

    def __init__(self, selector: selectors.BaseSelector, source: int, target: int, on_end: Any) -> None:
        self._selector, self._source, self._target, self._on_end = selector, source, target, on_end
        self._rest = b""
        os.set_blocking(source, False)
        os.set_blocking(target, False)
        selector.register(source, selectors.EVENT_READ, self._read)

    def _read(self) -> None:
        try:
            self._rest = os.read(self._source, _BLOCK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._rest = b""
        self._selector.unregister(self._source)
        if not self._rest:
            self._end()
            return
        self._selector.register(self._target, selectors.EVENT_WRITE, self._write)

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._target, self._rest) :]
        except BlockingIOError:
            return
        except OSError:
            # Nobody reads it any more.
            self._selector.unregister(self._target)
            self._end()
            return
        if not self._rest:
            self._selector.unregister(self._target)
            self._selector.register(self._source, selectors.EVENT_READ, self._read)

    def _end(self) -> None:
        os.close(self._source)
        os.close(self._target)
        self._on_end()
