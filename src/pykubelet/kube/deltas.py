"""What is known of a collection, and what a list or a watch event changes in it.

In: lists and watch events, in the order the server sent them. Out: added, modified and deleted, each object added once
and deleted once before it is added again. Nothing here waits or reads a clock.

Upstream: client-go/tools/cache/delta_fifo.go, store.go.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from pykubelet.kube.client import WatchEvent

T = TypeVar("T")
Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Delta(Generic[T]):
    """One change of one object; for a deletion, the object as it last was."""

    type: Literal["added", "modified", "deleted"]
    object: T


class _Identity(NamedTuple):
    key: Key
    uid: str
    resource_version: str


class KnownObjects(Generic[T]):
    """The last known object of each name, and the revision they are known at; owned by one task."""

    def __init__(self) -> None:
        self.revision = ""
        self._objects: dict[Key, T] = {}
        # News of an object that is unknown here and not above this version are old: it was deleted since.
        self._floor = ""

    def replaced(self, items: Iterable[T], revision: str) -> tuple[Delta[T], ...]:
        """Take a full list as the truth; gives what differs from what was known, deletions first."""
        before, self._objects = self._objects, {_identity(item).key: item for item in items}
        self.revision = self._floor = revision
        gone: list[Delta[T]] = []
        come: list[Delta[T]] = []
        for key, old in before.items():
            if key not in self._objects or _identity(self._objects[key]).uid != _identity(old).uid:
                gone.append(Delta("deleted", old))
        for key, new in self._objects.items():
            known = before.get(key)
            if known is None or _identity(known).uid != _identity(new).uid:
                come.append(Delta("added", new))
            elif _identity(known).resource_version != _identity(new).resource_version:
                come.append(Delta("modified", new))
        return (*gone, *come)

    def observed(self, event: WatchEvent[T]) -> tuple[Delta[T], ...]:
        """Take one watch event; gives nothing if it is old, doubled or a bookmark."""
        if not _older(event.resource_version, self.revision):
            self.revision = event.resource_version or self.revision
        if event.type == "BOOKMARK" or event.object is None:
            return ()
        if event.type == "DELETED":
            return self._deleted(event.object)
        return self._present(event.object)

    def _present(self, new: T) -> tuple[Delta[T], ...]:
        identity = _identity(new)
        known = self._objects.get(identity.key)
        if known is None:
            if not _newer(identity.resource_version, self._floor):
                return ()
            self._objects[identity.key] = new
            return (Delta("added", new),)
        old = _identity(known)
        if identity == old or _older(identity.resource_version, old.resource_version):
            return ()
        self._objects[identity.key] = new
        if identity.uid != old.uid:
            return (Delta("deleted", known), Delta("added", new))
        return (Delta("modified", new),)

    def _deleted(self, last: T) -> tuple[Delta[T], ...]:
        identity = _identity(last)
        if _newer(identity.resource_version, self._floor):
            self._floor = identity.resource_version
        known = self._objects.get(identity.key)
        if known is None or _older(identity.resource_version, _identity(known).resource_version):
            return ()
        del self._objects[identity.key]
        # Another UID, later: the one we know was deleted unseen, and so was its successor.
        return (Delta("deleted", last if identity.uid == _identity(known).uid else known),)


def _identity(obj: Any) -> _Identity:
    if isinstance(obj, dict):
        metadata = obj.get("metadata") or {}
        name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
        return _Identity((namespace, name), metadata.get("uid", ""), metadata.get("resourceVersion", ""))
    metadata = obj.metadata
    return _Identity((metadata.namespace, metadata.name), metadata.uid, metadata.resource_version)


def _is_number(resource_version: str) -> bool:
    return resource_version.isascii() and resource_version.isdigit()


def _older(one: str, other: str) -> bool:
    """Provably older; versions that are no numbers cannot be compared."""
    return _is_number(one) and _is_number(other) and int(one) < int(other)


def _newer(one: str, other: str) -> bool:
    """Newer as far as one can tell."""
    return not (_is_number(one) and _is_number(other)) or int(one) > int(other)
