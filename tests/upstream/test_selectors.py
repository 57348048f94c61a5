"""Selectors against the answers of Kubernetes 1.34 itself."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.fields import FieldSelector, parse_field_selector
from pykubelet.api.labels import Selector, SelectorError, parse_selector, selector_from_document

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors/selectors.json").read_text())["cases"]
READERS: dict[str, Callable[[Any], Selector | FieldSelector]] = {
    "labels": parse_selector,
    "fields": parse_field_selector,
    "labelselector": selector_from_document,
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{index} {case['kind']} {json.dumps(case['selector'])[:60]}")
        for index, case in enumerate(CASES)
    ],
)
def test_selector_answers_as_upstream_for(case: dict[str, Any]) -> None:
    read = READERS[case["kind"]]
    if not case["ok"]:
        with pytest.raises(SelectorError) as raised:
            read(case["selector"])
        assert str(raised.value) == case["error"]
        return
    selector = read(case["selector"])
    assert str(selector) == case["parsed"]
    assert selector.matches(case["set"] or {}) == case["matches"]
    assert selector.empty() == case["empty"]
