"""Connects stdin, stdout and stderr of a container with its log and with attached clients.

Without a terminal there are two pipes for output, and one for input if the container has any; with one, the shim holds both
ends of the terminal. A line is logged when it is complete, too long for one entry, or the last of its stream. Output is
dropped if the log cannot be written or an attached client is too slow: the container never waits. Once the log can be
written again, a line in it says how many lines are missing.
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

from pykubelet.runtimes.log_format import PIECE_BYTES, STDERR, STDOUT, format_lines

_BLOCK_BYTES = 64 * 1024
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
# Group-readable, so that log collectors need not be root.
_MODE = 0o640


class Stdio:
    """Stdin, stdout and stderr of the container's first process."""

    def __init__(self, config: Mapping[str, Any], selector: selectors.BaseSelector, log: "ContainerLogFile") -> None:
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
                self._open_input(has_stdin=config["stdin"]),
                self._open_output(STDOUT),
                self._open_output(STDERR),
            )
        self._give_to(config["user"])
        for file in self._outputs:
            os.set_blocking(file, False)
            selector.register(file, selectors.EVENT_READ, lambda file=file: self._pump(file))

    def _open_input(self, *, has_stdin: bool) -> int:
        if not has_stdin:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        source, self._input = os.pipe()
        return source

    def _open_output(self, stream: str) -> int:
        output, target = os.pipe()
        self._outputs[output] = stream
        return target

    def _give_to(self, user: Mapping[str, Any] | None) -> None:
        # Programs may open /dev/stdout or their terminal by name, for which they must own it.
        if user is not None:
            for file in set(self.files):
                with suppress(OSError):
                    os.fchown(file, user["uid"], -1)

    def release(self) -> None:
        """Close our copies of the container's ends."""
        for file in set(self.files):
            os.close(file)
        self.files = ()

    def drain(self) -> None:
        """Read all available output without waiting for more."""
        for file in list(self._outputs):
            while self._pump(file):
                pass
        self._log.finish()

    def _pump(self, file: int) -> bool:
        """Read and distribute some output; False if there is none now."""
        try:
            output = os.read(file, _BLOCK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            # A terminal reports the end this way.
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
        if self.is_terminal and self._input is not None:
            with suppress(OSError):
                fcntl.ioctl(self._input, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def feed(self, source: int) -> None:
        """Copy a file to the container's input; takes ownership of the file."""
        if self._input is None:
            os.close(source)
            return
        StdinFeed(self._selector, source, os.dup(self._input), self._end_of_feed)

    def _end_of_feed(self) -> None:
        if self._is_once and not self.is_terminal and self._input is not None:
            os.close(self._input)
            self._input = None


class StdinFeed:
    """Copies input from one file to another, as fast as it is read."""

    def __init__(self, selector: selectors.BaseSelector, source: int, target: int, on_end: Callable[[], None]) -> None:
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
            # The reader has closed it.
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


class ContainerLogFile:
    """Writes the log file of a container; the constructor raises OSError if it cannot be opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, _APPEND, _MODE)
        self._unfinished: dict[str, bytes] = {}
        self._dropped = 0

    def reopen(self) -> None:
        """Continue in a new file after a rotation; OSError if it cannot be opened."""
        file = os.open(self._path, _APPEND, _MODE)
        os.close(self._file)
        self._file = file

    def take(self, stream: str, output: bytes) -> None:
        output = self._unfinished.pop(stream, b"") + output
        end = output.rfind(b"\n") + 1
        # An incomplete line is written in pieces of the maximum size only.
        end += (len(output) - end) // PIECE_BYTES * PIECE_BYTES
        if end < len(output):
            self._unfinished[stream] = output[end:]
        self._write(stream, output[:end])

    def finish(self) -> None:
        """Write incomplete lines at the end of the output."""
        for stream, rest in self._unfinished.items():
            self._write(stream, rest)
        self._unfinished.clear()

    def _write(self, stream: str, output: bytes) -> None:
        at = time.time_ns()
        lines = format_lines(at, stream, output)
        if not (lines and self._dropped):
            self._dropped += self._append(lines)
            return
        note = f"pykubelet: {self._dropped} lines are missing here, the log could not be written\n".encode()
        # All or nothing: while the disk is almost full, not one note after the other.
        is_written = not self._append(format_lines(at, STDERR, note) + lines, in_part=False)
        self._dropped = 0 if is_written else self._dropped + lines.count(b"\n")

    def _append(self, lines: bytes, *, in_part: bool = True) -> int:
        """Append whole lines to the file, `in_part` also some of them; how many could not be written."""
        written = 0
        try:
            while written < len(lines):
                written += os.write(self._file, memoryview(lines)[written:])
        except OSError:
            # Most likely the disk is full; the container continues. The file must not end in a part of a line.
            whole = lines.rfind(b"\n", 0, written) + 1 if in_part else 0
            with suppress(OSError):
                os.ftruncate(self._file, os.fstat(self._file).st_size - (written - whole))
            return lines.count(b"\n", whole)
        return 0


class AttachedOutput:
    """Sends output to an attached client; drops a client that is too slow."""

    def __init__(self, files: dict[str, int], on_gone: Callable[["AttachedOutput"], None]) -> None:
        self._files, self._on_gone = files, on_gone
        for file in files.values():
            os.set_blocking(file, False)

    def show(self, stream: str, output: bytes) -> None:
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
        for file in self._files.values():
            os.close(file)
        self._files = {}
