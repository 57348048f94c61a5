"""The watch cache: newest entries, bounded history, expiry, and the watches of each collection.

A collection is listed in the order of etcd's keys, bytewise by `namespace/name`. History is bounded by number, size and
age; each collection knows its newest dropped change, so that a watch of a quiet collection resumes however much
happened elsewhere. A watch holds the changes of the last few commits, which all watches share. One that falls further
behind holds nothing and reads on from the history; it ends with Expired if the history has moved past it.

Upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/watch_cache.go,
staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go,
staging/src/k8s.io/apiserver/pkg/storage/etcd3/compact.go
"""

import asyncio
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile
from sys import intern
from types import TracebackType
from typing import NamedTuple, Self

from pykubelet.aio.log import get_logger
from pykubelet.api.errors import Expired
from pykubelet.apiserver.storage.interfaces import ChangeBatch, Store, StoreChange, StoreEntry, StoreKey, StoreSettings
from pykubelet.apiserver.storage.sqlite import StoreMeta, StoreRow

log = get_logger(__name__)

HELD_CHANGES = 256
"""Changes a watch holds before it falls back to the history: about 100 ms of the busiest server."""
READ_AT_ONCE = 500
"""Changes read from history at a time, so that the event loop can serve others in between."""
Decrypt = Callable[[StoreKey, bytes], bytes]


class Expiry:
    """When objects of collections with a lifetime expire. A write starts the lifetime anew, as upstream's leases.

    All objects of a collection live equally long, so they expire in the order of their writes. Times are monotonic
    seconds.
    """

    def __init__(self, lifetimes: Mapping[str, float]) -> None:
        self._lifetimes = dict(lifetimes)
        self._ends: dict[str, dict[StoreKey, float]] = {collection: {} for collection in lifetimes}

    def written(self, key: StoreKey, at: float) -> None:
        """Starts the lifetime of a written object."""
        if (ends := self._ends.get(key.collection)) is not None:
            ends.pop(key, None)
            ends[key] = at + self._lifetimes[key.collection]

    def removed(self, key: StoreKey) -> None:
        if (ends := self._ends.get(key.collection)) is not None:
            ends.pop(key, None)

    def due(self, now: float, limit: int) -> list[StoreKey]:
        """Up to `limit` expired objects of each collection; they are returned again until they are removed."""
        return [
            key
            for ends in self._ends.values()
            for key, _ in islice(takewhile(lambda item: item[1] <= now, ends.items()), limit)
        ]


class PastChange(NamedTuple):
    """A change in the history; `at` is in monotonic seconds.

    Unlike StoreChange it caches no decoded documents, which must not live as long as the history.
    """

    revision: int
    before: StoreEntry | None
    after: StoreEntry | None
    at: float

    @property
    def key(self) -> StoreKey:
        entry = self.after or self.before
        assert entry is not None
        return entry.key

    @property
    def size(self) -> int:
        """The memory that only the history keeps alive: entries that are stored now, or precede a later change, do not count."""
        return 0 if self.before is None else len(self.before.text)

    @property
    def change(self) -> StoreChange:
        return StoreChange(self.revision, self.key, self.before, self.after)


class History:
    """The latest changes in order of revision."""

    def __init__(self, settings: StoreSettings, *, forgotten: int) -> None:
        """`forgotten`: changes up to this revision are unknown."""
        self._settings, self._forgotten_at_start = settings, forgotten
        self._forgotten: dict[str, int] = {}
        self._all: deque[PastChange] = deque()
        self._by_collection: defaultdict[str, deque[PastChange]] = defaultdict(deque)
        self._bytes = 0

    def append(self, past: PastChange) -> None:
        self._all.append(past)
        self._by_collection[past.key.collection].append(past)
        self._bytes += past.size
        if past.before is not None:
            past.before.forget_encoded()

    def forget_before(self, collection: str, revision: int) -> None:
        """Marks a collection's changes up to a revision as unknown."""
        self._forgotten[collection] = revision

    def trim(self, now: float) -> list[PastChange]:
        """Drops changes beyond the bounds; returns them, oldest first."""
        dropped: list[PastChange] = []
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
        """Raises Expired if changes of the collection after that revision were dropped."""
        forgotten = self._forgotten.get(collection, self._forgotten_at_start)
        if after < forgotten:
            raise Expired(f"too old resource version: {after} ({forgotten})")

    def since(self, collection: str, after: int, limit: int) -> tuple[StoreChange, ...]:
        """The first `limit` changes of a collection after a revision; Expired if one of them was dropped."""
        self.require(collection, after)
        newest_first = list(self._newest_first(collection, after))
        return tuple(past.change for past in islice(reversed(newest_first), limit))

    def undone(self, collection: str, to: int) -> dict[StoreKey, StoreEntry | None]:
        """The state at a revision of the objects that changed since (None: did not exist); Expired if it was dropped."""
        try:
            self.require(collection, to)
        except Expired as error:
            raise Expired("The resourceVersion for the provided list is too old.") from error
        return {past.key: past.before for past in self._newest_first(collection, to)}

    def _newest_first(self, collection: str, after: int) -> Iterator[PastChange]:
        return takewhile(lambda past: past.revision > after, reversed(self._by_collection.get(collection, ())))

    def __len__(self) -> int:
        return len(self._all)


def path_of(key: StoreKey) -> str:
    """The text that orders the keys of a collection."""
    return f"{key.namespace}/{key.name}"


class _Collection:
    """Entries by path; the paths are sorted on first use and then kept sorted."""

    __slots__ = ("_paths", "entries")

    def __init__(self, entries: dict[str, StoreEntry] | None = None) -> None:
        self.entries: dict[str, StoreEntry] = {} if entries is None else entries
        self._paths: list[str] | None = None

    def put(self, path: str, entry: StoreEntry) -> None:
        if self._paths is not None and path not in self.entries:
            insort(self._paths, path)
        self.entries[path] = entry

    def remove(self, path: str) -> None:
        if self.entries.pop(path, None) is not None and self._paths is not None:
            del self._paths[bisect_left(self._paths, path)]

    def listed(self, namespace: str) -> tuple[StoreEntry, ...]:
        if self._paths is None:
            self._paths = sorted(self.entries)
        paths = self._paths
        if namespace:
            # "0" is the character after "/".
            paths = paths[bisect_left(paths, f"{namespace}/") : bisect_left(paths, f"{namespace}0")]
        return tuple(map(self.entries.__getitem__, paths))


class NewestEntries:
    """The newest committed entries of all collections. A get costs O(1), a list O(its entries), a change O(log n)."""

    def __init__(self) -> None:
        self._collections: defaultdict[str, _Collection] = defaultdict(_Collection)

    def get(self, key: StoreKey) -> StoreEntry | None:
        collection = self._collections.get(key.collection)
        return None if collection is None else collection.entries.get(path_of(key))

    def put(self, entry: StoreEntry) -> None:
        self._collections[entry.key.collection].put(path_of(entry.key), entry)

    def remove(self, key: StoreKey) -> None:
        if collection := self._collections.get(key.collection):
            collection.remove(path_of(key))

    def listed(self, collection: str, namespace: str = "") -> tuple[StoreEntry, ...]:
        """The entries of a collection, or of one namespace in it, in key order."""
        found = self._collections.get(collection)
        return () if found is None else found.listed(namespace)

    def listed_as_it_was(
        self, collection: str, namespace: str, earlier: Mapping[StoreKey, StoreEntry | None]
    ) -> tuple[StoreEntry, ...]:
        """Like `listed`, with some entries in an earlier state (None: did not exist)."""
        found = self._collections.get(collection)
        entries = {} if found is None else dict(found.entries)
        for key, entry in earlier.items():
            if entry is None:
                entries.pop(path_of(key), None)
            else:
                entries[path_of(key)] = entry
        return _Collection(entries).listed(namespace)

    def keys_in(self, namespace: str) -> list[StoreKey]:
        return [entry.key for each in self._collections.values() for entry in each.listed(namespace)]


@dataclass(slots=True, kw_only=True)
class StoreMemory:
    """The memory of a store. `leftovers` are rows that are no longer needed."""

    state: NewestEntries
    history: History
    expiry: Expiry
    revision: int
    leftovers: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Moment:
    """The same moment on the wall clock, which dates rows, and on the monotonic clock."""

    wall_seconds: float
    monotonic_seconds: float

    def monotonic_of(self, wall_seconds: float) -> float:
        """Converts a row's date. A date in the future, after the clock was set back, counts as now."""
        return self.monotonic_seconds - max(0.0, self.wall_seconds - wall_seconds)


def restore(
    rows: Iterable[StoreRow], meta: StoreMeta, settings: StoreSettings, *, now: Moment, decrypt: Decrypt
) -> StoreMemory:
    """Builds the memory from the rows, oldest first."""
    # A collection without history when it was written has none now, whatever the settings are today.
    without_history = settings.without_history | meta.without_history
    memory = StoreMemory(
        state=NewestEntries(),
        history=History(settings, forgotten=meta.compacted),
        expiry=Expiry(settings.lifetimes),
        revision=meta.revision,
    )
    for row in rows:
        key = StoreKey(intern(row.collection), intern(row.namespace), row.name)
        before = memory.state.get(key)
        after = None if row.value is None else StoreEntry(key, row.revision, decrypt(key, row.value))
        at = now.monotonic_of(row.written_at)
        if row.revision > meta.compacted and row.collection not in without_history:
            memory.history.append(PastChange(row.revision, before, after, at))
        else:
            memory.leftovers += [] if before is None else [before.revision]
            memory.leftovers += [] if after is not None else [row.revision]
        if after is None:
            memory.state.remove(key)
            memory.expiry.removed(key)
        else:
            memory.state.put(after)
            memory.expiry.written(key, at)
        memory.revision = max(memory.revision, row.revision)
    for collection in without_history:
        memory.history.forget_before(collection, memory.revision)
    return memory


class StoreWatch:
    """A watch of one collection. It starts by reading the history after `after`."""

    def __init__(self, watches: "Watches", collection: str, after: int) -> None:
        self._watches, self._collection = watches, collection
        self._seen = after
        self._held: list[tuple[StoreChange, ...]] = []
        self._held_count = 0
        self._lags = True
        self._wake: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        self._watches.join(self, self._collection, self._seen)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watches.leave(self, self._collection)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChangeBatch:
        while True:
            batch = self.take()
            if batch.changes:
                return batch
            if self._watches.is_closed:
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    def take(self) -> ChangeBatch:
        """Returns the pending changes; see `ChangeWatch.take`."""
        if self._lags:
            changes = self._watches.history.since(self._collection, self._seen, READ_AT_ONCE)
            is_all = len(changes) < READ_AT_ONCE
            reached = self._watches.revision if is_all else changes[-1].revision
            # A watch from a future revision waits until that revision is committed.
            self._lags = not is_all or reached < self._seen
        else:
            changes = self._held[0] if len(self._held) == 1 else tuple(chain.from_iterable(self._held))
            reached = self._watches.revision
        self._held, self._held_count = [], 0
        self._seen = max(self._seen, reached)
        return ChangeBatch(changes, self._seen)

    def offer(self, changes: tuple[StoreChange, ...]) -> None:
        """Holds changes for the reader and wakes it."""
        if not self._lags:
            self._held.append(changes)
            self._held_count += len(changes)
            # A single commit is held whatever its size, because all watches share it.
            if self._held_count > HELD_CHANGES and len(self._held) > 1:
                self._lags = True
                self._held, self._held_count = [], 0
        self.wake()

    def wake(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class Watches:
    def __init__(self, history: History, revision: int) -> None:
        self.history, self.revision = history, revision
        self.is_closed = False
        self._watches: dict[str, set[StoreWatch]] = {}
        self._listeners: dict[str, list[Callable[[StoreChange], None]]] = {}

    def join(self, watch: StoreWatch, collection: str, after: int) -> None:
        """Adds a watch; Expired if its start is no longer in the history."""
        self.history.require(collection, after)
        self._watches.setdefault(collection, set()).add(watch)

    def leave(self, watch: StoreWatch, collection: str) -> None:
        watches = self._watches[collection]
        watches.discard(watch)
        if not watches:
            del self._watches[collection]

    def listen(self, collection: str, callback: Callable[[StoreChange], None]) -> None:
        self._listeners.setdefault(collection, []).append(callback)

    def has_audience(self, collection: str) -> bool:
        return collection in self._watches or collection in self._listeners

    def publish(self, collection: str, changes: Sequence[StoreChange]) -> None:
        """Hands changes to the listeners and watches of a collection; history and revision are up to date already."""
        for callback in self._listeners.get(collection, ()):
            for change in changes:
                try:
                    callback(change)
                except Exception as error:  # noqa: BLE001  the other listeners and the writer must still get the change
                    log.error("store listener failed", error=error, collection=collection, revision=change.revision)
        shared = tuple(changes)
        for watch in self._watches.get(collection, ()):
            watch.offer(shared)

    def close(self) -> None:
        """Ends every watch once it has returned its pending changes."""
        self.is_closed = True
        for watch in chain.from_iterable(self._watches.values()):
            watch.wake()


class ChangeTracker:
    """Collects the changed objects of some collections for an index, which reads them when it is next used.

    An index such as RBAC's is used often and changes rarely. The store reports a change before any response depends on
    it, so a role takes effect for every request after its write, and an object that changes often is read once. At the
    start, all existing objects count as changed.
    """

    def __init__(self, store: Store, collections: Iterable[str]) -> None:
        self._store = store
        self._changed: dict[StoreKey, None] = {}
        for collection in collections:
            store.listen(collection, self._on_change)
            self._changed.update((entry.key, None) for entry in store.list(collection).entries)

    def __bool__(self) -> bool:
        return bool(self._changed)

    def take(self) -> Iterator[tuple[StoreKey, StoreEntry | None]]:
        """Yields each changed object once, in its current state (None if it is removed)."""
        while self._changed:
            key, _ = self._changed.popitem()
            yield key, self._store.get(key)

    def _on_change(self, change: StoreChange) -> None:
        self._changed[change.key] = None
