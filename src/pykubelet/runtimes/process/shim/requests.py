"""Serves the kubelet's requests to a shim: signals, log reopening, exec and attach.

Each connection is one request. Closing the connection of a command ends the command; no request ends the shim.
"""

import os
import selectors
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from pykubelet.aio.packets import receive, send
from pykubelet.runtimes.log_format import STDERR, STDOUT
from pykubelet.runtimes.process.shim import wire
from pykubelet.runtimes.process.shim.processes import signal_group
from pykubelet.runtimes.process.shim.stdio import AttachedOutput, ContainerLogFile, Stdio

_BACKLOG = 128


class ProgramStarter(Protocol):
    """Starts programs in the container; the Supervisor above implements it."""

    def start(self, argv: list[str], *, files: list[int], is_terminal: bool) -> tuple[int, int]:
        """Start a program; its PID, and the pipe with the error if it does not start."""

    def signal(self, number: int) -> None:
        """Send a signal to the container."""


class ShimExec:
    """A running exec command and its connection."""

    def __init__(self, failures: int, answer: Callable[[dict[str, Any]], None]) -> None:
        """`failures` is the error pipe; readable once it is known whether the program runs."""
        self.failures, self._answer = failures, answer
        self._is_settled = False

    def settle(self) -> bool:
        """Report whether the program runs, if that is known yet."""
        if not self._is_settled:
            try:
                failure = os.read(self.failures, 4096)
            except BlockingIOError:
                return False
            self._is_settled = True
            self._answer({"error": failure.decode(errors="replace")} if failure else {"started": True})
        return True

    def end(self, exit_code: int) -> None:
        self.settle()
        os.close(self.failures)
        self._answer({"exit_code": exit_code})


class ShimServer:
    """Serves the kubelet on a socket in the container's state folder."""

    def __init__(
        self, selector: selectors.BaseSelector, starter: ProgramStarter, stdio: Stdio, log: ContainerLogFile
    ) -> None:
        self._selector, self._starter, self._stdio, self._log = selector, starter, stdio, log
        self._commands: dict[int, ShimExec] = {}
        self._watching: dict[socket.socket, AttachedOutput] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with suppress(FileNotFoundError):
            os.unlink(wire.CONTROL)
        # Relative: an absolute path may be too long for a socket address.
        self._listener.bind(wire.CONTROL)
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def record_end(self, pid: int, exit_code: int) -> None:
        """Handle the end of a process, which may be an exec command."""
        command = self._commands.pop(pid, None)
        if command is not None:
            with suppress(KeyError):
                self._selector.unregister(command.failures)
            command.end(exit_code)

    def close(self, exit_code: int) -> None:
        """Report the end of the container to attached clients."""
        for connection, viewer in self._watching.items():
            viewer.close()
            _answer(connection, {"exit_code": exit_code})
        with suppress(OSError):
            os.unlink(wire.CONTROL)

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._listen_to(connection, lambda: self._begin(connection))

    def _listen_to(self, connection: socket.socket, then: Callable[[], None]) -> None:
        with suppress(KeyError):
            self._selector.unregister(connection)
        self._selector.register(connection, selectors.EVENT_READ, then)

    def _hang_up(self, connection: socket.socket) -> None:
        with suppress(KeyError):
            self._selector.unregister(connection)
        connection.close()

    def _begin(self, connection: socket.socket) -> None:
        message, files = _receive(connection)
        match message:
            case {"op": "exec", "argv": [*argv], "tty": bool(tty)}:
                self._execute(connection, argv, files, is_terminal=tty)
                return
            case {"op": "attach", "stdin": bool(stdin)}:
                self._attach(connection, files, with_input=stdin)
                return
            case {"op": "signal", "signal": int(number)}:
                self._starter.signal(number)
                _answer(connection, {})
            case {"op": "reopen"}:
                _answer(connection, self._reopen())
        _close_all(files)
        self._hang_up(connection)

    def _reopen(self) -> dict[str, Any]:
        try:
            self._log.reopen()
        except OSError as error:
            return {"error": str(error.strerror)}
        return {}

    def _execute(self, connection: socket.socket, argv: list[str], files: list[int], *, is_terminal: bool) -> None:
        try:
            pid, failures = self._starter.start(argv, files=files, is_terminal=is_terminal)
        except OSError as error:
            _answer(connection, {"error": str(error.strerror)})
            self._hang_up(connection)
            return
        finally:
            _close_all(files)
        command = ShimExec(failures, lambda answer: self._report(connection, answer))
        self._commands[pid] = command
        self._selector.register(failures, selectors.EVENT_READ, lambda: self._settle(command))
        self._listen_to(connection, lambda: self._check_command(connection, pid))

    def _settle(self, command: ShimExec) -> None:
        if command.settle():
            self._selector.unregister(command.failures)

    def _report(self, connection: socket.socket, answer: dict[str, Any]) -> None:
        _answer(connection, answer)
        if "exit_code" in answer:
            self._hang_up(connection)

    def _check_command(self, connection: socket.socket, pid: int) -> None:
        message, files = _receive(connection)
        _close_all(files)
        if message is None:
            with suppress(KeyError):
                self._selector.unregister(connection)
            if pid in self._commands:
                signal_group(pid, signal.SIGKILL)

    def _attach(self, connection: socket.socket, files: list[int], *, with_input: bool) -> None:
        if with_input:
            self._stdio.feed(files.pop(0))
        streams = [STDOUT] if self._stdio.is_terminal else [STDOUT, STDERR]
        # A container with a terminal has one output stream; close the rest.
        _close_all(files[len(streams) :])
        viewer = AttachedOutput(dict(zip(streams, files, strict=False)), lambda _: self._detach(connection))
        self._watching[connection] = viewer
        self._stdio.viewers.append(viewer)
        self._listen_to(connection, lambda: self._check_viewer(connection))
        _answer(connection, {"started": True})

    def _check_viewer(self, connection: socket.socket) -> None:
        message, files = _receive(connection)
        _close_all(files)
        match message:
            case None:
                self._detach(connection)
            case {"resize": [int(columns), int(rows)]}:
                self._stdio.resize(columns, rows)

    def _detach(self, connection: socket.socket) -> None:
        viewer = self._watching.pop(connection, None)
        if viewer is not None:
            self._stdio.viewers.remove(viewer)
            viewer.close()
        self._hang_up(connection)


def _receive(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next message; a malformed one counts as a closed connection."""
    try:
        return receive(connection)
    except (OSError, ValueError):
        return None, []


def _answer(connection: socket.socket, message: dict[str, Any]) -> None:
    # The client may be gone.
    with suppress(OSError):
        send(connection, message)


def _close_all(files: list[int]) -> None:
    for file in files:
        os.close(file)
