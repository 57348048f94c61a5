"""Three-way diffs, the patches that kubectl apply sends."""

from typing import Any

import pytest

from pykubelet.api.patch.errors import ConflictError
from pykubelet.api.patch.strategic_apply import apply_strategic
from pykubelet.api.patch.strategic_diff import diff_strategic_three_way

Map = dict[str, Any]
POD = "core.v1.Pod"


def labels(**values: str | None) -> Map:
    return {"metadata": {"labels": values}}


def spec(**fields: Any) -> Map:
    return {"spec": fields}


CASES: list[Any] = [
    pytest.param(
        labels(a="1", b="1"), labels(a="2"), labels(a="1", b="1", c="x"), labels(a="2", c="x"), id="others' labels stay"
    ),
    pytest.param(labels(a="1"), labels(a="1"), labels(), labels(a="1"), id="what others deleted comes back"),
    pytest.param(labels(a="1"), labels(), labels(), labels(), id="deleted on both sides"),
    pytest.param(
        spec(containers=[{"name": "a"}, {"name": "b"}]),
        spec(containers=[{"name": "a", "image": "i"}]),
        spec(containers=[{"name": "x"}, {"name": "a", "tty": True}, {"name": "b"}]),
        spec(containers=[{"name": "x"}, {"name": "a", "tty": True, "image": "i"}]),
        id="list by merge key",
    ),
    pytest.param(
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["b", "c"]}},
        {"metadata": {"finalizers": ["a", "b", "x"]}},
        {"metadata": {"finalizers": ["b", "c", "x"]}},
        id="set",
    ),
    pytest.param(
        spec(volumes=[{"name": "v", "emptyDir": {}}]),
        spec(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
        spec(volumes=[{"name": "v", "emptyDir": {}, "secret": {}}]),
        spec(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
        id="retained keys",
    ),
]


@pytest.mark.parametrize(("original", "modified", "current", "expected"), CASES)
def test_patch_carries_the_users_changes_and_no_others(
    original: Map, modified: Map, current: Map, expected: Map
) -> None:
    patch = diff_strategic_three_way(original, modified, current, POD)
    assert apply_strategic(current, patch, POD) == expected


CONFLICTS: list[Any] = [
    pytest.param(labels(a="1"), labels(a="2"), labels(a="3"), True, id="scalar changed by both"),
    pytest.param(labels(a="1"), labels(a="2"), labels(a="1", b="3"), False, id="other scalar"),
    pytest.param(labels(a="1"), labels(a="1", b="2"), {"metadata": {"labels": "x"}}, True, id="other type"),
    pytest.param(spec(), spec(tolerations=[{"key": "a"}]), spec(tolerations="x"), True, id="list and no list"),
    pytest.param(
        spec(tolerations=[{"key": "a"}]),
        spec(tolerations=[{"key": "b"}]),
        spec(tolerations=[{"key": "c"}]),
        True,
        id="atomic list",
    ),
    pytest.param(
        spec(tolerations=[{"key": "a"}]),
        spec(tolerations=[{"key": "b"}]),
        spec(tolerations=[]),
        True,
        id="atomic list of another length",
    ),
    pytest.param(
        spec(hostAliases=[]),
        {"metadata": {"finalizers": ["a"]}},
        {"metadata": {"finalizers": ["b"]}},
        False,
        id="sets never conflict",
    ),
    pytest.param(
        spec(containers=[{"name": "a", "image": "1"}]),
        spec(containers=[{"name": "a", "image": "2"}]),
        spec(containers=[{"name": "a", "image": "3"}]),
        True,
        id="element with the same key",
    ),
    pytest.param(
        spec(containers=[{"name": "a"}]),
        spec(containers=[{"name": "a"}, {"name": "b"}]),
        spec(containers=[{"name": "a"}, {"name": "c"}]),
        False,
        id="elements with other keys",
    ),
    pytest.param(
        spec(containers=[{"name": "a", "image": "1"}]),
        spec(containers=[]),
        spec(containers=[{"name": "a", "image": "2"}]),
        True,
        id="deletion of what was changed",
    ),
    pytest.param(
        spec(containers=[{"name": "a", "args": ["x"]}]),
        spec(containers=[{"name": "a", "args": ["y", "z"]}]),
        spec(containers=[{"name": "a", "args": ["z", "w"]}]),
        True,
        id="atomic scalars",
    ),
    pytest.param(
        spec(tolerations=[{"key": "a"}, {"key": "b"}]),
        spec(tolerations=[{"key": "a", "effect": "NoSchedule"}, {"key": "b"}]),
        spec(tolerations=[{"key": "a", "effect": "NoExecute"}, {"key": "b"}]),
        True,
        id="one of two atomic elements",
    ),
]


@pytest.mark.parametrize(("original", "modified", "current", "conflict"), CONFLICTS)
def test_conflict_is_reported_unless_overwriting(original: Map, modified: Map, current: Map, conflict: bool) -> None:
    diff_strategic_three_way(original, modified, current, POD)
    if conflict:
        with pytest.raises(ConflictError, match="conflicts with changes made from original to current"):
            diff_strategic_three_way(original, modified, current, POD, overwrite=False)
    else:
        diff_strategic_three_way(original, modified, current, POD, overwrite=False)


def test_map_with_replace_strategy_never_conflicts() -> None:
    """Every client sends such a map as a whole."""
    original, modified, current = (spec(selector={"matchLabels": {"a": value}}) for value in "123")
    patch = diff_strategic_three_way(original, modified, current, "policy.v1.PodDisruptionBudget", overwrite=False)
    assert patch == modified


def test_patch_says_nothing_of_what_is_as_it_should_be() -> None:
    """Only the difference from the live document is sent, whatever was applied last."""
    assert diff_strategic_three_way(labels(a="1"), labels(a="2"), labels(a="2"), POD) == {}
    both = diff_strategic_three_way(labels(a="1", b="1"), labels(a="2"), labels(a="2", b="1"), POD)
    assert both == labels(b=None)
