"""A picture of a cluster at the foot of a terminal, drawn anew in place; lines go by above it."""

import asyncio
import os
import shlex
import signal
from collections.abc import Collection
from pathlib import Path
from typing import TextIO

import click

from pykubelet.api.wire import Document
from pykubelet.app.view import Started
from pykubelet.cli.live_table import picture

_ERASE_BELOW = "\x1b[J"


class _Above:
    """What is written here appears above the picture. Lines."""

    def __init__(self, view: "LiveView") -> None:
        self._view = view

    def write(self, text: str) -> None:
        self._view.print(text)


class LiveView:
    """The picture on one terminal. View."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._picture: list[str] = []
        self._pods: Collection[Document] = ()
        self._has_started = False
        self.lines = _Above(self)

    def print(self, text: str) -> None:
        """Show lines above the picture."""
        whole = text if text.endswith("\n") else f"{text}\n"
        self._write(self._erased() + whole + "".join(self._picture))

    def started(self, started: Started) -> None:
        self.print(click.style(f"export KUBECONFIG={shlex.quote(_short(started.kubeconfig))}", bold=True))
        self._has_started = True
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, self._draw)
        self._draw()

    def pods(self, pods: Collection[Document]) -> None:
        self._pods = pods
        self._draw()

    def _draw(self) -> None:
        if not self._has_started:
            return
        size = os.get_terminal_size(self._terminal.fileno())
        lines = picture(self._pods, size.columns, size.lines)
        drawn = [_styled(number, *line) for number, line in enumerate(lines)]
        if drawn != self._picture:
            erased = self._erased()
            self._picture = drawn
            self._write(erased + "".join(drawn))

    def _erased(self) -> str:
        """What moves the cursor back to where the picture begins."""
        return f"\r\x1b[{len(self._picture)}A{_ERASE_BELOW}" if self._picture else ""

    def _write(self, text: str) -> None:
        # One piece, so that what others write does not come in between.
        self._terminal.write(text)
        self._terminal.flush()


def _styled(number: int, line: str, colour: str) -> str:
    """A line of the picture; the first one is its head."""
    return click.style(line, fg=colour or None, bold=True if number == 0 else None) + "\n"


def _short(path: Path) -> str:
    """As somebody in this folder would write it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
