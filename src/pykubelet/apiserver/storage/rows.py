"""What passes between a store and its file: rows, transactions, and why one failed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Row(NamedTuple):
    """One revision of one object; `value` is None if this revision removed it."""

    revision: int
    written_at: int
    collection: str
    namespace: str
    name: str
    value: bytes | None


class Meta(NamedTuple):
    """What a file says about itself."""

    compacted: int
    """What changed up to this revision may be gone."""
    revision: int
    """A revision that was reached, even if its row is gone."""
    without_history: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One transaction: rows to add, revisions to drop; with `compacted` and `revision` for the file's meta data."""

    rows: Sequence[Row] = ()
    dropped: frozenset[int] = frozenset()
    compacted: int = 0
    revision: int = 0


class CommitFailed(Exception):
    """Nothing of the transaction is stored; the message says why."""
