"""Pods as lines that fit a screen.

In: pods and the size of the screen. Out: lines, none wider than it, not more than half of it; where there is no room for all,
pods that are not well come first.
"""

from collections.abc import Collection

from pykubelet.api.wire import Document
from pykubelet.apiserver.tables.pod_row import pod_cells
from pykubelet.cli.table_layout import Row, cell_text, laid_out

_HEADER: Row = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS")
_WELL = frozenset({"Running", "Completed"})
_ON_THE_WAY = frozenset({"Pending", "ContainerCreating", "PodInitializing", "Terminating"})
_FEWEST = 3


def picture(pods: Collection[Document], columns: int, rows: int) -> list[tuple[str, str]]:
    """Lines with the colour of each, empty for none."""
    found = sorted(map(_row, pods))
    room = max(_FEWEST, rows // 2)
    shown, left = found, 0
    if len(found) > room:
        shown, left = sorted(found, key=_is_well)[: room - 1], len(found) - room + 1
    lines, _ = laid_out([_HEADER, *sorted(shown)])
    colours = ["", *(_colour(row) for row in sorted(shown))]
    if left:
        lines.append(f"... and {left} more")
        colours.append("")
    return [(line[: max(columns - 1, 0)].rstrip(), colour) for line, colour in zip(lines, colours, strict=True)]


def _row(pod: Document) -> Row:
    name, ready, status, restarts, *_ = (cell_text(cell) for cell in pod_cells(pod, lambda _: ""))
    # When the last restart was would have to be drawn anew as time goes by.
    return (str(pod["metadata"].get("namespace", "")), name, ready, status, restarts.partition(" ")[0])


def _is_well(row: Row) -> bool:
    _, _, ready, status, _ = row
    have, _, wanted = ready.partition("/")
    return status == "Completed" or (status in _WELL and have == wanted)


def _colour(row: Row) -> str:
    if _is_well(row):
        return "green"
    status = row[3]
    return "yellow" if status in _WELL | _ON_THE_WAY or status.startswith("Init:") else "red"
