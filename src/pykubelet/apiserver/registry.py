"""The kinds that the server serves now: the built-in ones, and custom resources while their definitions exist."""

from collections.abc import Iterable

from pykubelet.apiserver.apiextensions import customresourcedefinition
from pykubelet.kinds.kind import Kind
from pykubelet.kinds.registry import KINDS

BUILT_IN_KINDS: tuple[Kind, ...] = (*KINDS, customresourcedefinition.KIND)
"""Every kind that is served when the server starts."""


class ServedKinds:
    """Kinds by group, version and plural. `generation` increments with each change, to invalidate derived values."""

    def __init__(self, rows: Iterable[Kind] = ()) -> None:
        self._rows: dict[tuple[str, str, str], Kind] = {}
        self.generation = 0
        for row in rows:
            self.add(row)

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind of a resource, or None if it is not served."""
        return self._rows.get((group, version, plural))

    def of_collection(self, collection: str) -> Kind | None:
        """The kind of a group resource (`replicasets.apps`), in the version that was added first."""
        plural, _, group = collection.partition(".")
        return next((row for (of, _, name), row in self._rows.items() if (of, name) == (group, plural)), None)

    def all(self) -> tuple[Kind, ...]:
        """All kinds, in the order in which they were added."""
        return tuple(self._rows.values())

    def add(self, served: Kind) -> None:
        """Serves a kind, or replaces the one of the same resource."""
        resource = served.resource
        self._rows[resource.group, resource.version, resource.plural] = served
        self.generation += 1

    def remove(self, group: str, version: str, plural: str) -> None:
        """Stops serving a resource; does nothing if it is not served."""
        if self._rows.pop((group, version, plural), None) is not None:
            self.generation += 1
