"""Who an object is: kind, place, name and UID; and whether a reference means it.

Pure. A UID alone would do, if references were always right. They are written by anybody: one may name a kind, a name or
a namespace that its UID does not belong to. Upstream: pkg/controller/garbagecollector/graph.go, uid_cache.go.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.resources import Resource

MAX_ABSENT = 500


class Identity(NamedTuple):
    """An object, or what somebody takes for one; the order of the fields is the order of identities."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        where = f"namespace: {self.namespace}, name: {self.name}, uid: {self.uid}"
        return f"[{self.api_version}/{self.kind}, {where}]"


def identity_of(resource: Resource, namespace: str, name: str, uid: str) -> Identity:
    """The identity of an object that a resource shows."""
    return Identity(resource.kind, resource.api_version, namespace, name, uid)


def identity_meant(reference: OwnerReference, namespace: str) -> Identity:
    """Whom an object in this namespace means by its reference, if the owner's kind has namespaces."""
    return Identity(reference.kind, reference.api_version, namespace, reference.name, reference.uid)


def means(reference: OwnerReference, identity: Identity) -> bool:
    """Whether the reference names the object, wherever the two are."""
    return identity_meant(reference, identity.namespace) == identity


class AbsentOwners:
    """The last few owners that were found not to be there. A UID that is gone stays gone."""

    def __init__(self, limit: int = MAX_ABSENT) -> None:
        self._limit = limit
        self._known: dict[Identity, None] = {}

    def add(self, identity: Identity) -> None:
        """Note that there is no such object."""
        self._known.pop(identity, None)
        self._known[identity] = None
        if len(self._known) > self._limit:
            del self._known[next(iter(self._known))]

    def has(self, identities: Iterable[Identity]) -> bool:
        """Whether one of them is known not to be there."""
        for identity in identities:
            if identity in self._known:
                self.add(identity)
                return True
        return False
