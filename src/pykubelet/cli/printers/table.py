"""Tables with aligned columns in kubectl's layout.

Columns are as wide as their longest cell plus three spaces; a table that grows keeps its widths.

Upstream: staging/src/k8s.io/cli-runtime/pkg/printers/tableprinter.go
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pykubelet.api.serializer import Document
from pykubelet.cli.printers.terminal import escape_terminal

PADDING = 3
_NARROWEST = 6
_BREAK = re.compile(r"[\f\n\r]")
Row = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoration:
    """Which parts of a table are shown, and additional columns."""

    is_wide: bool = False
    namespaces: bool = False
    labels: bool = False
    kind: str = ""
    """The prefix of names: `pod`, `deployment.apps`."""


def align_rows(rows: Sequence[Row], widths: Sequence[int] = ()) -> tuple[list[str], tuple[int, ...]]:
    """The lines of rows and their column widths, which are at least the given ones; the last cell is not padded."""
    found = list(widths)
    for row in rows:
        for index, cell in enumerate(row[:-1]):
            width = max(len(cell) + PADDING, _NARROWEST)
            if index == len(found):
                found.append(width)
            found[index] = max(found[index], width)
    lines = ["".join([*(cell.ljust(found[i]) for i, cell in enumerate(row[:-1])), *row[-1:]]) for row in rows]
    return lines, tuple(found)


def header(table: Document, decoration: Decoration) -> Row:
    names = [cell_text(column["name"]).upper() for column in _shown(table, decoration)]
    before = ["NAMESPACE"] if decoration.namespaces else []
    return (*before, *names, *(["LABELS"] if decoration.labels else []))


def rows_of(table: Document, decoration: Decoration) -> list[Row]:
    """The rows of a table as they are shown."""
    columns = table.get("columnDefinitions") or []
    shown = [index for index, column in enumerate(columns) if decoration.is_wide or not column.get("priority")]
    name = next((i for i, one in enumerate(columns) if (one["format"], one["type"]) == ("name", "string")), -1)
    return [_row(row, shown, name, decoration) for row in table.get("rows") or ()]


def plain_table(objects: Sequence[Document], ages: Sequence[str]) -> Document:
    """A table for objects without a server-side table."""
    columns = [
        {"name": "Name", "type": "string", "format": "name", "priority": 0},
        {"name": "Age", "type": "string", "format": "", "priority": 0},
    ]
    rows = [{"cells": [one["metadata"]["name"], age], "object": one} for one, age in zip(objects, ages, strict=True)]
    return {"kind": "Table", "columnDefinitions": columns, "rows": rows}


def cell_text(value: Any) -> str:
    """A cell on one line with control characters escaped."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    first = _BREAK.split(text, maxsplit=1)[0]
    return escape_terminal(first) + ("..." if len(first) < len(text) else "")


def _shown(table: Document, decoration: Decoration) -> list[Document]:
    columns: list[Document] = table.get("columnDefinitions") or []
    return [column for column in columns if decoration.is_wide or not column.get("priority")]


def _row(row: Document, shown: Sequence[int], name: int, decoration: Decoration) -> Row:
    metadata = (row.get("object") or {}).get("metadata") or {}
    cells = row.get("cells") or []
    before = [cell_text(metadata.get("namespace"))] if decoration.namespaces else []
    prefix = f"{decoration.kind}/" if decoration.kind else ""
    texts = [(prefix if i == name else "") + cell_text(cells[i]) for i in shown if i < len(cells)]
    labels = ",".join(f"{key}={value}" for key, value in sorted((metadata.get("labels") or {}).items())) or "<none>"
    return (*before, *texts, *([cell_text(labels)] if decoration.labels else []))
