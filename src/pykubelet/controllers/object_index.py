"""The objects of one kind that a controller has seen, by key, namespace and owner.

In: one change at a time, each O(1). Out: look-ups. Upstream: the listers and the controllerUID index of
pkg/controller/replicaset/replica_set.go.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Generic, TypeVar

from pykubelet.api.generated.meta import LabelSelector, OwnerReference
from pykubelet.api.selector import SelectorError, selector_from_object
from pykubelet.api.typed import ApiObject

T = TypeVar("T", bound=ApiObject)


def key_of(obj: ApiObject) -> str:
    """`namespace/name`: how controllers call an object."""
    return f"{obj.metadata.namespace}/{obj.metadata.name}"


def manager_of(obj: ApiObject) -> OwnerReference | None:
    """The one owner that manages the object, if any."""
    return next((reference for reference in obj.metadata.owner_references if reference.controller), None)


class ObjectIndex(Generic[T]):
    """Namespaced objects of one kind. Its one owner feeds it; controllers only look things up."""

    def __init__(self, objects: Iterable[T] = ()) -> None:
        self._by_key: dict[str, T] = {}
        self._by_namespace: dict[str, dict[str, T]] = {}
        self._by_manager: dict[str, dict[str, T]] = {}
        self._orphans: dict[str, dict[str, T]] = {}
        for obj in objects:
            self.put(obj)

    def put(self, obj: T) -> T | None:
        """Add an object or replace it; the object that was there."""
        old, key = self.remove(obj), key_of(obj)
        self._by_key[key] = obj
        self._by_namespace.setdefault(obj.metadata.namespace, {})[key] = obj
        if manager := manager_of(obj):
            self._by_manager.setdefault(manager.uid, {})[key] = obj
        else:
            self._orphans.setdefault(obj.metadata.namespace, {})[key] = obj
        return old

    def remove(self, obj: T) -> T | None:
        """Forget the object of this name; the object that was there."""
        key = key_of(obj)
        old = self._by_key.pop(key, None)
        if old is not None:
            _drop(self._by_namespace, old.metadata.namespace, key)
            if manager := manager_of(old):
                _drop(self._by_manager, manager.uid, key)
            else:
                _drop(self._orphans, old.metadata.namespace, key)
        return old

    def get(self, key: str) -> T | None:
        """The object called `namespace/name`."""
        return self._by_key.get(key)

    def all(self) -> Collection[T]:
        """Every object."""
        return self._by_key.values()

    def resolve(self, namespace: str, reference: OwnerReference | None) -> T | None:
        """The very object a reference names: same kind, name and UID."""
        found = self._by_key.get(f"{namespace}/{reference.name}") if reference is not None else None
        if found is None or reference is None:
            return None
        return found if (found.kind, found.metadata.uid) == (reference.kind, reference.uid) else None

    def managed_by(self, uid: str) -> tuple[T, ...]:
        """The objects whose managing owner has this UID."""
        return tuple(self._by_manager.get(uid, {}).values())

    def orphans(self, namespace: str) -> tuple[T, ...]:
        """The objects of a namespace that nobody manages."""
        return tuple(self._orphans.get(namespace, {}).values())

    def selecting(self, other: ApiObject, selector_of: Callable[[T], LabelSelector | None]) -> tuple[T, ...]:
        """The objects of the other's namespace whose selector selects it; an empty or invalid one selects none."""
        labels = other.metadata.labels
        if not labels:
            return ()
        found = []
        for obj in self._by_namespace.get(other.metadata.namespace, {}).values():
            try:
                selector = selector_from_object(selector_of(obj))
            except SelectorError:
                continue
            if not selector.empty() and selector.matches(labels):
                found.append(obj)
        return tuple(found)


def _drop(groups: dict[str, dict[str, T]], group: str, key: str) -> None:
    members = groups[group]
    del members[key]
    if not members:
        del groups[group]
