"""The owner graph: the work that a change causes, and the consistency of both ends of an edge."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.scheme import PartialMeta
from pykubelet.controllers.garbagecollector.graph import (
    AbsentOwnerCache,
    GraphChanges,
    GraphNode,
    ObjectIdentity,
    OwnerGraph,
    identity_meant,
    is_reference_to,
    next_identity_meant,
)
from pykubelet.controllers.garbagecollector.operations import (
    CollectionDecision,
    OwnerState,
    decide_collection,
    owner_state,
    unblock_patch,
    whole_release_patch,
    whole_unblock_patch,
    without_finalizer,
)


def identity(uid: str, *, namespace: str = "ns", kind: str = "Pod", name: str = "") -> ObjectIdentity:
    return ObjectIdentity(kind, "v1", namespace, name or f"name-{uid}", uid)


def owner(uid: str, *, blocking: bool | None = None, kind: str = "Pod", name: str = "") -> OwnerReference:
    return OwnerReference(
        api_version="v1", kind=kind, name=name or f"name-{uid}", uid=uid, block_owner_deletion=blocking
    )


def meta(*owners: OwnerReference, deleted: bool = False, finalizers: tuple[str, ...] = ()) -> PartialMeta:
    at = "2026-01-01T00:00:00Z" if deleted else None
    return PartialMeta(owner_references=owners, finalizers=finalizers, deletion_timestamp=at)


def seen(graph: OwnerGraph, uid: str, *owners: OwnerReference, **rest: Any) -> GraphChanges:
    return graph.observed(identity(uid), meta(*owners, **rest))


def test_unknown_owner_is_examined_and_if_absent_its_dependents_are() -> None:
    """A virtual node represents the owner until it is known to be absent."""
    graph = OwnerGraph()
    work = seen(graph, "d", owner("o"))
    assert list(work.examine) == ["o"]
    node = graph.get("o")
    assert node is not None
    assert node.is_virtual
    work = graph.absent(identity("o"))
    assert list(work.examine) == ["d"]
    assert graph.get("o") is None
    assert graph.absent_owners.has([identity("o")])


def test_owner_seen_after_its_dependent_becomes_real() -> None:
    """No object is examined, because owner and reference agree."""
    graph = OwnerGraph()
    seen(graph, "d", owner("o"))
    assert seen(graph, "o") == GraphChanges()
    node = graph.get("o")
    assert node is not None
    assert not node.is_virtual


def test_deletion_examines_dependents_and_the_owner_that_waited() -> None:
    graph = OwnerGraph()
    seen(graph, "top", deleted=True, finalizers=("foregroundDeletion",))
    seen(graph, "middle", owner("top", blocking=True))
    seen(graph, "leaf", owner("middle"))
    assert set(graph.deleted("middle").examine) == {"leaf", "top"}
    assert graph.deleted("middle") == GraphChanges()


@pytest.mark.parametrize(
    ("finalizer", "examined", "orphaned"),
    [("foregroundDeletion", {"o", "d"}, set()), ("orphan", set(), {"o"}), ("example.com/x", set(), set())],
)
def test_begin_of_a_deletion_is_noticed_once(finalizer: str, examined: set[str], orphaned: set[str]) -> None:
    """The finalizer decides what is examined or orphaned. A repeated update causes no work."""
    graph = OwnerGraph()
    seen(graph, "o")
    seen(graph, "d", owner("o"))
    work = seen(graph, "o", deleted=True, finalizers=(finalizer,))
    assert (set(work.examine), set(work.orphan)) == (examined, orphaned)
    assert seen(graph, "o", deleted=True, finalizers=(finalizer, "more")) == GraphChanges()


def test_waiting_owner_is_examined_only_when_nothing_blocks_it() -> None:
    """It is examined when its last blocking dependent is deleted or stops blocking."""
    graph = OwnerGraph()
    seen(graph, "o", deleted=True, finalizers=("foregroundDeletion",))
    for uid in "abc":
        assert set(seen(graph, uid, owner("o", blocking=True)).examine) == {uid}
    assert graph.deleted("a") == GraphChanges()
    assert seen(graph, "b", owner("o", blocking=False)) == GraphChanges()
    assert set(seen(graph, "c", owner("o", blocking=False)).examine) == {"o"}


def test_ring_that_waits_for_itself_has_no_keepers() -> None:
    """A blocking dependent outside the ring still counts."""
    graph = OwnerGraph()
    waiting = {"deleted": True, "finalizers": ("foregroundDeletion",)}
    seen(graph, "a", owner("c", blocking=True), **waiting)
    seen(graph, "b", owner("a", blocking=True), **waiting)
    seen(graph, "c", owner("b", blocking=True), **waiting)
    nodes = [graph.get(uid) for uid in "abc"]
    assert [node.blocking_dependents() for node in nodes if node is not None] == [[], [], []]
    seen(graph, "x", owner("a", blocking=True))
    first = graph.get("a")
    assert first is not None
    assert [node.identity.uid for node in first.blocking_dependents()] == ["x"]


def test_reference_to_another_namespace_is_reported_in_either_order() -> None:
    """The dependent is examined. A cluster-scoped owner may have dependents in any namespace."""
    far = identity("d", namespace="other")
    for order in ("owner first", "dependent first"):
        graph = OwnerGraph()
        work = seen(graph, "o") if order == "owner first" else GraphChanges()
        found = graph.observed(far, meta(owner("o")))
        if order == "dependent first":
            found = seen(graph, "o")
        assert work == GraphChanges()
        assert found.misplaced == [(far, owner("o"))]
        assert "d" in found.examine
    graph = OwnerGraph()
    graph.observed(identity("n", namespace=""), meta())
    assert graph.observed(far, meta(owner("n"))) == GraphChanges()


def test_dependents_that_disagree_on_an_owner_are_examined_in_turn() -> None:
    """Only dependents that reference the absent identity are examined; then the next identity in order is tried."""
    graph = OwnerGraph()
    seen(graph, "a", owner("o", name="one"))
    seen(graph, "b", owner("o", name="two"))
    work = graph.absent(identity("o", name="one"))
    assert (set(work.examine), set(work.examine_later)) == ({"a"}, {"o"})
    node = graph.get("o")
    assert node is not None
    assert node.identity.name == "two"
    nodes = [GraphNode(identity("x"), owners=(owner("o", name=name),)) for name in ("b", "d")]
    assert next_identity_meant(nodes, identity("o", name="c")) == identity("o", name="d")
    assert next_identity_meant(nodes, identity("o", name="e")) == identity("o", name="b")
    assert next_identity_meant([], identity("o")) is None


def test_dependent_in_another_namespace_means_another_owner_of_the_same_name() -> None:
    """The absence of the owner in one namespace says nothing about the owner in the other."""
    graph = OwnerGraph()
    seen(graph, "a", owner("o"))
    graph.observed(identity("d", namespace="other"), meta(owner("o")))
    work = graph.absent(identity("o"))
    assert (set(work.examine), set(work.examine_later)) == ({"a"}, {"o"})
    node = graph.get("o")
    assert node is not None
    assert node.identity == identity("o", namespace="other")


def test_dependent_with_two_meanings_of_an_owner_is_examined_for_each() -> None:
    """Two references with the same UID name two objects: after one was found absent, the other is looked up."""
    graph = OwnerGraph()
    seen(graph, "a", owner("o", name="one"), owner("o", name="two"))
    work = graph.absent(identity("o", name="one"))
    assert (set(work.examine), set(work.examine_later)) == ({"a"}, {"o"})
    node = graph.get("o")
    assert node is not None
    assert node.identity.name == "two"


def test_unfollowed_object_is_examined_if_it_has_dependents() -> None:
    """An object without dependents or owners is removed from the graph."""
    graph = OwnerGraph()
    seen(graph, "o")
    seen(graph, "d", owner("o"))
    seen(graph, "alone")
    assert set(graph.unfollowed("o").examine) == {"o"}
    assert graph.unfollowed("alone") == GraphChanges()
    assert graph.get("alone") is None
    assert graph.unfollowed("unknown") == GraphChanges()
    assert set(graph.absent(identity("o")).examine) == {"d"}


def test_absence_is_remembered_of_the_latest_few() -> None:
    """A lookup counts as use; the least recently used entry is dropped."""
    absent = AbsentOwnerCache(limit=2)
    for uid in "ab":
        absent.add(identity(uid))
    assert absent.has([identity("x"), identity("a")])
    absent.add(identity("c"))
    assert [absent.has([identity(uid)]) for uid in "abc"] == [True, False, True]


def test_identity_is_printed_as_upstream_does() -> None:
    """A reference must match in kind, version, name and UID."""
    one = identity("u")
    assert str(one) == "[v1/Pod, namespace: ns, name: name-u, uid: u]"
    assert is_reference_to(owner("u"), one)
    assert not is_reference_to(owner("u", kind="Secret"), one)
    assert identity_meant(owner("u"), "ns") == one


SOLID, DANGLING, WAITING = OwnerState.SOLID, OwnerState.DANGLING, OwnerState.WAITING


@pytest.mark.parametrize(
    ("owners", "finalizers", "dependents", "expected"),
    [
        ([], (), 0, CollectionDecision()),
        ([SOLID], (), 0, CollectionDecision()),
        ([SOLID, DANGLING, WAITING], (), 0, CollectionDecision(release_from=("1", "2"))),
        ([DANGLING], (), 0, CollectionDecision(delete="Background")),
        ([DANGLING], ("orphan",), 0, CollectionDecision(delete="Orphan")),
        ([DANGLING, DANGLING], ("foregroundDeletion",), 0, CollectionDecision(delete="Foreground")),
        ([WAITING], (), 0, CollectionDecision(delete="Background")),
        ([WAITING, DANGLING], (), 1, CollectionDecision(delete="Foreground")),
        ([WAITING], (), 2, CollectionDecision(delete="Foreground", unblock_first=True)),
    ],
    ids=["no owner", "owned", "some gone", "all gone", "orphans", "foreground", "waited for", "chain", "ring"],
)
def test_verdict_on_an_object(
    owners: list[OwnerState], finalizers: tuple[str, ...], dependents: int, expected: CollectionDecision
) -> None:
    """The states of its owners decide. The second dependent is itself waiting for its dependents."""
    node = GraphNode(identity("x"))
    for number in range(dependents):
        node.dependents[str(number)] = GraphNode(identity(str(number)), is_deleting_dependents=number == 1)
    found = [(owner(str(number)), one) for number, one in enumerate(owners)]
    assert decide_collection(node, finalizers, found) == expected


def test_standing_of_an_owner() -> None:
    """An owner waits only if it has the foreground finalizer as well as a deletion timestamp."""
    waiting = meta(deleted=True, finalizers=("foregroundDeletion",))
    found = [owner_state(one) for one in (None, meta(), meta(deleted=True), waiting)]
    assert found == [DANGLING, SOLID, SOLID, WAITING]


def test_patches_change_references_and_finalizers_of_the_version_that_was_read() -> None:
    """Merge patches contain the whole list, strategic patches only the change."""
    latest = PartialMeta(
        uid="u",
        resource_version="7",
        owner_references=(owner("a", blocking=True), owner("b")),
        finalizers=("orphan", "x"),
    )
    version = {"uid": "u", "resourceVersion": "7"}
    left = {"apiVersion": "v1", "kind": "Pod", "name": "name-b", "uid": "b"}
    assert whole_release_patch(latest, {"a"}) == {"metadata": {**version, "ownerReferences": [left]}}
    assert whole_release_patch(latest, {"a", "b"}) == {"metadata": {**version, "ownerReferences": None}}
    unblocked = {**left, "name": "name-a", "uid": "a", "blockOwnerDeletion": False}
    assert unblock_patch(latest) == {"metadata": {"uid": "u", "ownerReferences": [unblocked]}}
    rows = whole_unblock_patch(latest)["metadata"]["ownerReferences"]
    assert [row["blockOwnerDeletion"] for row in rows] == [False, False]
    assert without_finalizer(latest, "orphan") == {"metadata": {**version, "finalizers": ["x"]}}
    assert without_finalizer(latest, "y") is None


UIDS = st.sampled_from("abc")
OWNERS = st.lists(st.builds(owner, UIDS, blocking=st.booleans(), name=st.sampled_from(["", "x"])), max_size=3)
STEPS: list[Callable[..., GraphChanges]] = [
    lambda graph, uid, owners, deleted: graph.observed(
        identity(uid), meta(*owners, deleted=deleted, finalizers=("foregroundDeletion",))
    ),
    lambda graph, uid, owners, deleted: graph.deleted(uid),
    lambda graph, uid, owners, deleted: graph.absent(identity(uid, name="x" if deleted else "")),
    lambda graph, uid, owners, deleted: graph.unfollowed(uid),
]


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from([*STEPS, STEPS[0], STEPS[0]]), UIDS, OWNERS, st.booleans()), max_size=30))
def test_owners_and_dependents_always_agree(steps: list[tuple[Callable[..., GraphChanges], str, Any, bool]]) -> None:
    """After any steps, each dependent in the graph references its owner, and the blocking dependents are right."""
    graph = OwnerGraph()
    for step, uid, owners, deleted in steps:
        work = step(graph, uid, owners, deleted)
        nodes = {name: node for name in "abc" if (node := graph.get(name)) is not None}
        assert len(graph) == len(nodes)
        assert set(work.examine_later) | set(work.orphan) <= nodes.keys()
        for name, node in nodes.items():
            named = {other for other, one in nodes.items() if name in {ref.uid for ref in one.owners}}
            assert set(node.dependents) <= named
            blocking = {
                other
                for other in node.dependents
                if any(ref.uid == name and ref.block_owner_deletion for ref in nodes[other].owners)
            }
            assert set(node.blockers) <= set(node.dependents)
            assert blocking == set(node.blockers)
            assert node.waiting_blockers == sum(one.is_deleting_dependents for one in node.blockers.values())
            assert node.dependents or not node.is_virtual or node.owners
