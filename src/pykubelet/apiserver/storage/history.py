"""What changed lately: to resume watches, to list the past, and to know what the disk may forget.

Bounded by number, size and age, oldest first. Each collection knows which of its own changes was the last to be
forgotten: a watch of a quiet collection resumes however much has happened elsewhere.

Upstream: etcd's compaction as k8s.io/apiserver/pkg/storage/etcd3/compact.go drives it, and the window of
k8s.io/apiserver/pkg/storage/cacher/watch_cache.go.
"""

from collections import defaultdict, deque
from itertools import islice, takewhile
from typing import NamedTuple

from pykubelet.api.errors import Expired
from pykubelet.apiserver.storage.settings import StoreSettings
from pykubelet.apiserver.store import Entry, Key, StoreChange


class Past(NamedTuple):
    """A change as history keeps it; `at` is in the clock's monotonic seconds.

    It is no StoreChange, because that caches decoded documents, and these must not live as long as history.
    """

    revision: int
    before: Entry | None
    after: Entry | None
    at: float

    @property
    def key(self) -> Key:
        """Whose change it was."""
        entry = self.after or self.before
        assert entry is not None
        return entry.key

    @property
    def size(self) -> int:
        """The memory that only history keeps alive: what is stored now, or is a later change's before, counts there."""
        return 0 if self.before is None else len(self.before.text)

    @property
    def change(self) -> StoreChange:
        """The change for a watcher."""
        return StoreChange(self.revision, self.key, self.before, self.after)


class History:
    """The latest changes in order of revision."""

    def __init__(self, settings: StoreSettings, *, forgotten: int) -> None:
        """`forgotten`: changes up to here are not known."""
        self._settings, self._forgotten_at_start = settings, forgotten
        self._forgotten: dict[str, int] = {}
        self._all: deque[Past] = deque()
        self._by_collection: defaultdict[str, deque[Past]] = defaultdict(deque)
        self._bytes = 0

    def append(self, past: Past) -> None:
        """Remember a change, the newest so far."""
        self._all.append(past)
        self._by_collection[past.key.collection].append(past)
        self._bytes += past.size

    def forget_before(self, collection: str, revision: int) -> None:
        """Say that a collection's changes up to a revision are not known."""
        self._forgotten[collection] = revision

    def trim(self, now: float) -> list[Past]:
        """Forget what is beyond the bounds; gives what was forgotten, oldest first."""
        dropped: list[Past] = []
        limits, oldest_at = self._settings, now - self._settings.history_seconds
        while self._all and (
            len(self._all) > limits.history_changes or self._bytes > limits.history_bytes or self._all[0].at < oldest_at
        ):
            past = self._all.popleft()
            collection = past.key.collection
            self._by_collection[collection].popleft()
            self._forgotten[collection] = past.revision
            self._bytes -= past.size
            dropped.append(past)
        return dropped

    def require(self, collection: str, after: int) -> None:
        """Raise Expired if changes of the collection after that revision have been forgotten."""
        forgotten = self._forgotten.get(collection, self._forgotten_at_start)
        if after < forgotten:
            raise Expired(f"too old resource version: {after} ({forgotten})")

    def since(self, collection: str, after: int, limit: int) -> tuple[StoreChange, ...]:
        """The first `limit` changes of a collection after a revision; Expired if one of them was forgotten."""
        self.require(collection, after)
        newest_first = takewhile(lambda past: past.revision > after, reversed(self._by_collection.get(collection, ())))
        changes = list(newest_first)
        changes.reverse()
        return tuple(past.change for past in islice(changes, limit))

    def undone(self, collection: str, to: int) -> dict[Key, Entry | None]:
        """What the objects that changed after a revision were at it (None: not there); Expired if it was forgotten."""
        try:
            self.require(collection, to)
        except Expired as error:
            raise Expired("The resourceVersion for the provided list is too old.") from error
        newest_first = takewhile(lambda past: past.revision > to, reversed(self._by_collection.get(collection, ())))
        return {past.key: past.before for past in newest_first}

    def __len__(self) -> int:
        """How many changes are remembered."""
        return len(self._all)
