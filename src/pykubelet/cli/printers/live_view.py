"""The live view of `pykubelet up`: a table of pods at the bottom of the terminal, log lines above it.

The table fits the terminal and takes at most half of it; if there is no room for all pods, those with problems come
first.
"""

import asyncio
import os
import shlex
import signal
from collections.abc import Collection
from pathlib import Path
from typing import TextIO

import click

from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import background_task
from pykubelet.api import schema
from pykubelet.api.scheme import as_documents
from pykubelet.api.serializer import Document
from pykubelet.cli.printers.table import Row, align_rows, cell_text
from pykubelet.client.reflector import ListerWatcher, Reflector
from pykubelet.kinds.pod.columns import pod_cells

_HEADER: Row = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS")
_WELL = frozenset({"Running", "Completed"})
_ON_THE_WAY = frozenset({"Pending", "ContainerCreating", "PodInitializing", "Terminating"})
_FEWEST = 3
_PAUSE_SECONDS = 0.2
"""The least time between two drawings; collects a burst of changes."""
_ERASE_BELOW = "\x1b[J"


def live_table(pods: Collection[Document], columns: int, rows: int) -> list[tuple[str, str]]:
    """The lines of the table with their colours; an empty colour means none."""
    found = sorted(map(_row, pods))
    room = max(_FEWEST, rows // 2)
    shown, left = found, 0
    if len(found) > room:
        shown, left = sorted(found, key=_is_well)[: room - 1], len(found) - room + 1
    lines, _ = align_rows([_HEADER, *sorted(shown)])
    colours = ["", *(_colour(row) for row in sorted(shown))]
    if left:
        lines.append(f"... and {left} more")
        colours.append("")
    return [(line[: max(columns - 1, 0)].rstrip(), colour) for line, colour in zip(lines, colours, strict=True)]


def _row(pod: Document) -> Row:
    name, ready, status, restarts, *_ = (cell_text(cell) for cell in pod_cells(pod, lambda _: ""))
    # Without the time since the last restart, which would change all the time.
    return (cell_text(pod["metadata"].get("namespace")), name, ready, status, restarts.partition(" ")[0])


def _is_well(row: Row) -> bool:
    _, _, ready, status, _ = row
    have, _, wanted = ready.partition("/")
    return status == "Completed" or (status in _WELL and have == wanted)


def _colour(row: Row) -> str:
    if _is_well(row):
        return "green"
    status = row[3]
    return "yellow" if status in _WELL | _ON_THE_WAY or status.startswith("Init:") else "red"


class LiveView:
    """The live view on one terminal; a ResourceEventHandler of pods and the `Lines` of the log."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._picture: list[str] = []
        self._pods: dict[tuple[str, str], Document] = {}
        self._changed = asyncio.Event()

    def write(self, text: str, /) -> None:
        """Write lines above the table."""
        whole = text if text.endswith("\n") else f"{text}\n"
        self._output(self._erased() + whole + "".join(self._picture))

    async def run(self, kubeconfig: Path, client: ListerWatcher, clock: Clock) -> None:
        """Print where the kubeconfig is, then follow the pods and draw them until cancelled."""
        self.write(click.style(f"export KUBECONFIG={shlex.quote(_short(kubeconfig))}", bold=True))
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, self._draw)
        self._draw()
        kind = as_documents(schema.PODS)
        reflector: Reflector[Document] = Reflector(client=client, kind=kind, sink=self, clock=clock)
        async with background_task(reflector.run(asyncio.Event()), "pods of the view"):
            while True:
                await self._changed.wait()
                self._changed.clear()
                self._draw()
                await asyncio.sleep(_PAUSE_SECONDS)

    def added(self, pod: Document) -> None:
        self._pods[_key(pod)] = pod
        self._changed.set()

    modified = added

    def deleted(self, pod: Document) -> None:
        self._pods.pop(_key(pod), None)
        self._changed.set()

    def synced(self) -> None:
        self._changed.set()

    def _draw(self) -> None:
        size = os.get_terminal_size(self._terminal.fileno())
        lines = live_table(self._pods.values(), size.columns, size.lines)
        drawn = [_styled(number, *line) for number, line in enumerate(lines)]
        if drawn != self._picture:
            erased = self._erased()
            self._picture = drawn
            self._output(erased + "".join(drawn))

    def _erased(self) -> str:
        """The control sequence that moves the cursor to the start of the table and erases it."""
        return f"\r\x1b[{len(self._picture)}A{_ERASE_BELOW}" if self._picture else ""

    def _output(self, text: str) -> None:
        # Written at once, so that other output does not come in between.
        self._terminal.write(text)
        self._terminal.flush()


def _key(pod: Document) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _styled(number: int, line: str, colour: str) -> str:
    """A styled line of the table; the first one is the header."""
    return click.style(line, fg=colour or None, bold=True if number == 0 else None) + "\n"


def _short(path: Path) -> str:
    """A path relative to the working folder, if it is in it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
