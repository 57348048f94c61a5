"""Decisions of the namespace controller: kinds to empty, conditions, and the delay of the next pass."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.patch.strategic_apply import apply_strategic
from pykubelet.api.schema import CONFIG_MAPS, DEPLOYMENTS, EVENTS, NODES, PODS, Resource
from pykubelet.api.scheme import PartialMeta
from pykubelet.api.times import format_time
from pykubelet.controllers.namespace.namespace_controller import (
    LONGEST_SECONDS,
    DeletionPass,
    UndeletedObject,
    kinds_to_empty,
    next_pass_seconds,
    status_patch,
    undiscovered,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OLD_EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
BETA = Resource("apps", "v1beta1", "deployments", "Deployment")
SERVED = st.lists(st.sampled_from([CONFIG_MAPS, DEPLOYMENTS, BETA, NODES, PODS, EVENTS, OLD_EVENTS]), unique=True)
ENDS = st.none() | st.integers(-100, 1000).map(lambda seconds: format_time(NOW + timedelta(seconds=seconds)))
METADATA = st.builds(
    PartialMeta,
    name=st.just("a"),
    deletion_timestamp=ENDS,
    finalizers=st.sampled_from([(), ("a/b",), ("a/b", "c/d")]),
)
LEFT = st.lists(st.builds(UndeletedObject, st.sampled_from([PODS, DEPLOYMENTS]), METADATA), max_size=4).map(tuple)
PASSES = st.builds(
    DeletionPass, LEFT, st.lists(st.sampled_from(["one", "two"]), unique=True).map(tuple), st.sampled_from(["", "lost"])
)


@given(SERVED)
def test_every_kind_in_namespaces_is_emptied_once_and_pods_first(served: list[Resource]) -> None:
    """Of several versions the first is used, which the server prefers."""
    kinds = kinds_to_empty(served)
    assert {kind.group_resource for kind in kinds} == {one.group_resource for one in served if one.namespaced}
    assert len({kind.group_resource for kind in kinds}) == len(kinds)
    for kind in kinds:
        assert kind == next(one for one in served if one.group_resource == kind.group_resource)
    assert PODS not in kinds[1:]


GRACES = {
    "nothing": ([], 1.0),
    "pod with half a minute": ([30], 16.0),
    "the longest counts": ([30, 4], 16.0),
    "an hour": ([3600], LONGEST_SECONDS / 2 + 1),
    "late, or held": ([-5], 8.5),
    "held, and a pod that goes soon": ([-5, 2], 8.5),
}


@pytest.mark.parametrize(("graces", "expected"), GRACES.values(), ids=GRACES)
def test_waits_for_half_of_what_the_rest_may_take(graces: list[int], expected: float) -> None:
    """The delay has an upper and a lower limit."""
    times = [format_time(NOW + timedelta(seconds=grace)) for grace in graces]
    left = [UndeletedObject(PODS, PartialMeta(deletion_timestamp=time)) for time in times]
    assert next_pass_seconds(left, NOW) == expected


def test_object_that_is_not_being_deleted_yet_counts_like_one_that_is_held() -> None:
    assert next_pass_seconds([UndeletedObject(PODS, PartialMeta())], NOW) == 8.5
    assert next_pass_seconds([], NOW) == 1.0


@given(LEFT)
def test_wait_is_bounded(left: tuple[UndeletedObject, ...]) -> None:
    assert 1 <= next_pass_seconds(left, NOW) <= LONGEST_SECONDS / 2 + 1


@given(PASSES)
def test_namespace_is_let_go_only_if_nothing_is_left_and_nothing_unknown(found: DeletionPass) -> None:
    """A failed or incomplete pass never finalizes the namespace."""
    assert found.found_nothing == (not found.left and not found.failures and not found.undiscovered)
    assert bool(found.problem) == bool(found.failures or found.undiscovered)


@given(PASSES, PASSES)
def test_patch_of_conditions_settles_and_leaves_those_of_others(first: DeletionPass, second: DeletionPass) -> None:
    """The same pass twice causes no second patch, and conditions of other controllers stay."""
    theirs = {"type": "Theirs", "status": "True", "lastTransitionTime": format_time(NOW)}
    status: dict[str, Any] = {"phase": "Terminating", "conditions": [theirs]}
    namespace: dict[str, Any] = {"metadata": {"name": "x", "uid": "u"}, "spec": {}, "status": status}
    for found in (first, second):
        patch = status_patch(namespace, found, NOW)
        if patch is not None:
            assert theirs not in patch["status"]["conditions"]
            assert patch["metadata"] == {"uid": "u"}
            namespace = apply_strategic(namespace, patch, "core.v1.Namespace")
        assert status_patch(namespace, found, NOW + timedelta(seconds=9)) is None
        assert theirs in namespace["status"]["conditions"]
        wrong = {one["type"] for one in namespace["status"]["conditions"] if one["status"] == "True"} - {"Theirs"}
        assert ("NamespaceContentRemaining" in wrong) == bool(found.left)
        assert bool(wrong) != found.found_nothing


def test_unknown_groups_are_named() -> None:
    """They are sorted, so the condition does not change with the server's order."""
    assert undiscovered(()) == ""
    assert undiscovered(("b/v1", "a/v1")) == (
        "Discovery failed for some groups, 2 failing: unable to retrieve the complete list of server APIs: "
        "a/v1: stale GroupVersion discovery: a/v1, b/v1: stale GroupVersion discovery: b/v1"
    )
