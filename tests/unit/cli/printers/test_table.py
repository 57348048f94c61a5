"""Tables printed as aligned lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.cli.printers.table import Decoration, align_rows, cell_text, header, plain_table, rows_of

CELLS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=8)
COLUMNS = [
    {"name": "Name", "type": "string", "format": "name", "priority": 0},
    {"name": "Ready", "type": "integer", "format": "", "priority": 0},
    {"name": "Node", "type": "string", "format": "", "priority": 1},
]
METADATA = {"namespace": "shop", "labels": {"b": "2", "a": "1"}}
TABLE = {"columnDefinitions": COLUMNS, "rows": [{"cells": ["web", 3, "n1"], "object": {"metadata": METADATA}}]}


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.tuples(*[CELLS] * n), min_size=1)))
def test_columns_begin_at_the_same_place(rows: list[tuple[str, ...]]) -> None:
    """Each cell can be cut out of its line again; columns are at least three spaces apart."""
    lines, widths = align_rows(rows)
    for row, line in zip(rows, lines, strict=True):
        start = 0
        for cell, width in zip(row[:-1], widths, strict=True):
            assert line[start : start + width] == cell.ljust(width)
            assert width >= max(len(cell) + 3, 6)
            start += width
        assert line[start:] == row[-1]


def test_widths_only_grow() -> None:
    """Lines added to a table keep the columns that are on the screen already."""
    _, widths = align_rows([("a long name", "x")])
    lines, later = align_rows([("web", "y")], widths)
    assert lines == ["web           y"]
    assert later == widths


def test_short_columns_have_six_places() -> None:
    """kubectl uses the same minimum width."""
    assert align_rows([("UP", "X")])[0] == ["UP    X"]


@pytest.mark.parametrize(
    ("decoration", "head", "row"),
    [
        (Decoration(), ("NAME", "READY"), ("web", "3")),
        (Decoration(is_wide=True), ("NAME", "READY", "NODE"), ("web", "3", "n1")),
        (Decoration(namespaces=True), ("NAMESPACE", "NAME", "READY"), ("shop", "web", "3")),
        (Decoration(labels=True), ("NAME", "READY", "LABELS"), ("web", "3", "a=1,b=2")),
        (Decoration(kind="pod"), ("NAME", "READY"), ("pod/web", "3")),
    ],
)
def test_decoration_adds_columns_and_kinds(decoration: Decoration, head: tuple[str, ...], row: tuple[str, ...]) -> None:
    """Wide columns, namespaces, labels, kinds."""
    assert header(TABLE, decoration) == head
    assert rows_of(TABLE, decoration) == [row]


def test_row_without_object_or_cells_is_shown_as_it_is() -> None:
    """A server may leave out the object, or all rows."""
    table = {"columnDefinitions": COLUMNS, "rows": [{"cells": ["web"]}]}
    assert rows_of(table, Decoration(labels=True, namespaces=True)) == [("", "web", "<none>")]
    assert rows_of({"columnDefinitions": COLUMNS}, Decoration()) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (3, "3"),
        (True, "true"),
        (False, "false"),
        ("one\ntwo", "one..."),
        ("red \x1b[31m", "red ^[[31m"),
    ],
)
def test_cell_is_one_line_without_control_characters(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_objects_without_a_table_get_names_and_ages() -> None:
    """For servers that do not return tables."""
    table = plain_table([{"metadata": {"name": "web"}}], ["5s"])
    assert header(table, Decoration()) == ("NAME", "AGE")
    assert rows_of(table, Decoration(kind="thing")) == [("thing/web", "5s")]
