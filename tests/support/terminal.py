"""Runs a program in a pseudo-terminal and types into it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
from collections.abc import Mapping


class Terminal:
    """A program in its own pseudo-terminal, and what a user does there."""

    def __init__(
        self, *command: str, environment: Mapping[str, str] = os.environ, rows: int = 33, columns: int = 77
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.shown = ""
        self.resize(rows, columns)
        # A session leader that opens a terminal gets it as its controlling terminal: Ctrl-C goes to it.
        opening = f'exec "$@" <>{os.ttyname(theirs)} >&0 2>&0'
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", opening, "sh", *command], start_new_session=True, env={**environment, "TERM": "xterm"}
        )
        # Kept open, since reading fails while no process has the terminal open.
        self._theirs = theirs

    def resize(self, rows: int, columns: int) -> None:
        """Resize the window; the test has to send SIGWINCH to the program itself."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def settings(self) -> object:
        """The terminal's settings for what is typed."""
        return termios.tcgetattr(self._theirs)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until(self, text: str) -> str:
        """Wait until a text is shown; removes the output up to it and returns what came before."""
        while text not in self.shown:
            readable, _, _ = select.select([self._ours], [], [], 30)
            assert readable, f"not shown: {text!r}, but {self.shown!r}"
            try:
                self.shown += os.read(self._ours, 4096).decode(errors="replace")
            except OSError as error:
                raise AssertionError(f"it ended without showing {text!r}, but {self.shown!r}") from error
        before, _, self.shown = self.shown.partition(text)
        return before

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)
