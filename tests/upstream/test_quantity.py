"""Resource quantities against the answers of Kubernetes 1.34 itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.quantity import (
    Quantity,
    QuantityError,
    add,
    cmp,
    parse_quantity,
    quantity_from_json,
    quantity_to_json,
    sub,
)

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors/quantity.json").read_text())["cases"]


def of_kind(kind: str) -> list[Any]:
    return [
        pytest.param(case, id=f"{index} {case.get('in') or case.get('a')!r}")
        for index, case in enumerate(CASES)
        if case["kind"] == kind
    ]


def assert_answers(quantity: Quantity, case: dict[str, Any]) -> None:
    notes = " ".join(case.get("notes", ()))
    assert quantity.format == case.get("format", "")
    # A note marks an answer that is an overflow in Go; ours stops at the bounds of 64 bits instead.
    if "value " not in notes:
        assert quantity.value() == case["value"]
    if "milli " not in notes:
        assert quantity.milli_value() == case["milli"]
    elif "milli does not fit" in notes:
        assert quantity.milli_value() == (2**63 - 1 if quantity.sign() > 0 else -(2**63))


@pytest.mark.parametrize("case", of_kind("parse"))
def test_parse_quantity_answers_as_upstream_for(case: dict[str, Any]) -> None:
    if not case["ok"]:
        with pytest.raises(QuantityError) as raised:
            parse_quantity(case["in"])
        assert str(raised.value) == case["error"]
        return
    quantity = parse_quantity(case["in"])
    assert str(quantity) == case["canonical"]
    assert_answers(quantity, case)


@pytest.mark.parametrize("case", of_kind("json"))
def test_quantity_from_json_answers_as_upstream_for(case: dict[str, Any]) -> None:
    if not case["ok"]:
        with pytest.raises(QuantityError) as raised:
            quantity_from_json(case["in"])
        assert str(raised.value) == case["error"]
        return
    quantity = quantity_from_json(case["in"])
    assert quantity_to_json(quantity) == case["canonical"]
    assert_answers(quantity, case)


@pytest.mark.parametrize("case", of_kind("arith"))
def test_quantity_arithmetic_answers_as_upstream_for(case: dict[str, Any]) -> None:
    a, b = parse_quantity(case["a"]), parse_quantity(case["b"])
    assert cmp(a, b) == case["cmp"]
    assert (str(add(a, b)), add(a, b).format) == (case["sum"], case["sum_format"])
    assert (str(sub(a, b)), sub(a, b).format) == (case["diff"], case["diff_format"])
