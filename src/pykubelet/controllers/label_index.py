"""Objects by their labels, and selectors by what they select, without looking at all of them.

Pure. Every change costs as much as the object has labels, a look-up as much as it finds. Upstream goes through all
objects of the namespace instead: labels.Selector over a lister.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from pykubelet.api.typed import ApiObject
from pykubelet.controllers.object_index import key_of

T = TypeVar("T", bound=ApiObject)
_Place = tuple[str, ...]
"""A namespace, or a namespace, a label and its value."""


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
            _drop(self._places, place, key)

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
            _drop(self._places, place, key)

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


_V = TypeVar("_V")


def _drop(places: dict[_Place, dict[str, _V]], place: _Place, key: str) -> None:
    members = places[place]
    del members[key]
    if not members:
        del places[place]
