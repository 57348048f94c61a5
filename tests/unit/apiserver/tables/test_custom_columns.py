"""Printer columns of custom resources."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.tables.custom_columns import custom_columns, scale_columns
from pykubelet.kinds.go_values import go_float, printed


def _age(time: str | None) -> str:
    return f"age of {time}"


@pytest.mark.parametrize(
    ("type_", "value", "cell"),
    [
        ("string", "a", "a"),
        ("string", 3, "3"),
        ("string", True, "true"),
        ("string", None, "<no value>"),
        ("string", {"b": [1, "<"], "a": 2.0}, '{"a":2,"b":[1,"\\u003c"]}'),
        ("integer", 3, 3),
        ("integer", 3.7, 3),
        ("integer", "3", None),
        ("integer", True, None),
        ("number", 3, 3.0),
        ("number", 1.5, 1.5),
        ("number", "x", None),
        ("boolean", False, False),
        ("boolean", 0, None),
        ("date", "2026-11-15T12:00:00Z", "age of 2026-11-15T12:00:00Z"),
        ("date", 7, None),
        ("other", "a", None),
    ],
)
def test_cell_is_of_the_type_of_its_column_or_empty(type_: str, value: Any, cell: Any) -> None:
    """String columns show any value, the others only values of their type."""
    columns = custom_columns([{"name": "X", "type": type_, "jsonPath": ".spec.x"}])
    assert columns.cells({"metadata": {"name": "n"}, "spec": {"x": value}}, _age) == ["n", cell]


@pytest.mark.parametrize("path", [".spec.missing", ".spec.x[0]"])
def test_cell_is_empty_where_a_path_leads_nowhere(path: str) -> None:
    """The field is missing, or the path does not fit the value."""
    columns = custom_columns([{"name": "X", "type": "string", "jsonPath": path}])
    assert columns.cells({"spec": {"x": 3}}, _age) == ["", None]


def test_definition_without_columns_shows_the_age() -> None:
    """kubectl expects this of any kind."""
    columns = custom_columns([])
    assert [header["name"] for header in columns.headers] == ["Name", "Age"]
    created = {"metadata": {"name": "n", "creationTimestamp": "t"}}
    assert columns.cells(created, _age) == ["n", "age of t"]
    assert [header["name"] for header in scale_columns().headers] == ["Name", "Desired", "Available", "Age"]


def test_column_keeps_its_description_and_priority_and_a_bad_path_ends_the_table() -> None:
    """The column with the first invalid path and all columns after it are left out."""
    stated: list[dict[str, Any]] = [
        {"name": "A", "type": "string", "jsonPath": ".a", "description": "d", "priority": 1, "format": "byte"},
        {"name": "B", "type": "string", "jsonPath": ".b[", "priority": 1},
        {"name": "C", "type": "string", "jsonPath": ".c"},
    ]
    assert custom_columns(stated).headers[1:] == (
        {"name": "A", "type": "string", "format": "byte", "description": "d", "priority": 1},
    )


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (3.0, "3"),
        (0.1, "0.1"),
        (999999.0, "999999"),
        (1e6, "1e+06"),
        (123456789.0, "1.23456789e+08"),
        (1e21, "1e+21"),
        (1e-05, "1e-05"),
    ],
)
def test_numbers_are_printed_as_go_prints_them(number: float, text: str) -> None:
    """Numbers from a million on have an exponent."""
    assert go_float(number) == printed(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_printed_number_is_the_number(number: float) -> None:
    """The text parses to the same number."""
    assert float(go_float(number)) == number
