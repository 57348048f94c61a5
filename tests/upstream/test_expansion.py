"""Case 6.24-47 and the vectors of the Go code: expansion of variable references in a text."""

import json
from pathlib import Path
from typing import Any

import pytest

from pykubelet.kubelet.expansion import expand, mapping_func_for

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors/expansion.json").read_text())["cases"]
VARIABLES = {"VAR_A": "A", "VAR_B": "B", "VAR_C": "C", "VAR_REF": "$(VAR_A)", "VAR_EMPTY": ""}
CASES = [
    ("$(VAR_A)_$(VAR_B)", "A_B"),
    ("$$(VAR_B)_$(VAR_A)", "$(VAR_B)_A"),
    ("f000-$$VAR_A", "f000-$VAR_A"),
    ("foo\\$(VAR_C)bar", "foo\\Cbar"),
    ("$(VAR_A$(VAR_B))", "$(VAR_A$(VAR_B))"),
    ("$(VAR_REF)", "$(VAR_A)"),
    ("foo$(VAR_EMPTY)bar", "foobar"),
    ("$(VAR_Awhoops!", "$(VAR_Awhoops!"),
    ("$?_boo_$!", "$?_boo_$!"),
    ("$(VAR_DNE)", "$(VAR_DNE)"),
    ("$$$$$$(VAR_A)", "$$$(VAR_A)"),
    ("$$$$$$$(VAR_A)", "$$$A"),
    ("${VAR_A}", "${VAR_A}"),
    ("VAR_A$", "VAR_A$"),
    ("--$($($($($--", "--$($($($($--"),
    ("$(foo$$var)", "$(foo$$var)"),
    ("$\u00e4", "$\u00e4"),
    ("plain", "plain"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "expanded"), [pytest.param(*case, id=f"6.24-47 {case[0]!r}") for case in CASES])
def test_text_is_expanded_as_upstream_does(text: str, expanded: str) -> None:
    """Known references are replaced, and everything else stays."""
    assert expand(text, mapping_func_for(VARIABLES)) == expanded


@pytest.mark.parametrize("case", [pytest.param(case, id=repr(case["in"])) for case in VECTORS])
def test_expansion_answers_as_the_go_code_does(case: dict[str, Any]) -> None:
    """The result is the same, and the same names are looked up in the same order."""
    asked: list[str] = []
    known = mapping_func_for(*case["vars"])

    def value_of(name: str) -> str:
        asked.append(name)
        return known(name)

    assert expand(case["in"], value_of) == case["out"]
    assert asked == case["asked"]
