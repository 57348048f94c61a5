"""Strategic diffs: edge cases that the test vectors do not cover."""

from typing import Any

import pytest

from pykubelet.api.go_print import json_equal
from pykubelet.api.patch.errors import MalformedPatchError, PatchError, UnknownFieldError
from pykubelet.api.patch.strategic_diff import diff_strategic

Map = dict[str, Any]
POD, BUDGET = "core.v1.Pod", ("policy/v1", "PodDisruptionBudget")


def metadata(**fields: Any) -> Map:
    return {"metadata": fields}


CASES: list[Any] = [
    pytest.param(
        metadata(finalizers=["b", "a"]),
        metadata(finalizers=["b", "a"]),
        metadata(**{"$setElementOrder/finalizers": ["b", "a"]}),
        id="unsorted set brings its order along though nothing changed",
    ),
    pytest.param(
        metadata(finalizers=["a", "b"]), metadata(finalizers=["a", "b"]), {}, id="sorted set that stays says nothing"
    ),
    pytest.param(
        metadata(finalizers=["a", "a", "b", "c"]),
        metadata(finalizers=[]),
        metadata(**{"$deleteFromPrimitiveList/finalizers": ["a", "c", "b"]}),
        id="last deletion fills the place of a repeated one",
    ),
    pytest.param(
        metadata(finalizers=["b"]),
        metadata(finalizers=["d", "b", "c"]),
        metadata(**{"finalizers": ["d", "c"], "$setElementOrder/finalizers": ["d", "b", "c"]}),
        id="additions stand in the order of the target",
    ),
    pytest.param(metadata(finalizers=[]), metadata(finalizers=[]), {}, id="empty set that stays"),
    pytest.param(
        metadata(generation=1), metadata(generation=1.0), metadata(generation=1.0), id="float in place of an integer"
    ),
    pytest.param({"a": None}, {"a": None}, {}, id="null that stays"),
    pytest.param({"$patch": "a"}, {"$patch": "b"}, {"$patch": "b"}, id="directive in the documents"),
    pytest.param({"$patch": "a"}, {"$patch": "a"}, {}, id="same directive in the documents"),
    pytest.param({"bogus": {"a": [1]}}, {"bogus": {"a": [1]}}, {}, id="unknown map that stays"),
    pytest.param({"bogus": [1]}, {"bogus": [1]}, {}, id="unknown list that stays"),
    pytest.param(
        {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        {"spec": {"volumes": [{"name": None, "emptyDir": None}, {"name": "v", "emptyDir": {}, "$patch": "delete"}]}},
        {
            "spec": {
                "volumes": [
                    {"name": None, "emptyDir": None},
                    {"name": "v", "$patch": "delete", "$retainKeys": ["$patch", "emptyDir", "name"]},
                ],
                "$setElementOrder/volumes": [{"name": None}, {"name": "v"}],
            }
        },
        id="deletion in the target stays a deletion",
    ),
]


@pytest.mark.parametrize(("original", "modified", "expected"), CASES)
def test_diff_is_that_of_upstream(original: Map, modified: Map, expected: Map) -> None:
    assert json_equal(diff_strategic(original, modified, POD), expected)


def test_map_with_replace_strategy_is_always_sent() -> None:
    """Upstream sends it even when it did not change."""
    document = {"spec": {"selector": {"matchLabels": {"a": "1"}}}}
    assert diff_strategic(document, document, BUDGET) == document


def test_retain_keys_are_left_out_when_there_are_none() -> None:
    """A strategy whose fields all become null retains no keys."""
    original, modified = ({"spec": {"strategy": strategy}} for strategy in ({"type": "a"}, {"type": None}))
    assert diff_strategic(original, modified, "apps.v1.Deployment") == modified


@pytest.mark.parametrize(
    ("original", "modified", "error"),
    [
        pytest.param({"$patch": 1}, {"$patch": 1}, MalformedPatchError, id="directive that is not a word"),
        pytest.param({"bogus": {"a": 1}}, {"bogus": {"a": 2}}, UnknownFieldError, id="unknown map"),
        pytest.param({"bogus": [1]}, {"bogus": [2]}, UnknownFieldError, id="unknown list"),
        pytest.param(metadata(finalizers=["a"]), metadata(finalizers=[1]), PatchError, id="mixed list"),
        pytest.param(metadata(finalizers=[{}]), metadata(finalizers=[{}]), PatchError, id="maps without a merge key"),
    ],
)
def test_diff_of_unmergeable_documents_is_rejected(original: Map, modified: Map, error: type[PatchError]) -> None:
    with pytest.raises(error):
        diff_strategic(original, modified, POD)
