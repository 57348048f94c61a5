"""Who uses which objects, so that a change of one costs only those who use it.

Pods have files of them, and containers wait for them.
Upstream looks at every pod, at each of its resyncs.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

Who = TypeVar("Who", bound=Hashable)


class Named(NamedTuple):
    """An object that pods may use; the kind is `configmap` or `secret`."""

    kind: str
    namespace: str
    name: str


class Interest(Generic[Who]):
    """Users and the objects they use, both ways."""

    def __init__(self) -> None:
        self._objects: dict[Who, frozenset[Named]] = {}
        self._users: dict[Named, dict[Who, None]] = {}

    def set(self, who: Who, objects: Iterable[Named]) -> None:
        """They use these, and no others."""
        before, now = self._objects.get(who, frozenset()), frozenset(objects)
        for gone in before - now:
            del self._users[gone][who]
            if not self._users[gone]:
                del self._users[gone]
        for new in now - before:
            self._users.setdefault(new, {})[who] = None
        if now:
            self._objects[who] = now
        else:
            self._objects.pop(who, None)

    def users(self, named: Named | None) -> tuple[Who, ...]:
        """Those who use an object, the first one first; of any object if it is not known which."""
        return tuple(self._objects if named is None else self._users.get(named, ()))

    def as_map(self) -> Mapping[Who, frozenset[Named]]:
        """All of it, by user."""
        return self._objects
