"""The rows that every browser has, and what changed in them since it was last told.

In: rows, one at a time. Out: changes. What goes back to where it was is no change; the newest of several counts.
"""

from typing import Generic, Protocol, TypeVar

from msgspec import Struct


class Keyed(Protocol):
    """A row."""

    @property
    def key(self) -> str:
        """What tells it from others."""


Row = TypeVar("Row", bound=Keyed)


class Changes(Struct, Generic[Row], frozen=True):
    """Rows that are new or different, and the keys of those that went."""

    rows: tuple[Row, ...] = ()
    gone: tuple[str, ...] = ()


class Table(Generic[Row]):
    """The rows of one kind, by key; owned by one task."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._before: dict[str, Row | None] = {}

    def put(self, row: Row) -> Row | None:
        """A row is so now; the one before it."""
        return self._replace(row.key, row)

    def drop(self, key: str) -> Row | None:
        """A row is gone; the one there was."""
        return self._replace(key, None)

    def get(self, key: str) -> Row | None:
        """The row of this key."""
        return self._rows.get(key)

    def keys(self) -> tuple[str, ...]:
        """All there are."""
        return tuple(self._rows)

    def rows(self) -> tuple[Row, ...]:
        """All there are."""
        return tuple(self._rows.values())

    def take(self) -> Changes[Row] | None:
        """What changed since this was last asked; None if nothing did."""
        before, self._before = self._before, {}
        rows = tuple(self._rows[key] for key, old in before.items() if key in self._rows and self._rows[key] != old)
        gone = tuple(key for key, old in before.items() if key not in self._rows and old is not None)
        return Changes(rows, gone) if rows or gone else None

    def _replace(self, key: str, row: Row | None) -> Row | None:
        old = self._rows.get(key)
        if old == row:
            return old
        # What the browsers have is what was there when the changes were last taken.
        self._before.setdefault(key, old)
        if row is None:
            del self._rows[key]
        else:
            self._rows[key] = row
        return old
