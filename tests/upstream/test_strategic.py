"""Every case of vectors/strategic.json: patches and results of Kubernetes 1.34.11 itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.go_print import json_equal
from pykubelet.api.patch.errors import PatchError
from pykubelet.api.patch.json_merge_patch import apply_merge_text
from pykubelet.api.patch.strategic_apply import apply_strategic
from pykubelet.api.patch.strategic_diff import diff_strategic

VECTORS = json.loads((Path(__file__).parent / "vectors/strategic.json").read_text())["cases"]
DEFINITIONS = {
    "Pod": "core.v1.Pod",
    "Node": "core.v1.Node",
    "Service": "core.v1.Service",
    "Deployment": "apps.v1.Deployment",
}


def cases(kind: str) -> list[Any]:
    return [
        pytest.param(case, id=f"strategic-{index:03d} {case.get('note') or case.get('type') or kind}")
        for index, case in enumerate(VECTORS)
        if case["kind"] == kind
    ]


def frozen(*documents: Any) -> str:
    return json.dumps(documents, sort_keys=True)


@pytest.mark.parametrize("case", cases("diff"))
def test_diff_makes_the_patch_of_upstream(case: dict[str, Any]) -> None:
    original, modified, definition = case["original"], case["modified"], DEFINITIONS[case["type"]]
    before = frozen(original, modified)
    if "error" in case:
        with pytest.raises(PatchError):
            diff_strategic(original, modified, definition)
    else:
        assert json_equal(diff_strategic(original, modified, definition), case["patch"])
    assert frozen(original, modified) == before


@pytest.mark.parametrize("case", [case for case in cases("diff") if "patch" in case.values[0]])
def test_patch_of_a_diff_applies_as_upstream(case: dict[str, Any]) -> None:
    original, modified, definition = case["original"], case["modified"], DEFINITIONS[case["type"]]
    before = frozen(original, case["patch"])
    if "apply_error" in case:
        with pytest.raises(PatchError):
            apply_strategic(original, case["patch"], definition)
    else:
        result = apply_strategic(original, case["patch"], definition)
        assert json_equal(result, case["result"])
        assert json_equal(result, modified) == case["result_is_modified"]
    assert frozen(original, case["patch"]) == before


@pytest.mark.parametrize("case", cases("apply"))
def test_strategic_patch_gives_the_result_of_upstream(case: dict[str, Any]) -> None:
    original, patch, definition = case["original"], case["patch"], DEFINITIONS[case["type"]]
    before = frozen(original, patch)
    if "error" in case:
        with pytest.raises(PatchError):
            apply_strategic(original, patch, definition)
    else:
        assert apply_strategic(original, patch, definition) == case["result"]
    assert frozen(original, patch) == before


@pytest.mark.parametrize("case", cases("jsonmerge"))
def test_merge_patch_gives_the_result_of_upstream(case: dict[str, Any]) -> None:
    original = case["original_text"] if "original_text" in case else json.dumps(case["original"])
    patch = case["patch_text"] if "patch_text" in case else json.dumps(case["patch"])
    if "error" in case:
        with pytest.raises(PatchError, match=case["error"]):
            apply_merge_text(original, patch)
    else:
        assert json_equal(apply_merge_text(original, patch), case["result"])
