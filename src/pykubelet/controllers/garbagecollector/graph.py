"""The owner graph: a node for every object seen, and a virtual node for every owner only referenced.

Objects arrive, change and go in any order. Each change returns `GraphChanges`: the objects to examine and those whose
dependents to orphan. A change costs as much as the object has references; only the end of an owner costs as much as it
has dependents. Identities hold more than the UID because references are written by anyone: one may combine a UID with
the wrong kind, name or namespace.

Upstream: pkg/controller/garbagecollector/graph.go, pkg/controller/garbagecollector/graph_builder.go,
pkg/controller/garbagecollector/uid_cache.go
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import PartialMeta
from pykubelet.kinds.metadata import FOREGROUND_FINALIZER, ORPHAN_FINALIZER

MAX_ABSENT = 500


class ObjectIdentity(NamedTuple):
    """The coordinates of an object, as stored or as referenced. Identities sort by their fields in this order."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        where = f"namespace: {self.namespace}, name: {self.name}, uid: {self.uid}"
        return f"[{self.api_version}/{self.kind}, {where}]"


@dataclass(slots=True, eq=False)
class GraphNode:
    """One object. A virtual node was referenced by a dependent and not seen yet."""

    identity: ObjectIdentity
    is_virtual: bool = False
    owners: tuple[OwnerReference, ...] = ()
    dependents: dict[str, "GraphNode"] = field(default_factory=dict)
    blockers: dict[str, "GraphNode"] = field(default_factory=dict)
    """Dependents that must be gone before this object, if it is deleted in the foreground."""
    is_being_deleted: bool = False
    is_deleting_dependents: bool = False
    is_orphaning: bool = False
    waiting_blockers: int = 0
    """How many of the blockers wait for blockers of their own."""
    attempts: int = 0
    """How often the server was asked about it while it was virtual."""

    def blocking_dependents(self) -> list["GraphNode"]:
        """The blockers this object has to wait for.

        Blockers that wait for this object in turn do not count, or a cycle could never be deleted.
        """
        return [blocker for blocker in self.blockers.values() if not blocker.waits_for(self)]

    def may_be_free(self) -> bool:
        """Whether `blocking_dependents` may be empty: all blockers, if any, wait themselves."""
        return self.waiting_blockers == len(self.blockers)

    def add_blocker(self, node: "GraphNode") -> None:
        if node.identity.uid not in self.blockers:
            self.blockers[node.identity.uid] = node
            self.recount(node, +1)

    def drop_blocker(self, node: "GraphNode") -> bool:
        if self.blockers.pop(node.identity.uid, None) is None:
            return False
        self.recount(node, -1)
        return True

    def recount(self, blocker: "GraphNode", step: int) -> None:
        """Updates the count of blockers that wait themselves."""
        self.waiting_blockers += step * blocker.is_deleting_dependents

    def waits_for(self, other: "GraphNode") -> bool:
        """Whether this object waits, directly or through other waiting objects, for the other."""
        seen, waiting = {self.identity.uid}, [self]
        while waiting:
            node = waiting.pop()
            if not node.is_deleting_dependents:
                continue
            if node is other:
                return True
            waiting += (blocker for uid, blocker in node.blockers.items() if uid not in seen)
            seen.update(node.blockers)
        return False


@dataclass(slots=True)
class GraphChanges:
    """What follows from a change of the graph; objects by UID."""

    examine: dict[str, None] = field(default_factory=dict)
    examine_later: dict[str, None] = field(default_factory=dict)
    orphan: dict[str, None] = field(default_factory=dict)
    misplaced: list[tuple[ObjectIdentity, OwnerReference]] = field(default_factory=list)
    """Objects that reference an owner in another namespace, which is invalid."""

    def add_to_examine(self, nodes: Iterable[GraphNode]) -> None:
        self.examine.update((node.identity.uid, None) for node in nodes)


class OwnerGraph:
    """All nodes by UID."""

    def __init__(self) -> None:
        self._nodes: dict[str, GraphNode] = {}
        self.absent_owners = AbsentOwnerCache()

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: str) -> GraphNode | None:
        return self._nodes.get(uid)

    def observed(self, identity: ObjectIdentity, metadata: PartialMeta) -> GraphChanges:
        changes = GraphChanges()
        node = self._nodes.get(identity.uid)
        if node is None:
            node = self._nodes[identity.uid] = GraphNode(identity)
        elif node.is_virtual:
            self._materialize(node, identity, changes)
        self._set_owners(node, metadata.owner_references, changes)
        self._set_deletion(node, metadata, changes)
        return changes

    def deleted(self, uid: str) -> GraphChanges:
        """Removes an object: its dependents may be garbage, and an owner waiting for it may be free."""
        changes = GraphChanges()
        node = self._nodes.pop(uid, None)
        if node is None:
            return changes
        for reference in node.owners:
            self._leave(node, reference, changes)
        if node.dependents:
            self.absent_owners.add(node.identity)
            changes.add_to_examine(node.dependents.values())
        return changes

    def absent(self, identity: ObjectIdentity) -> GraphChanges:
        """The server has no such object. If dependents disagree on its identity, the next one is examined."""
        node = self._nodes.get(identity.uid)
        if node is None:
            return GraphChanges()
        matching, others = _by_meaning(node.dependents.values(), identity)
        is_same = node.identity == identity
        if is_same and not (node.is_virtual and others):
            return self.deleted(identity.uid)
        changes = GraphChanges()
        if matching:
            self.absent_owners.add(identity)
            changes.add_to_examine(matching)
        if is_same and (other := next_identity_meant(others, identity)):
            node.identity = other
            changes.examine_later[identity.uid] = None
        return changes

    def unfollowed(self, uid: str) -> GraphChanges:
        """Makes an object virtual whose kind is no longer watched."""
        changes = GraphChanges()
        node = self._nodes.get(uid)
        if node is not None and (node.owners or node.dependents):
            node.is_virtual = True
            node.is_being_deleted = node.is_orphaning = False
            self._set_waiting(node, waits=False)
            changes.add_to_examine([node])
        elif node is not None:
            del self._nodes[uid]
        return changes

    def _materialize(self, node: GraphNode, identity: ObjectIdentity, changes: GraphChanges) -> None:
        """A virtual node was seen; examines the dependents that meant another object by its UID."""
        if identity != node.identity:
            _, others = _by_meaning(node.dependents.values(), identity)
            for dependent in others:
                if identity.namespace and dependent.identity.namespace != identity.namespace:
                    wrong = next(owner for owner in dependent.owners if owner.uid == identity.uid)
                    changes.misplaced.append((dependent.identity, wrong))
            changes.add_to_examine(others)
            node.identity = identity
        node.is_virtual = False

    def _set_owners(self, node: GraphNode, owners: tuple[OwnerReference, ...], changes: GraphChanges) -> None:
        left = {owner.uid: owner for owner in node.owners}
        was_blocking = {owner.uid for owner in node.owners if owner.block_owner_deletion}
        blocking = {owner.uid for owner in owners if owner.block_owner_deletion}
        namespace = node.identity.namespace
        meant = {identity_meant(owner, namespace) for owner in node.owners}
        node.owners = owners
        for owner in owners:
            left.pop(owner.uid, None)
        for reference in left.values():
            self._leave(node, reference, changes)
        for uid in was_blocking - blocking:
            self._unblock(node, uid, changes)
        new = [owner for owner in owners if identity_meant(owner, namespace) not in meant or self._misses(owner, node)]
        self._join(node, new, changes)
        for uid in blocking & self._nodes.keys():
            self._nodes[uid].add_blocker(node)

    def _misses(self, reference: OwnerReference, node: GraphNode) -> bool:
        """Whether the owner was considered gone and returned without this dependent."""
        owner = self._nodes.get(reference.uid)
        return owner is not None and node.identity.uid not in owner.dependents

    def _join(self, node: GraphNode, owners: Sequence[OwnerReference], changes: GraphChanges) -> None:
        """Makes the node a dependent of these owners; unknown ones get a virtual node to examine."""
        is_doubtful = False
        for reference in owners:
            owner = self._nodes.get(reference.uid)
            if owner is None:
                owner = GraphNode(identity_meant(reference, node.identity.namespace), is_virtual=True)
                self._nodes[reference.uid] = owner
                changes.add_to_examine([owner])
            elif not is_doubtful:
                is_doubtful = _is_doubtful(node, reference, owner, changes)
            owner.dependents[node.identity.uid] = node
            # A new dependent of an owner that waits for its dependents.
            is_doubtful |= owner.is_deleting_dependents
        if is_doubtful:
            changes.add_to_examine([node])

    def _set_deletion(self, node: GraphNode, metadata: PartialMeta, changes: GraphChanges) -> None:
        """Records whether the object is being deleted, and starts what its finalizers require."""
        was_orphaning, was_waiting = node.is_orphaning, node.is_deleting_dependents
        node.is_being_deleted = metadata.deletion_timestamp is not None
        node.is_orphaning = node.is_being_deleted and ORPHAN_FINALIZER in metadata.finalizers
        self._set_waiting(node, waits=node.is_being_deleted and FOREGROUND_FINALIZER in metadata.finalizers)
        if node.is_orphaning:
            if not was_orphaning:
                changes.orphan[node.identity.uid] = None
        elif node.is_deleting_dependents and not was_waiting:
            changes.add_to_examine([*node.dependents.values(), node])

    def _set_waiting(self, node: GraphNode, *, waits: bool) -> None:
        """Records whether the node waits for its dependents; owners it blocks update their count."""
        if node.is_deleting_dependents == waits:
            return
        blocked = [owner for uid in {one.uid for one in node.owners} if (owner := self._nodes.get(uid)) is not None]
        blocked = [owner for owner in blocked if node.identity.uid in owner.blockers]
        for owner in blocked:
            owner.recount(node, -1)
        node.is_deleting_dependents = waits
        for owner in blocked:
            owner.recount(node, +1)

    def _leave(self, node: GraphNode, reference: OwnerReference, changes: GraphChanges) -> None:
        owner = self._nodes.get(reference.uid)
        if owner is None:
            return
        owner.dependents.pop(node.identity.uid, None)
        self._unblock(node, reference.uid, changes)
        if owner.is_virtual and not owner.dependents and not owner.owners:
            # No object references it any more.
            del self._nodes[reference.uid]

    def _unblock(self, node: GraphNode, owner_uid: str, changes: GraphChanges) -> None:
        """The owner need not wait for this node any more."""
        owner = self._nodes.get(owner_uid)
        if owner is None or not owner.drop_blocker(node):
            return
        if owner.is_deleting_dependents and owner.may_be_free():
            changes.add_to_examine([owner])


class AbsentOwnerCache:
    """The most recent owners found absent. A deleted UID never returns."""

    def __init__(self, limit: int = MAX_ABSENT) -> None:
        self._limit = limit
        self._known: dict[ObjectIdentity, None] = {}

    def add(self, identity: ObjectIdentity) -> None:
        """Records that there is no such object."""
        self._known.pop(identity, None)
        self._known[identity] = None
        if len(self._known) > self._limit:
            del self._known[next(iter(self._known))]

    def has(self, identities: Iterable[ObjectIdentity]) -> bool:
        """Whether one of them is known to be absent."""
        for identity in identities:
            if identity in self._known:
                self.add(identity)
                return True
        return False


def identity_of(resource: Resource, namespace: str, name: str, uid: str) -> ObjectIdentity:
    return ObjectIdentity(resource.kind, resource.api_version, namespace, name, uid)


def identity_meant(reference: OwnerReference, namespace: str) -> ObjectIdentity:
    """The identity an owner reference in this namespace names, assuming a namespaced owner."""
    return ObjectIdentity(reference.kind, reference.api_version, namespace, reference.name, reference.uid)


def is_reference_to(reference: OwnerReference, identity: ObjectIdentity) -> bool:
    """Whether the reference names the object, regardless of namespaces."""
    return identity_meant(reference, identity.namespace) == identity


def next_identity_meant(dependents: Iterable[GraphNode], absent: ObjectIdentity) -> ObjectIdentity | None:
    """Which other object these dependents mean by the UID of an absent one: the next in order, or the first."""
    meant: set[ObjectIdentity] = set()
    for node in dependents:
        for reference in node.owners:
            if reference.uid != absent.uid:
                continue
            identity = identity_meant(reference, node.identity.namespace)
            if not absent.namespace and identity[:2] == absent[:2]:
                # The kind is cluster-scoped.
                identity = identity._replace(namespace="")
            meant.add(identity)
    meant.discard(absent)
    return min((identity for identity in meant if identity > absent), default=min(meant, default=None))


def _by_meaning(dependents: Iterable[GraphNode], identity: ObjectIdentity) -> tuple[list[GraphNode], list[GraphNode]]:
    """The dependents that mean this object by its UID, and those that mean another; one may be in both."""
    matching: list[GraphNode] = []
    others: list[GraphNode] = []
    for node in dependents:
        references = [owner for owner in node.owners if owner.uid == identity.uid]
        is_reachable = not identity.namespace or identity.namespace == node.identity.namespace
        if is_reachable and any(is_reference_to(reference, identity) for reference in references):
            matching.append(node)
        if not is_reachable or not all(is_reference_to(reference, identity) for reference in references):
            others.append(node)
    return matching, others


def _is_doubtful(node: GraphNode, reference: OwnerReference, owner: GraphNode, changes: GraphChanges) -> bool:
    """Whether the node's reference contradicts what is known of the owner."""
    place = owner.identity.namespace
    if place and place != node.identity.namespace:
        if not owner.is_virtual:
            changes.misplaced.append((node.identity, reference))
        return True
    if not is_reference_to(reference, owner.identity):
        return True
    # A virtual owner referenced by a cluster-scoped object only: its kind may be namespaced.
    return owner.is_virtual and place != node.identity.namespace
