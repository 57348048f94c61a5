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
    """A program with a terminal of its own, and what a person does there."""

    def __init__(
        self, *command: str, environment: Mapping[str, str] = os.environ, rows: int = 33, columns: int = 77
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.shown = ""
        self.resize(rows, columns)
        # Who leads a session and opens a terminal has its keys: Ctrl-C goes to it.
        opening = f'exec "$@" <>{os.ttyname(theirs)} >&0 2>&0'
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", opening, "sh", *command], start_new_session=True, env={**environment, "TERM": "xterm"}
        )
        # Only when they have it open may we close it, or reading would fail.
        self._theirs = theirs

    def resize(self, rows: int, columns: int) -> None:
        """Make the window another size; whoever started the program has to be told by a signal."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def settings(self) -> object:
        """How it treats what is typed."""
        return termios.tcgetattr(self._theirs)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until(self, text: str) -> str:
        """Wait until a text is shown; what was shown up to it is done with, and given."""
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
