"""Which pods have files of which objects, so that a change of one costs only those.

Upstream looks at every pod, at each of its resyncs.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pykubelet.api.keys import PodUid


class Named(NamedTuple):
    """An object that pods may have files of; the kind is `configmap` or `secret`."""

    kind: str
    namespace: str
    name: str


class Interest:
    """Pods and the objects they have files of, both ways."""

    def __init__(self) -> None:
        self._objects: dict[PodUid, frozenset[Named]] = {}
        self._pods: dict[Named, set[PodUid]] = {}

    def set(self, uid: PodUid, objects: Iterable[Named]) -> None:
        """A pod has files of these, and of no others."""
        before, now = self._objects.get(uid, frozenset()), frozenset(objects)
        for gone in before - now:
            self._pods[gone].discard(uid)
            if not self._pods[gone]:
                del self._pods[gone]
        for new in now - before:
            self._pods.setdefault(new, set()).add(uid)
        if now:
            self._objects[uid] = now
        else:
            self._objects.pop(uid, None)

    def pods(self, named: Named) -> tuple[PodUid, ...]:
        """The pods with files of an object."""
        return tuple(sorted(self._pods.get(named, ())))

    def as_map(self) -> Mapping[PodUid, frozenset[Named]]:
        """All of it, by pod."""
        return self._objects
