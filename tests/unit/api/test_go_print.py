"""JSON values compared and printed as Go does."""

from typing import Any

import pytest

from pykubelet.api.go_print import go_text, go_type_name, json_equal


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param("a", "a", True, id="equal strings"),
        pytest.param("a", "b", False, id="other string"),
        pytest.param("1", 1, False, id="string and number"),
        pytest.param(1, 1.0, False, id="integer and float"),
        pytest.param(1, True, False, id="integer and boolean"),
        pytest.param(None, None, True, id="nulls"),
        pytest.param({}, {}, True, id="empty maps"),
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, True, id="order of keys does not count"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, False, id="more keys"),
        pytest.param({"a": None}, {"b": None}, False, id="null is not absent"),
        pytest.param({"a": "x"}, {"a": "y"}, False, id="other field"),
        pytest.param({"a": {"b": [1]}}, {"a": {"b": [1.0]}}, False, id="number deep inside"),
        pytest.param([1, 2], [2, 1], False, id="order of items counts"),
        pytest.param([1], [1, 1], False, id="longer list"),
        pytest.param([], {}, False, id="list and map"),
    ],
)
def test_same_compares_type_and_content(left: Any, right: Any, expected: bool) -> None:
    assert json_equal(left, right) is expected
    assert json_equal(right, left) is expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (None, "<nil>"),
        (True, "true"),
        (False, "false"),
        (80, "80"),
        (-5, "-5"),
        (80.0, "80"),
        (0.0, "0"),
        (1.5, "1.5"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (123456.0, "123456"),
        (1000000.0, "1e+06"),
        (-1234567.5, "-1.2345675e+06"),
        (1e100, "1e+100"),
        ({"b": [1, "x"], "a": {}}, "map[a:map[] b:[1 x]]"),
        ([], "[]"),
    ],
)
def test_text_is_what_go_prints(value: Any, text: str) -> None:
    assert go_text(value) == text


@pytest.mark.parametrize(
    ("kind", "name"),
    [(dict, "map[string]interface {}"), (list, "[]interface {}"), (str, "string"), (int, "int64"), (tuple, "tuple")],
)
def test_type_name_is_what_go_prints(kind: type, name: str) -> None:
    assert go_type_name(kind) == name
