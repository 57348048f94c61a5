"""Known objects turn lists and watch events into changes: each object is added once and deleted once."""

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.client.interface import WatchEvent
from pykubelet.client.reflector import KnownObjects

Type = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


def obj(name: str, uid: str, version: int | str) -> dict[str, Any]:
    return {"metadata": {"namespace": "default", "name": name, "uid": uid, "resourceVersion": str(version)}}


def event(type: Type, name: str, uid: str, version: int | str) -> WatchEvent[dict[str, Any]]:
    return WatchEvent(type, obj(name, uid, version), str(version))


def known(*items: dict[str, Any], revision: str = "10") -> KnownObjects[dict[str, Any]]:
    objects: KnownObjects[dict[str, Any]] = KnownObjects()
    objects.replaced(items, revision)
    return objects


@pytest.mark.parametrize(
    ("type", "name", "uid", "version", "expected"),
    [
        pytest.param("ADDED", "new", "u2", 11, [("added", "u2", "11")], id="added"),
        pytest.param("MODIFIED", "new", "u2", 11, [("added", "u2", "11")], id="modified of an unknown one"),
        pytest.param("DELETED", "new", "u2", 11, [], id="deleted of an unknown one"),
        pytest.param("ADDED", "new", "u2", 10, [], id="added but not after the list"),
        pytest.param("MODIFIED", "web", "u1", 11, [("modified", "u1", "11")], id="modified"),
        pytest.param("ADDED", "web", "u1", 11, [("modified", "u1", "11")], id="added of a known one"),
        pytest.param("MODIFIED", "web", "u1", 5, [], id="doubled"),
        pytest.param("MODIFIED", "web", "u1", 4, [], id="older"),
        pytest.param("MODIFIED", "web", "u1", "b4", [("modified", "u1", "b4")], id="incomparable"),
        pytest.param("DELETED", "web", "u1", 11, [("deleted", "u1", "11")], id="deleted"),
        pytest.param("DELETED", "web", "u1", 5, [("deleted", "u1", "5")], id="deleted without a version of its own"),
        pytest.param("DELETED", "web", "u1", 4, [], id="deleted earlier"),
        pytest.param(
            "ADDED", "web", "u2", 12, [("deleted", "u1", "5"), ("added", "u2", "12")], id="recreated, deletion unseen"
        ),
        pytest.param("DELETED", "web", "u2", 12, [("deleted", "u1", "5")], id="deleted successor never seen"),
        pytest.param("DELETED", "web", "u0", 4, [], id="deleted predecessor, late"),
        pytest.param("BOOKMARK", "web", "u1", 20, [], id="bookmark"),
    ],
)
def test_observed_gives_the_change_once(
    type: Type, name: str, uid: str, version: int | str, expected: list[tuple[str, str, str]]
) -> None:
    objects = known(obj("web", "u1", 5))
    deltas = objects.observed(event(type, name, uid, version))
    shown = [(d.type, d.object["metadata"]["uid"], d.object["metadata"]["resourceVersion"]) for d in deltas]
    assert shown == expected


def test_observed_ignores_late_events_of_a_deleted_object() -> None:
    objects = known(obj("web", "u1", 5))
    objects.observed(event("MODIFIED", "web", "u1", 11))
    objects.observed(event("DELETED", "web", "u1", 12))
    assert objects.observed(event("MODIFIED", "web", "u1", 11)) == ()
    assert objects.observed(event("DELETED", "web", "u1", 12)) == ()


@pytest.mark.parametrize(
    ("version", "revision"),
    [("9", "10"), ("11", "11"), ("", "10"), ("xyz", "xyz")],
    ids=["older", "newer", "none", "x"],
)
def test_observed_moves_the_revision_only_forward(version: str, revision: str) -> None:
    objects = known(revision="10")
    objects.observed(WatchEvent("BOOKMARK", None, version))
    assert objects.revision == revision


def test_replaced_gives_only_differences_and_deletions_first() -> None:
    """Unchanged objects produce no change; a name with another UID is another object."""
    objects = known(obj("gone", "u1", 1), obj("same", "u2", 2), obj("changed", "u3", 3), obj("recreated", "u4", 4))
    items = [obj("same", "u2", 2), obj("changed", "u3", 12), obj("recreated", "u5", 13), obj("new", "u6", 14)]
    deltas = objects.replaced(items, "20")
    assert [(d.type, d.object["metadata"]["uid"]) for d in deltas] == [
        ("deleted", "u1"),
        ("deleted", "u4"),
        ("modified", "u3"),
        ("added", "u5"),
        ("added", "u6"),
    ]
    assert objects.revision == "20"


EVENTS = st.builds(
    event,
    st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["u1", "u2", "u3"]),
    st.integers(1, 30) | st.sampled_from(["x", "y", ""]),
)
LISTS = st.lists(st.builds(obj, st.sampled_from(["a", "b"]), st.sampled_from(["u1", "u2"]), st.integers(1, 30)))


@settings(max_examples=200, deadline=None)
@given(st.lists(EVENTS | LISTS, max_size=30))
def test_changes_are_consistent_for_any_events(steps: list[Any]) -> None:
    """No object is added twice, and only known objects are modified or deleted, whatever the server sends."""
    objects: KnownObjects[dict[str, Any]] = KnownObjects()
    present: dict[str, str] = {}
    for step in steps:
        deltas = objects.replaced(step, "9") if isinstance(step, list) else objects.observed(step)
        for delta in deltas:
            name, uid = delta.object["metadata"]["name"], delta.object["metadata"]["uid"]
            if delta.type == "added":
                assert name not in present
                present[name] = uid
            else:
                assert present[name] == uid
                if delta.type == "deleted":
                    del present[name]
        if isinstance(step, list):
            assert present == {item["metadata"]["name"]: item["metadata"]["uid"] for item in step}
