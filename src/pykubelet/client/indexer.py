"""Objects by their labels, and selectors by what they select, without looking at all of them.

Pure. Every change costs as much as the object has labels, a look-up as much as it finds. Upstream goes through all
objects of the namespace instead: labels.Selector over a lister.

Pods by their managing owner, kept up to date one change at a time.

Upstream: PodControllerIndex and FilterPodsByOwner in pkg/controller/controller_utils.go.

The objects of one kind that a controller has seen, by key, namespace and owner.

In: one change at a time, each O(1). Out: look-ups. Upstream: the listers and the controllerUID index of
pkg/controller/replicaset/replica_set.go.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import LabelSelector, OwnerReference
from pykubelet.api.labels import SelectorError, selector_from_object
from pykubelet.api.pods import pod_label
from pykubelet.api.scheme import ApiObject

T = TypeVar("T", bound=ApiObject)
_Place = tuple[str, ...]
"""A namespace, or a namespace, a label and its value."""
_V = TypeVar("_V")
_Key = tuple[str, ...]


def key_of(obj: ApiObject) -> str:
    """`namespace/name`: how controllers call an object."""
    return f"{obj.metadata.namespace}/{obj.metadata.name}"


def controller_of(obj: ApiObject) -> OwnerReference | None:
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
        if manager := controller_of(obj):
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
            if manager := controller_of(old):
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


class LabelIndex(Generic[T]):
    """Objects of one kind, by namespace and label. Its one owner feeds it."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._places: dict[_Place, dict[str, T]] = {}

    def put(self, obj: T) -> None:
        """Add an object or replace it."""
        self.remove(obj)
        self._objects[key_of(obj)] = obj
        for place in _places_of(obj):
            self._places.setdefault(place, {})[key_of(obj)] = obj

    def remove(self, obj: T) -> None:
        """Forget the object of this name."""
        key = key_of(obj)
        old = self._objects.pop(key, None)
        if old is None:
            return
        for place in _places_of(old):
            _label_index_drop(self._places, place, key)

    def get(self, key: str) -> T | None:
        """The object called `namespace/name`."""
        return self._objects.get(key)

    def labelled(self, namespace: str, labels: Mapping[str, str]) -> list[T]:
        """The objects of a namespace that have all these labels, by name; all of them if there are none."""
        places = _places_asked(namespace, labels)
        fewest = min((self._places.get(place, {}) for place in places), key=len)
        found = [obj for obj in fewest.values() if has_labels(obj.metadata.labels, labels)]
        return sorted(found, key=lambda obj: obj.metadata.name)


class SelectorIndex:
    """Who selects objects by labels: each is filed under one of the labels it asks for."""

    def __init__(self) -> None:
        self._filed: dict[str, _Place] = {}
        self._places: dict[_Place, dict[str, None]] = {}

    def put(self, key: str, labels: Mapping[str, str]) -> None:
        """Add or change who selects, as `namespace/name`: it asks for at least these labels."""
        self.remove(key)
        namespace = key.partition("/")[0]
        places = _places_asked(namespace, labels)
        place = min(places, key=lambda place: len(self._places.get(place, ())))
        self._filed[key] = place
        self._places.setdefault(place, {})[key] = None

    def remove(self, key: str) -> None:
        """Forget who selects."""
        place = self._filed.pop(key, None)
        if place is not None:
            _label_index_drop(self._places, place, key)

    def candidates(self, obj: ApiObject) -> Iterator[str]:
        """Who may select the object; nobody else does."""
        for place in _places_of(obj):
            yield from self._places.get(place, ())


def has_labels(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether all that is wanted is there."""
    return all(labels.get(name) == value for name, value in wanted.items())


def _places_asked(namespace: str, labels: Mapping[str, str]) -> list[_Place]:
    """Where to look for who has all these labels; one of the places is enough."""
    return [(namespace, name, value) for name, value in labels.items()] or [(namespace,)]


def _places_of(obj: ApiObject) -> Iterator[_Place]:
    namespace = obj.metadata.namespace
    yield (namespace,)
    for name, value in obj.metadata.labels.items():
        yield (namespace, name, value)


def _label_index_drop(places: dict[_Place, dict[str, _V]], place: _Place, key: str) -> None:
    members = places[place]
    del members[key]
    if not members:
        del places[place]


def _key_of(pod: Pod) -> _Key:
    """Namespace, kind, name and UID of the managing owner, or the namespace alone for an orphan."""
    owner = controller_of(pod)
    namespace = pod.metadata.namespace
    return (namespace,) if owner is None else (namespace, owner.kind, owner.name, owner.uid)


class PodIndex:
    """The pods a controller has seen, by name and by owner. Every change costs O(1)."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._by_key: dict[_Key, dict[str, Pod]] = {}

    def put(self, pod: Pod) -> Pod | None:
        """Add a pod or replace it; the pod that was there."""
        old = self.remove(pod)
        label = pod_label(pod)
        self._pods[label] = pod
        self._by_key.setdefault(_key_of(pod), {})[label] = pod
        return old

    def remove(self, pod: Pod) -> Pod | None:
        """Forget the pod of this name; the pod that was there."""
        label = pod_label(pod)
        old = self._pods.pop(label, None)
        if old is not None:
            key = _key_of(old)
            members = self._by_key[key]
            del members[label]
            if not members:
                del self._by_key[key]
        return old

    def get(self, label: str) -> Pod | None:
        """The pod called `namespace/name`."""
        return self._pods.get(label)

    def of_owner(self, owner: ApiObject, *, with_orphans: bool = False) -> tuple[Pod, ...]:
        """The pods `owner` manages and, if asked for, those of its namespace that nobody does."""
        keys = [_key_of_owner(owner), (owner.metadata.namespace,)]
        return tuple(pod for key in keys[: 1 + with_orphans] for pod in self._by_key.get(key, {}).values())

    def count_of_owner(self, owner: ApiObject) -> int:
        """How many pods `owner` manages."""
        return len(self._by_key.get(_key_of_owner(owner), ()))

    def __len__(self) -> int:
        return len(self._pods)


def _key_of_owner(owner: ApiObject) -> _Key:
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
