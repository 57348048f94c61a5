"""Which resources are served now: the built-in ones, and custom ones while the server runs."""

from collections.abc import Iterable

from pykubelet.apiserver.served import Served


class Registry:
    """Rows by group, version and plural. `generation` moves with each change, so that what is derived can be kept."""

    def __init__(self, rows: Iterable[Served] = ()) -> None:
        self._rows: dict[tuple[str, str, str], Served] = {}
        self.generation = 0
        for row in rows:
            self.add(row)

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """The row of a resource, or None if it is not served."""
        return self._rows.get((group, version, plural))

    def of_collection(self, collection: str) -> Served | None:
        """A row by its group resource (`replicasets.apps`), in whatever version it is served first."""
        plural, _, group = collection.partition(".")
        return next((row for (of, _, name), row in self._rows.items() if (of, name) == (group, plural)), None)

    def all(self) -> tuple[Served, ...]:
        """Every row, in the order in which they were added."""
        return tuple(self._rows.values())

    def add(self, served: Served) -> None:
        """Serve a resource, or serve it by other rules from now on."""
        resource = served.resource
        self._rows[resource.group, resource.version, resource.plural] = served
        self.generation += 1

    def remove(self, group: str, version: str, plural: str) -> None:
        """Serve it no longer; nothing happens if it was not."""
        if self._rows.pop((group, version, plural), None) is not None:
            self.generation += 1
