"""Who owns whom, as far as seen: a node for every object, and for every owner that was only heard of.

Pure. In: objects as they come, change and go, in any order, and what the server says of owners nobody has seen. Out:
`Work`: which objects may be garbage and are to be looked at, and which are to let go of their dependents. A change
costs as much as the object has references; only the end of an owner costs as much as it has dependents.
Upstream: pkg/controller/garbagecollector/graph_builder.go.

Who an object is: kind, place, name and UID; and whether a reference means it.

Pure. A UID alone would do, if references were always right. They are written by anybody: one may name a kind, a name or
a namespace that its UID does not belong to. Upstream: pkg/controller/garbagecollector/graph.go, uid_cache.go.
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
    """An object, or what somebody takes for one; the order of the fields is the order of identities."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        where = f"namespace: {self.namespace}, name: {self.name}, uid: {self.uid}"
        return f"[{self.api_version}/{self.kind}, {where}]"


def identity_of(resource: Resource, namespace: str, name: str, uid: str) -> ObjectIdentity:
    """The identity of an object that a resource shows."""
    return ObjectIdentity(resource.kind, resource.api_version, namespace, name, uid)


def identity_meant(reference: OwnerReference, namespace: str) -> ObjectIdentity:
    """Whom an object in this namespace means by its reference, if the owner's kind has namespaces."""
    return ObjectIdentity(reference.kind, reference.api_version, namespace, reference.name, reference.uid)


def is_reference_to(reference: OwnerReference, identity: ObjectIdentity) -> bool:
    """Whether the reference names the object, wherever the two are."""
    return identity_meant(reference, identity.namespace) == identity


class AbsentOwnerCache:
    """The last few owners that were found not to be there. A UID that is gone stays gone."""

    def __init__(self, limit: int = MAX_ABSENT) -> None:
        self._limit = limit
        self._known: dict[ObjectIdentity, None] = {}

    def add(self, identity: ObjectIdentity) -> None:
        """Note that there is no such object."""
        self._known.pop(identity, None)
        self._known[identity] = None
        if len(self._known) > self._limit:
            del self._known[next(iter(self._known))]

    def has(self, identities: Iterable[ObjectIdentity]) -> bool:
        """Whether one of them is known not to be there."""
        for identity in identities:
            if identity in self._known:
                self.add(identity)
                return True
        return False


@dataclass(slots=True, eq=False)
class GraphNode:
    """One object. A virtual one was named by a dependent and not yet seen."""

    identity: ObjectIdentity
    is_virtual: bool = False
    owners: tuple[OwnerReference, ...] = ()
    dependents: dict[str, "GraphNode"] = field(default_factory=dict)
    blockers: dict[str, "GraphNode"] = field(default_factory=dict)
    """The dependents that must be gone before this object may go, if it is deleted in the foreground."""
    is_being_deleted: bool = False
    is_deleting_dependents: bool = False
    is_orphaning: bool = False
    waiting_blockers: int = 0
    """How many of the blockers wait for blockers of their own."""
    looks: int = 0
    """How often the server was asked about it while it was virtual."""

    def keepers(self) -> list["GraphNode"]:
        """The blockers that this object has to wait for.

        Those that wait for this one in turn do not count: in a ring of objects somebody has to go first.
        """
        return [blocker for blocker in self.blockers.values() if not blocker.waits_for(self)]

    def may_be_free(self) -> bool:
        """Whether it is worth while to look for keepers: all blockers wait themselves, if there are any."""
        return self.waiting_blockers == len(self.blockers)

    def add_blocker(self, node: "GraphNode") -> None:
        """This object may not go before the other one."""
        if node.identity.uid not in self.blockers:
            self.blockers[node.identity.uid] = node
            self.recount(node, +1)

    def drop_blocker(self, node: "GraphNode") -> bool:
        """It may, after all; whether that is new."""
        if self.blockers.pop(node.identity.uid, None) is None:
            return False
        self.recount(node, -1)
        return True

    def recount(self, blocker: "GraphNode", step: int) -> None:
        """Count a blocker that waits itself."""
        self.waiting_blockers += step * blocker.is_deleting_dependents

    def waits_for(self, other: "GraphNode") -> bool:
        """Whether this object waits for its blockers, and the other one is among them or theirs, or is itself."""
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
    """What a change of the graph gives to do; objects by UID."""

    examine: dict[str, None] = field(default_factory=dict)
    examine_later: dict[str, None] = field(default_factory=dict)
    orphan: dict[str, None] = field(default_factory=dict)
    misplaced: list[tuple[ObjectIdentity, OwnerReference]] = field(default_factory=list)
    """Objects with a reference to an owner that is in another namespace, where no owner can be."""

    def look_at(self, nodes: Iterable[GraphNode]) -> None:
        """Have these objects examined."""
        self.examine.update((node.identity.uid, None) for node in nodes)


class OwnerGraph:
    """All nodes. Its one owner tells it of changes."""

    def __init__(self) -> None:
        self._nodes: dict[str, GraphNode] = {}
        self.absent_owners = AbsentOwnerCache()

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: str) -> GraphNode | None:
        """The node of an object."""
        return self._nodes.get(uid)

    def observed(self, identity: ObjectIdentity, metadata: PartialMeta) -> GraphChanges:
        """An object was seen, for the first time or changed."""
        work = GraphChanges()
        node = self._nodes.get(identity.uid)
        if node is None:
            node = self._nodes[identity.uid] = GraphNode(identity)
        elif node.is_virtual:
            self._made_real(node, identity, work)
        self._set_owners(node, metadata.owner_references, work)
        self._set_deletion(node, metadata, work)
        return work

    def deleted(self, uid: str) -> GraphChanges:
        """An object is gone: who depends on it may be garbage, and an owner that waited for it may go."""
        work = GraphChanges()
        node = self._nodes.pop(uid, None)
        if node is None:
            return work
        for reference in node.owners:
            self._leave(node, reference, work)
        if node.dependents:
            self.absent_owners.add(node.identity)
            work.look_at(node.dependents.values())
        return work

    def absent(self, identity: ObjectIdentity) -> GraphChanges:
        """The server says that there is no such object. Dependents may disagree on who it is: then ask on."""
        node = self._nodes.get(identity.uid)
        if node is None:
            return GraphChanges()
        matching, others = _by_meaning(node.dependents.values(), identity)
        is_same = node.identity == identity
        if is_same and not (node.is_virtual and others):
            return self.deleted(identity.uid)
        work = GraphChanges()
        if matching:
            self.absent_owners.add(identity)
            work.look_at(matching)
        if is_same and (other := next_identity_meant(others, identity)):
            node.identity = other
            work.examine_later[identity.uid] = None
        return work

    def unfollowed(self, uid: str) -> GraphChanges:
        """Objects of this kind are no longer seen: what is known of this one must be asked for."""
        work = GraphChanges()
        node = self._nodes.get(uid)
        if node is not None and (node.owners or node.dependents):
            node.is_virtual = True
            node.is_being_deleted = node.is_orphaning = False
            self._set_waiting(node, waits=False)
            work.look_at([node])
        elif node is not None:
            del self._nodes[uid]
        return work

    def _made_real(self, node: GraphNode, identity: ObjectIdentity, work: GraphChanges) -> None:
        """An owner that was only heard of has been seen; who meant somebody else by its UID is looked at."""
        if identity != node.identity:
            _, others = _by_meaning(node.dependents.values(), identity)
            for dependent in others:
                if identity.namespace and dependent.identity.namespace != identity.namespace:
                    wrong = next(owner for owner in dependent.owners if owner.uid == identity.uid)
                    work.misplaced.append((dependent.identity, wrong))
            work.look_at(others)
            node.identity = identity
        node.is_virtual = False

    def _set_owners(self, node: GraphNode, owners: tuple[OwnerReference, ...], work: GraphChanges) -> None:
        left = {owner.uid: owner for owner in node.owners}
        was_blocking = {owner.uid for owner in node.owners if owner.block_owner_deletion}
        blocking = {owner.uid for owner in owners if owner.block_owner_deletion}
        namespace = node.identity.namespace
        meant = {identity_meant(owner, namespace) for owner in node.owners}
        node.owners = owners
        for owner in owners:
            left.pop(owner.uid, None)
        for reference in left.values():
            self._leave(node, reference, work)
        for uid in was_blocking - blocking:
            self._unblock(node, uid, work)
        new = [owner for owner in owners if identity_meant(owner, namespace) not in meant or self._misses(owner, node)]
        self._join(node, new, work)
        for uid in blocking & self._nodes.keys():
            self._nodes[uid].add_blocker(node)

    def _misses(self, reference: OwnerReference, node: GraphNode) -> bool:
        """Whether the owner was taken for gone, and is back without this dependent."""
        owner = self._nodes.get(reference.uid)
        return owner is not None and node.identity.uid not in owner.dependents

    def _join(self, node: GraphNode, owners: Sequence[OwnerReference], work: GraphChanges) -> None:
        """Make the node a dependent of these owners; unknown ones get a virtual node, to be asked about."""
        is_doubtful = False
        for reference in owners:
            owner = self._nodes.get(reference.uid)
            if owner is None:
                owner = GraphNode(identity_meant(reference, node.identity.namespace), is_virtual=True)
                self._nodes[reference.uid] = owner
                work.look_at([owner])
            elif not is_doubtful:
                is_doubtful = _is_doubtful(node, reference, owner, work)
            owner.dependents[node.identity.uid] = node
            # Come late to an owner that waits for all to go.
            is_doubtful |= owner.is_deleting_dependents
        if is_doubtful:
            work.look_at([node])

    def _set_deletion(self, node: GraphNode, metadata: PartialMeta, work: GraphChanges) -> None:
        """Note whether the object is being deleted, and begin what its finalizers ask for."""
        was_orphaning, was_waiting = node.is_orphaning, node.is_deleting_dependents
        node.is_being_deleted = metadata.deletion_timestamp is not None
        node.is_orphaning = node.is_being_deleted and ORPHAN_FINALIZER in metadata.finalizers
        self._set_waiting(node, waits=node.is_being_deleted and FOREGROUND_FINALIZER in metadata.finalizers)
        if node.is_orphaning:
            if not was_orphaning:
                work.orphan[node.identity.uid] = None
        elif node.is_deleting_dependents and not was_waiting:
            work.look_at([*node.dependents.values(), node])

    def _set_waiting(self, node: GraphNode, *, waits: bool) -> None:
        """Note whether the node waits for its dependents; those it blocks count it."""
        if node.is_deleting_dependents == waits:
            return
        blocked = [owner for uid in {one.uid for one in node.owners} if (owner := self._nodes.get(uid)) is not None]
        blocked = [owner for owner in blocked if node.identity.uid in owner.blockers]
        for owner in blocked:
            owner.recount(node, -1)
        node.is_deleting_dependents = waits
        for owner in blocked:
            owner.recount(node, +1)

    def _leave(self, node: GraphNode, reference: OwnerReference, work: GraphChanges) -> None:
        """Take the node from an owner's dependents."""
        owner = self._nodes.get(reference.uid)
        if owner is None:
            return
        owner.dependents.pop(node.identity.uid, None)
        self._unblock(node, reference.uid, work)
        if owner.is_virtual and not owner.dependents and not owner.owners:
            # Nobody speaks of it any more.
            del self._nodes[reference.uid]

    def _unblock(self, node: GraphNode, owner_uid: str, work: GraphChanges) -> None:
        """The owner, if it waits, need not wait for this node."""
        owner = self._nodes.get(owner_uid)
        if owner is None or not owner.drop_blocker(node):
            return
        if owner.is_deleting_dependents and owner.may_be_free():
            work.look_at([owner])


def next_identity_meant(dependents: Iterable[GraphNode], absent: ObjectIdentity) -> ObjectIdentity | None:
    """Whom else these dependents mean by the UID of somebody who is not there: the next in order, or the first."""
    meant: set[ObjectIdentity] = set()
    for node in dependents:
        for reference in node.owners:
            if reference.uid != absent.uid:
                continue
            identity = identity_meant(reference, node.identity.namespace)
            if not absent.namespace and identity[:2] == absent[:2]:
                # The kind has no namespaces, whoever refers to it.
                identity = identity._replace(namespace="")
            meant.add(identity)
    meant.discard(absent)
    return min((identity for identity in meant if identity > absent), default=min(meant, default=None))


def _by_meaning(dependents: Iterable[GraphNode], identity: ObjectIdentity) -> tuple[list[GraphNode], list[GraphNode]]:
    """Who means this object by its UID, and who means another; one with several references may do both."""
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


def _is_doubtful(node: GraphNode, reference: OwnerReference, owner: GraphNode, work: GraphChanges) -> bool:
    """Whether the node's reference does not fit what is known of the owner."""
    place = owner.identity.namespace
    if place and place != node.identity.namespace:
        if not owner.is_virtual:
            work.misplaced.append((node.identity, reference))
        return True
    if not is_reference_to(reference, owner.identity):
        return True
    # An owner without a namespace that only an object without one has spoken of: its kind may have namespaces.
    return owner.is_virtual and place != node.identity.namespace
