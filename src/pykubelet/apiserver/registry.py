"""The kinds that the server serves now: the built-in ones, and custom resources while defined."""

from collections.abc import Iterable

from pykubelet.apiserver.apiextensions import customresourcedefinition
from pykubelet.kinds.kind import Kind
from pykubelet.kinds.registry import KINDS

BUILT_IN_KINDS: tuple[Kind, ...] = (*KINDS, customresourcedefinition.KIND)
"""Every kind that is served when the server starts."""


class ServedKinds:
    """Kinds by group, version and plural. `generation` increments with each change, to invalidate derived values."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self.generation = 0
        for kind in kinds:
            self.add(kind)

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def of_collection(self, collection: str) -> Kind | None:
        """The kind of a group resource (`replicasets.apps`), in the version that was added first."""
        plural, _, group = collection.partition(".")
        return next((kind for (of, _, name), kind in self._kinds.items() if (of, name) == (group, plural)), None)

    def all(self) -> tuple[Kind, ...]:
        """All kinds, in the order in which they were added."""
        return tuple(self._kinds.values())

    def add(self, kind: Kind) -> None:
        """Serves a kind, or replaces the one of the same resource."""
        resource = kind.resource
        self._kinds[resource.group, resource.version, resource.plural] = kind
        self.generation += 1

    def remove(self, group: str, version: str, plural: str) -> None:
        """Stops serving a resource; does nothing if it is not served."""
        if self._kinds.pop((group, version, plural), None) is not None:
            self.generation += 1
