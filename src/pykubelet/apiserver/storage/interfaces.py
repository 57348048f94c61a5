"""The Store interface: objects by key, one revision counter, changes in order; store settings.

The whole state is in memory as JSON text, which is what readers get and costs the garbage collector nothing. A write
is decided by a plain function on the newest state; the event loop runs one such function at a time, so writers never
race. A write is answered, and visible to readers and watchers, once it is on disk.

Upstream: staging/src/k8s.io/apiserver/pkg/storage/interfaces.go
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

from pykubelet.api.serializer import Document, decode_document, encode
from pykubelet.apiserver.storage.reserve import RESERVE_BYTES


class StoreKey(NamedTuple):
    """An object's key: collection (`pods`, `replicasets.apps`), namespace (empty for cluster scope) and name."""

    collection: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """A stored object at a revision; `text` is its JSON, with that revision as metadata.resourceVersion."""

    key: StoreKey
    revision: int
    text: bytes
    _encoded: bytes | None = field(default=None, init=False, compare=False, repr=False)

    def encoded(self, encode_text: Callable[[bytes], bytes]) -> bytes:
        """The object in a second encoding, made of the text when it is first asked for, and then kept.

        There is one such encoding, so `encode_text` must always be the same for the collection.
        """
        found = self._encoded
        if found is None:
            found = encode_text(self.text)
            object.__setattr__(self, "_encoded", found)
        return found

    @property
    def is_encoded(self) -> bool:
        return self._encoded is not None

    def forget_encoded(self) -> None:
        """Frees the second encoding of an entry that is no longer the newest."""
        object.__setattr__(self, "_encoded", None)

    @property
    def document(self) -> Document:
        """The object as a new document; each call decodes it (20 µs for a pod)."""
        decoded: Document = decode_document(self.text)
        return decoded


WriteDecision = Callable[[StoreEntry | None], Document | None]
"""Decides a write: takes the newest entry (None if there is none), returns the document to store, or None to remove it.

Raises ApiError to reject the write. A document equal to the stored one changes nothing and takes no revision. The
store sets metadata.resourceVersion.
"""
MEBIBYTE = 2**20


@dataclass(frozen=True)
class StoreChange:
    """A committed change; `after` is None for a removal. Derived values are computed once for all watchers."""

    revision: int
    key: StoreKey
    before: StoreEntry | None
    after: StoreEntry | None

    @cached_property
    def document(self) -> Document:
        """The object after the change; for a removal its last state, with the removal's revision. Shared."""
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
    def entry(self) -> StoreEntry:
        """The object after the change; for a removal its last state, with the removal's revision. Shared."""
        return StoreEntry(self.key, self.revision, encode(self.document)) if self.after is None else self.after


class Snapshot(NamedTuple):
    """The entries of a collection in key order, at one revision."""

    entries: tuple[StoreEntry, ...]
    revision: int


class ChangeBatch(NamedTuple):
    """Changes in order, and the revision up to which they are complete. A batch may have no changes."""

    changes: tuple[StoreChange, ...]
    revision: int


class ChangeWatch(Protocol):
    """A running watch. Waiting may be cancelled, for example by a timeout, without losing changes."""

    def __aiter__(self) -> AsyncIterator[ChangeBatch]: ...

    async def __anext__(self) -> ChangeBatch: ...

    def take(self) -> ChangeBatch:
        """Returns the pending changes without waiting, and the revision up to which they are complete.

        A bookmark may carry this revision once the changes are sent. The store's own revision may be ahead of this
        watch.
        """


class CommitFeed(Protocol):
    """Reports changes as they are committed, for indexes that must never be stale."""

    def listen(self, collection: str, callback: Callable[[StoreChange], None]) -> None:
        """Calls `callback` for each change of a collection, in order, before its writer, readers or watchers see it.

        Runs on the event loop's thread while the store is open; it must be quick and must not raise.
        """


class Store(CommitFeed, Protocol):
    """A durable, ordered map. All calls are made on the event loop's thread."""

    @property
    def revision(self) -> int:
        """The newest committed revision, which readers and watchers see."""

    def get(self, key: StoreKey) -> StoreEntry | None:
        """The committed entry; O(1)."""

    def newest(self, key: StoreKey) -> StoreEntry | None:
        """The entry as the next write will find it, committed or not: for decisions, not for readers."""

    def newest_in(self, namespace: str) -> tuple[StoreKey, ...]:
        """The keys of everything in a namespace as the next write will find it, for namespace deletion."""

    def list(self, collection: str, namespace: str = "", *, at: int | None = None) -> Snapshot:
        """All entries (of one namespace if given) in key order, now or at an earlier revision; Expired if it is compacted."""

    async def write(self, key: StoreKey, decide: WriteDecision) -> StoreEntry | None:
        """Decides on the newest state, commits, returns the stored entry, or the removed one for a removal."""

    def watch(self, collection: str, after: int) -> AbstractAsyncContextManager[ChangeWatch]:
        """Changes of a collection after a revision, first from history, then live; Expired if they are compacted.

        A reader that falls behind the history gets Expired. The watch ends when the store closes.
        """


class StoreUnusable(Exception):
    """The store's file or key cannot be used; the message says why, and what to do."""


class StoreRefused(StoreUnusable):
    """The file is missing, damaged, or not a database of ours, and is left as it is; the message says only why."""


class StoreInUse(StoreUnusable):
    """Another process has the file open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """The settings of a store; the defaults suit one machine."""

    without_history: frozenset[str] = frozenset({"events", "leases.coordination.k8s.io"})
    """Collections whose history is not stored: they change all the time, and their watches are never resumed for long."""

    lifetimes: Mapping[str, float] = field(default_factory=lambda: {"events": 3600.0})
    """Seconds after its last write that an object of a collection expires; kube-apiserver's --event-ttl is 1 h."""

    history_seconds: float = 300.0
    """As kube-apiserver's --etcd-compaction-interval."""
    history_changes: int = 10_000
    history_bytes: int = 32 * MEBIBYTE
    """Bounds of the history in memory: the first of the three that is reached drops the oldest changes."""

    max_bytes: int = 0
    """The maximum size of the file; 0 for no limit."""

    reserve_bytes: int = RESERVE_BYTES
    """The space kept for a full disk; 0 for none."""

    key_file: Path | None = None
    """The encryption keys, created if the file does not exist; None for no encryption."""
    encrypted: frozenset[str] = frozenset({"secrets"})
