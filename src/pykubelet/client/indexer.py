"""Indexes of the objects that informers have seen: by key, owner, namespace and label.

Each change costs O(1), or O(labels) in the label indexes, and a lookup costs as much as it finds. Upstream's listers
scan all objects of a namespace instead.

Upstream: staging/src/k8s.io/client-go/tools/cache/index.go, pkg/controller/controller_utils.go
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import LabelSelector, OwnerReference
from pykubelet.api.labels import SelectorError, selector_from_object
from pykubelet.api.pods import pod_label
from pykubelet.api.scheme import ApiObject
from pykubelet.api.times import nanoseconds

T = TypeVar("T", bound=ApiObject)
G = TypeVar("G")
V = TypeVar("V")
_Place = tuple[str, ...]
"""A namespace, or a namespace, a label and its value."""
_Key = tuple[str, ...]


class ObjectIndex(Generic[T]):
    """Namespaced objects of one kind. The informer writes it; controllers read it."""

    def __init__(self, objects: Iterable[T] = ()) -> None:
        self._by_key: dict[str, T] = {}
        self._by_namespace: dict[str, dict[str, T]] = {}
        self._by_manager: dict[str, dict[str, T]] = {}
        self._orphans: dict[str, dict[str, T]] = {}
        for obj in objects:
            self.put(obj)

    def put(self, obj: T) -> T | None:
        """Adds or replaces an object; returns the previous one."""
        old, key = self.remove(obj), key_of(obj)
        self._by_key[key] = obj
        self._by_namespace.setdefault(obj.metadata.namespace, {})[key] = obj
        if manager := controller_of(obj):
            self._by_manager.setdefault(manager.uid, {})[key] = obj
        else:
            self._orphans.setdefault(obj.metadata.namespace, {})[key] = obj
        return old

    def remove(self, obj: T) -> T | None:
        """Removes the object of this name; returns it."""
        key = key_of(obj)
        old = self._by_key.pop(key, None)
        if old is not None:
            _drop(self._by_namespace, old.metadata.namespace, key)
            if manager := controller_of(old):
                _drop(self._by_manager, manager.uid, key)
            else:
                _drop(self._orphans, old.metadata.namespace, key)
        return old

    def get(self, key: str) -> T | None:
        """The object with the key `namespace/name`."""
        return self._by_key.get(key)

    def all(self) -> Collection[T]:
        return self._by_key.values()

    def resolve(self, namespace: str, reference: OwnerReference | None) -> T | None:
        """The object that a reference names; None unless kind, name and UID match."""
        found = self._by_key.get(f"{namespace}/{reference.name}") if reference is not None else None
        if found is None or reference is None:
            return None
        return found if (found.kind, found.metadata.uid) == (reference.kind, reference.uid) else None

    def managed_by(self, uid: str) -> tuple[T, ...]:
        """The objects whose controller has this UID."""
        return tuple(self._by_manager.get(uid, {}).values())

    def orphans(self, namespace: str) -> tuple[T, ...]:
        """The objects of a namespace that have no controller."""
        return tuple(self._orphans.get(namespace, {}).values())

    def selecting(self, other: ApiObject, selector_of: Callable[[T], LabelSelector | None]) -> tuple[T, ...]:
        """The objects in the other's namespace whose selector matches it; empty and invalid selectors match nothing."""
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


class PodIndex:
    """The pods an informer has seen, by name and by controller. Every change costs O(1)."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._by_key: dict[_Key, dict[str, Pod]] = {}

    def put(self, pod: Pod) -> Pod | None:
        """Adds or replaces a pod; returns the previous one."""
        old = self.remove(pod)
        label = pod_label(pod)
        self._pods[label] = pod
        self._by_key.setdefault(_owner_key_of_pod(pod), {})[label] = pod
        return old

    def remove(self, pod: Pod) -> Pod | None:
        """Removes the pod of this name; returns it."""
        label = pod_label(pod)
        old = self._pods.pop(label, None)
        if old is not None:
            key = _owner_key_of_pod(old)
            _drop(self._by_key, key, label)
        return old

    def get(self, label: str) -> Pod | None:
        """The pod with the key `namespace/name`."""
        return self._pods.get(label)

    def of_owner(self, owner: ApiObject, *, with_orphans: bool = False) -> tuple[Pod, ...]:
        """The pods that `owner` controls and, on request, the orphans of its namespace."""
        keys = [_owner_key(owner), (owner.metadata.namespace,)]
        return tuple(pod for key in keys[: 1 + with_orphans] for pod in self._by_key.get(key, {}).values())

    def count_of_owner(self, owner: ApiObject) -> int:
        return len(self._by_key.get(_owner_key(owner), ()))

    def __len__(self) -> int:
        return len(self._pods)


class LabelIndex(Generic[T]):
    """Objects of one kind by namespace and label."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._places: dict[_Place, dict[str, T]] = {}

    def put(self, obj: T) -> None:
        self.remove(obj)
        self._objects[key_of(obj)] = obj
        for place in _places_of(obj):
            self._places.setdefault(place, {})[key_of(obj)] = obj

    def remove(self, obj: T) -> None:
        """Removes the object of this name."""
        key = key_of(obj)
        old = self._objects.pop(key, None)
        if old is None:
            return
        for place in _places_of(old):
            _drop(self._places, place, key)

    def get(self, key: str) -> T | None:
        """The object with the key `namespace/name`."""
        return self._objects.get(key)

    def labelled(self, namespace: str, labels: Mapping[str, str]) -> list[T]:
        """The objects of a namespace that have all these labels, sorted by name; all objects if no label is given."""
        places = _places_for(namespace, labels)
        fewest = min((self._places.get(place, {}) for place in places), key=len)
        found = [obj for obj in fewest.values() if has_labels(obj.metadata.labels, labels)]
        return sorted(found, key=lambda obj: obj.metadata.name)


class SelectorIndex:
    """The keys of selecting objects (services, budgets), each stored under one of the labels it requires."""

    def __init__(self) -> None:
        self._filed: dict[str, _Place] = {}
        self._places: dict[_Place, dict[str, None]] = {}

    def put(self, key: str, labels: Mapping[str, str]) -> None:
        """Adds or replaces a selecting object (`namespace/name`) that requires at least these labels."""
        self.remove(key)
        namespace = key.partition("/")[0]
        places = _places_for(namespace, labels)
        place = min(places, key=lambda place: len(self._places.get(place, ())))
        self._filed[key] = place
        self._places.setdefault(place, {})[key] = None

    def remove(self, key: str) -> None:
        place = self._filed.pop(key, None)
        if place is not None:
            _drop(self._places, place, key)

    def candidates(self, obj: ApiObject) -> Iterator[str]:
        """The keys of all objects that may select this one."""
        for place in _places_of(obj):
            yield from self._places.get(place, ())


def key_of(obj: ApiObject) -> str:
    """The `namespace/name` key of an object."""
    return f"{obj.metadata.namespace}/{obj.metadata.name}"


def age_key(obj: ApiObject) -> tuple[int, str]:
    """Sorts objects oldest first, then by name."""
    created = obj.metadata.creation_timestamp
    return nanoseconds(created) if created else 0, obj.metadata.name


def controller_of(obj: ApiObject) -> OwnerReference | None:
    """The owner reference of the object's controller, if it has one (upstream: metav1.GetControllerOf)."""
    return next((reference for reference in obj.metadata.owner_references if reference.controller), None)


def _drop(groups: dict[G, dict[str, V]], group: G, key: str) -> None:
    members = groups[group]
    del members[key]
    if not members:
        del groups[group]


def has_labels(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether `labels` contains every required label."""
    return all(labels.get(name) == value for name, value in wanted.items())


def _places_for(namespace: str, labels: Mapping[str, str]) -> list[_Place]:
    """The index entries that each hold every object with all these labels; searching one of them is enough."""
    return [(namespace, name, value) for name, value in labels.items()] or [(namespace,)]


def _places_of(obj: ApiObject) -> Iterator[_Place]:
    namespace = obj.metadata.namespace
    yield (namespace,)
    for name, value in obj.metadata.labels.items():
        yield (namespace, name, value)


def _owner_key_of_pod(pod: Pod) -> _Key:
    """Namespace, kind, name and UID of the controller, or the namespace alone for an orphan."""
    owner = controller_of(pod)
    namespace = pod.metadata.namespace
    return (namespace,) if owner is None else (namespace, owner.kind, owner.name, owner.uid)


def _owner_key(owner: ApiObject) -> _Key:
    meta = owner.metadata
    for word, value in (
        ("namespace", meta.namespace),
        ("name", meta.name),
        ("uid", meta.uid),
        ("kind", owner.kind),
    ):
        if not value:
            raise ValueError(f"no owner {word} provided")
    return (meta.namespace, owner.kind, meta.name, meta.uid)
