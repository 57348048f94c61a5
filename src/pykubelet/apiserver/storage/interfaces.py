"""What the verbs ask of a store: objects by key, one revision counter, changes in order.

The whole state is held in memory as JSON text, which is small, is what a reader gets, and costs the garbage collector
nothing; a store makes it durable. A write is decided by a plain function on the newest state, so two writers never
race: the loop runs one such function at a time. It is answered, and seen by readers and watchers, once it is on disk.

How a store keeps its data: what it remembers, for how long, and what it seals.

Which objects changed since they were last looked at: how an index never answers from the past.

An index of access is asked often and changes rarely, so it is brought up to date when it is asked. The store tells of
each change before anybody can know of it (`Commits.listen`), and here only the key is noted; the next question takes the
noted keys and reads the objects as they are now. So a role is in force for every request that follows its write, an
object that changes a thousand times between two questions is read once, and nothing is read if nobody asks.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

from pykubelet.api.serializer import Document, decode_document, encode


class StoreKey(NamedTuple):
    """Where an object lives: `pods` or `replicasets.apps`, its namespace (empty for cluster scope), its name."""

    collection: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """A stored object at a revision; `text` is its JSON and carries that revision as metadata.resourceVersion."""

    key: StoreKey
    revision: int
    text: bytes

    @property
    def document(self) -> Document:
        """The object as a document of the caller's own; decodes (20 µs for a pod), so ask once."""
        decoded: Document = decode_document(self.text)
        return decoded


@dataclass(frozen=True)
class StoreChange:
    """One committed change: the entry before and after it; `after` is None for a removal.

    What watchers need of it is made once, however many they are.
    """

    revision: int
    key: StoreKey
    before: StoreEntry | None
    after: StoreEntry | None

    @cached_property
    def document(self) -> Document:
        """The object after the change; after a removal as it was last, stamped with the removal's revision. Shared."""
        if self.after is not None:
            return self.after.document
        document = self.before_document
        assert document is not None
        return {**document, "metadata": {**document["metadata"], "resourceVersion": str(self.revision)}}

    @cached_property
    def before_document(self) -> Document | None:
        """The object before the change, None if there was none. Shared."""
        return None if self.before is None else self.before.document

    @cached_property
    def text(self) -> bytes:
        """The JSON of `document`."""
        return encode(self.document) if self.after is None else self.after.text


class Snapshot(NamedTuple):
    """The entries of a collection in key order, all as of one revision."""

    entries: tuple[StoreEntry, ...]
    revision: int


class ChangeBatch(NamedTuple):
    """Changes in order, and the revision up to which nothing is missing (a batch without changes only says that)."""

    changes: tuple[StoreChange, ...]
    revision: int


class ChangeWatch(Protocol):
    """A running watch, to be iterated over. Waiting may be cancelled, by a timeout say, and nothing is lost."""

    def __aiter__(self) -> AsyncIterator[ChangeBatch]: ...

    async def __anext__(self) -> ChangeBatch: ...

    def take(self) -> ChangeBatch:
        """What there is now, without waiting: changes if there are any, and the revision up to which none is missing.

        So a bookmark may name `take().revision` once the changes beside it are sent. The store's own revision is not
        as good: changes up to it may still wait in this watch.
        """


class StoreUnusable(Exception):
    """The store's file or its key cannot be used; the message says why, and what to do."""


WriteDecision = Callable[[StoreEntry | None], Document | None]
"""Decides a write: the newest entry (None if there is none) in, the document to store out; None removes it.

Raises ApiError to refuse. A document equal to the stored one changes nothing and takes no revision. The store sets
metadata.resourceVersion, whatever the document says.
"""


class Store(Protocol):
    """A durable, ordered map. Every call is made on the loop's thread."""

    @property
    def revision(self) -> int:
        """The newest committed revision; what readers and watchers have seen."""

    def get(self, key: StoreKey) -> StoreEntry | None:
        """The committed entry; costs O(1)."""

    def newest(self, key: StoreKey) -> StoreEntry | None:
        """The entry as the next write will find it, committed or not: for decisions, never for readers."""

    def newest_in(self, namespace: str) -> tuple[StoreKey, ...]:
        """The keys of everything in a namespace as the next write will find it: for the end of a namespace."""

    def list(self, collection: str, namespace: str = "", *, at: int | None = None) -> Snapshot:
        """All entries (of one namespace if given) in key order, as of now or an earlier revision; Expired if forgotten."""

    async def write(self, key: StoreKey, decide: WriteDecision) -> StoreEntry | None:
        """Decide on the newest state, make durable, answer.

        The entry now stored (or kept, if nothing changed); for a removal the entry that was removed.
        """

    def watch(self, collection: str, after: int) -> AbstractAsyncContextManager[ChangeWatch]:
        """Changes of a collection after a revision, in order, from history and then live; Expired if that is forgotten.

        A reader that falls so far behind that its next change is forgotten gets Expired. Ends when the store closes.
        """


class CommitFeed(Protocol):
    """A store that tells of changes as they happen: for what is derived from objects and must never lag behind them."""

    def listen(self, collection: str, heard: Callable[[StoreChange], None]) -> None:
        """Call back for each change of a collection, in order, before its writer, a reader or a watcher can know of it.

        The call is made on the loop's thread for as long as the store is open; it must be quick and must not raise.
        """


class IndexedStore(CommitFeed, Protocol):
    """What an index needs of the store."""

    def get(self, key: StoreKey) -> StoreEntry | None:
        """The committed entry."""

    def list(self, collection: str, namespace: str = "", *, at: int | None = None) -> Snapshot:
        """All committed entries of a collection."""


class ChangeTracker:
    """The changed objects of a few collections. What the store holds at the start counts as changed."""

    def __init__(self, objects: IndexedStore, collections: Iterable[str]) -> None:
        self._objects = objects
        self._changed: dict[StoreKey, None] = {}
        for collection in collections:
            objects.listen(collection, self._hear)
            self._changed.update((entry.key, None) for entry in objects.list(collection).entries)

    def __bool__(self) -> bool:
        """Whether there is anything to take."""
        return bool(self._changed)

    def take(self) -> Iterator[tuple[StoreKey, StoreEntry | None]]:
        """Each changed object as it is now (None if it is gone), once."""
        while self._changed:
            key, _ = self._changed.popitem()
            yield key, self._objects.get(key)

    def _hear(self, change: StoreChange) -> None:
        self._changed[change.key] = None


MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """The defaults suit one machine; collections are named as in a `Key`."""

    without_history: frozenset[str] = frozenset({"events", "leases.coordination.k8s.io"})
    """Only their newest state goes to disk: they change all the time, and nobody resumes their watches for long."""

    lifetimes: Mapping[str, float] = field(default_factory=lambda: {"events": 3600.0})
    """Seconds after its last write that an object of a collection is removed; kube-apiserver's --event-ttl is 1 h."""

    history_seconds: float = 300.0
    """kube-apiserver has etcd forget what is older than this (--etcd-compaction-interval)."""
    history_changes: int = 10_000
    history_bytes: int = 32 * MEBIBYTE
    """Bounds on memory: whichever of the three is reached first makes the oldest changes forgotten."""

    max_bytes: int = 0
    """The file's largest size; 0: as large as the disk allows."""

    key_file: Path | None = None
    """The keys that seal values at rest, made if there is no such file; None: nothing is sealed."""
    sealed: frozenset[str] = frozenset({"secrets"})
