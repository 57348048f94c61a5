"""Conditions and finalizers of a terminating namespace."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kinds.namespace import RemainingContent, is_held, is_terminating, with_remaining, without_finalizer

RESOURCES = st.sampled_from(["pods", "widgets.example.com"])
FINALIZERS = st.lists(st.sampled_from(["kubernetes", "example.com/a", "example.com/b"]), max_size=3, unique=True)
REMAINING = st.lists(st.builds(RemainingContent, RESOURCES, FINALIZERS), max_size=5)
FIRST, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"
EMPTY: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {}, "status": {"phase": "Terminating"}}


def said(namespace: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message of each condition."""
    conditions = namespace["status"]["conditions"]
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in conditions}


@given(remaining=REMAINING, failures=st.lists(st.sampled_from(["a", "b"])), undiscovered=st.sampled_from(["", "lost"]))
def test_conditions_settle(remaining: list[RemainingContent], failures: list[str], undiscovered: str) -> None:
    """The same state twice changes nothing; times change only with the status of a condition."""
    first = with_remaining(EMPTY, remaining, failures, FIRST, undiscovered=undiscovered)
    assert with_remaining(first, remaining, failures, LATER, undiscovered=undiscovered) == first
    healed = with_remaining(first, [], [], LATER)
    for before, after in zip(first["status"]["conditions"], healed["status"]["conditions"], strict=True):
        assert after["status"] == "False"
        assert (after["lastTransitionTime"] == LATER) == (before["status"] == "True")


TABLE: dict[str, tuple[list[RemainingContent], list[str], str, dict[str, tuple[str, str]]]] = {
    "nothing": ([], [], "", {}),
    "objects of two kinds": (
        [
            RemainingContent("pods", ()),
            RemainingContent("widgets.example.com", ["b/c", "a/b"]),
            RemainingContent("pods", ["a/b"]),
        ],
        [],
        "",
        {
            "NamespaceContentRemaining": (
                "SomeResourcesRemain",
                (
                    "Some resources are remaining: pods. has 2 resource instances, "
                    "widgets.example.com has 1 resource instances"
                ),
            ),
            "NamespaceFinalizersRemaining": (
                "SomeFinalizersRemain",
                (
                    "Some content in the namespace has finalizers remaining: a/b in 2 resource instances, "
                    "b/c in 1 resource instances"
                ),
            ),
        },
    ),
    "failures": (
        [],
        ["second", "first"],
        "",
        {
            "NamespaceDeletionContentFailure": (
                "ContentDeletionFailed",
                "Failed to delete all resource types, 2 remaining: first, second",
            )
        },
    ),
    "unknown kinds": ([], [], "no answer", {"NamespaceDeletionDiscoveryFailure": ("DiscoveryFailed", "no answer")}),
}


@pytest.mark.parametrize(("remaining", "failures", "undiscovered", "wrong"), TABLE.values(), ids=TABLE)
def test_conditions_report_remaining_content_and_failures(
    remaining: list[RemainingContent], failures: list[str], undiscovered: str, wrong: dict[str, tuple[str, str]]
) -> None:
    """There are always five conditions, and those with something to report are True."""
    found = said(with_remaining(EMPTY, remaining, failures, FIRST, undiscovered=undiscovered))
    assert len(found) == 5
    assert {kind: words for kind, (state, *words) in found.items() if state == "True"} == {
        kind: list(words) for kind, words in wrong.items()
    }


@given(finalizers=FINALIZERS, others=FINALIZERS, ends=st.booleans())
def test_only_the_kubernetes_finalizer_is_removed(*, finalizers: list[str], others: list[str], ends: bool) -> None:
    """Other finalizers still hold the namespace."""
    metadata: dict[str, Any] = {"name": "x", "finalizers": others}
    if ends:
        metadata["deletionTimestamp"] = FIRST
    namespace = {"metadata": metadata, "spec": {"finalizers": finalizers, "more": 1}}
    assert is_terminating(namespace) == (ends and "kubernetes" in finalizers)
    emptied = without_finalizer(namespace)
    assert not is_terminating(emptied)
    assert emptied["spec"].get("finalizers", []) == [name for name in finalizers if name != "kubernetes"]
    assert emptied["spec"]["more"] == 1
    assert is_held(emptied) == bool(set(finalizers) - {"kubernetes"} or others)
