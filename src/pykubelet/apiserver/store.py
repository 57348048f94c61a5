"""What the verbs ask of a store: objects by key, one revision counter, changes in order.

The whole state is held in memory as JSON text, which is small, is what a reader gets, and costs the garbage collector
nothing; a store makes it durable. A write is decided by a plain function on the newest state, so two writers never
race: the loop runs one such function at a time. It is answered, and seen by readers and watchers, once it is on disk.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

from pykubelet.api.wire import Document, decode_document, encode


class Key(NamedTuple):
    """Where an object lives: `pods` or `replicasets.apps`, its namespace (empty for cluster scope), its name."""

    collection: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored object at a revision; `text` is its JSON and carries that revision as metadata.resourceVersion."""

    key: Key
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
    key: Key
    before: Entry | None
    after: Entry | None

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

    entries: tuple[Entry, ...]
    revision: int


class Batch(NamedTuple):
    """Changes in order, and the revision up to which nothing is missing (a batch without changes only says that)."""

    changes: tuple[StoreChange, ...]
    revision: int


class Watch(Protocol):
    """A running watch, to be iterated over. Waiting may be cancelled, by a timeout say, and nothing is lost."""

    def __aiter__(self) -> AsyncIterator[Batch]: ...

    async def __anext__(self) -> Batch: ...

    def take(self) -> Batch:
        """What there is now, without waiting: changes if there are any, and the revision up to which none is missing.

        So a bookmark may name `take().revision` once the changes beside it are sent. The store's own revision is not
        as good: changes up to it may still wait in this watch.
        """


class StoreUnusable(Exception):
    """The store's file or its key cannot be used; the message says why, and what to do."""


Write = Callable[[Entry | None], Document | None]
"""Decides a write: the newest entry (None if there is none) in, the document to store out; None removes it.

Raises ApiError to refuse. A document equal to the stored one changes nothing and takes no revision. The store sets
metadata.resourceVersion, whatever the document says.
"""


class Store(Protocol):
    """A durable, ordered map. Every call is made on the loop's thread."""

    @property
    def revision(self) -> int:
        """The newest committed revision; what readers and watchers have seen."""

    def get(self, key: Key) -> Entry | None:
        """The committed entry; costs O(1)."""

    def newest(self, key: Key) -> Entry | None:
        """The entry as the next write will find it, committed or not: for decisions, never for readers."""

    def newest_in(self, namespace: str) -> tuple[Key, ...]:
        """The keys of everything in a namespace as the next write will find it: for the end of a namespace."""

    def list(self, collection: str, namespace: str = "", *, at: int | None = None) -> Snapshot:
        """All entries (of one namespace if given) in key order, as of now or an earlier revision; Expired if forgotten."""

    async def write(self, key: Key, decide: Write) -> Entry | None:
        """Decide on the newest state, make durable, answer.

        The entry now stored (or kept, if nothing changed); for a removal the entry that was removed.
        """

    def watch(self, collection: str, after: int) -> AbstractAsyncContextManager[Watch]:
        """Changes of a collection after a revision, in order, from history and then live; Expired if that is forgotten.

        A reader that falls so far behind that its next change is forgotten gets Expired. Ends when the store closes.
        """


class Commits(Protocol):
    """A store that tells of changes as they happen: for what is derived from objects and must never lag behind them."""

    def listen(self, collection: str, heard: Callable[[StoreChange], None]) -> None:
        """Call back for each change of a collection, in order, before its writer, a reader or a watcher can know of it.

        The call is made on the loop's thread for as long as the store is open; it must be quick and must not raise.
        """
