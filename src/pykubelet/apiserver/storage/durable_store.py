"""The durable store: decides writes on the event loop, commits them in a thread, then publishes them.

    write -> decide on the newest state -> queue -> one transaction for all that wait -> memory, watches, responses

The newest state is the committed one with pending writes on top; only decisions see it. An error or a no-op that
depends on a pending write waits for that write, so that no response rests on what a crash could undo.

Upstream: staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import ApiError, ServiceUnavailable
from pykubelet.api.serializer import Document, decode_document, encode
from pykubelet.apiserver.errors import too_large_version
from pykubelet.apiserver.storage.encryption import EncryptionTransformer, make_key, read_keys
from pykubelet.apiserver.storage.group_commit import Garbage, GroupCommit, Operation
from pykubelet.apiserver.storage.interfaces import (
    Snapshot,
    StoreChange,
    StoreEntry,
    StoreKey,
    StoreSettings,
    WriteDecision,
)
from pykubelet.apiserver.storage.reserve import REFUSED
from pykubelet.apiserver.storage.sqlite import StoreFile
from pykubelet.apiserver.storage.watch_cache import Moment, PastChange, StoreMemory, StoreWatch, Watches, restore

HOUSEKEEPING_SECONDS = 10.0
FIRST_HOUSEKEEPING_SECONDS = 0.5
"""Not at once, so that a program starts faster."""
FULL_HOUSEKEEPING_SECONDS = 1.0
"""How often a store on a full disk tries whether there is space again."""
EXPIRED_AT_ONCE = 500
"""Expired objects removed at a time; the rest follows soon after."""
NEXT_EXPIRED_SECONDS = 0.1


class DurableStore:
    """The Store implementation on one SQLite file; see `open_store`."""

    def __init__(
        self,
        memory: StoreMemory,
        file: StoreFile,
        thread: ThreadPoolExecutor,
        *,
        settings: StoreSettings,
        encryption: EncryptionTransformer,
        clock: Clock,
    ) -> None:
        self._state, self._history, self._expiry = memory.state, memory.history, memory.expiry
        self._clock, self._settings = clock, settings
        self._assigned = memory.revision
        self._watches = Watches(memory.history, memory.revision)
        self._pending: dict[StoreKey, Operation] = {}
        self._joined: list[tuple[StoreKey, Document]] = []
        self._commits = GroupCommit(
            file,
            thread,
            committed=self.committed,
            refused=self.refused,
            clock=clock,
            encryption=encryption,
            without_history=settings.without_history,
            revision=memory.revision,
        )
        self._commits.drop(Garbage(revision, 0) for revision in memory.leftovers)
        self._timer: asyncio.TimerHandle | None = None
        self._schedule(FIRST_HOUSEKEEPING_SECONDS)

    @property
    def revision(self) -> int:
        return self._watches.revision

    def health_error(self) -> str:
        """Why writes fail, for health checks; empty while they succeed."""
        return self._commits.problem

    def get(self, key: StoreKey) -> StoreEntry | None:
        return self._state.get(key)

    def newest(self, key: StoreKey) -> StoreEntry | None:
        pending = self._pending.get(key)
        return self._state.get(key) if pending is None else pending.after

    def newest_in(self, namespace: str) -> tuple[StoreKey, ...]:
        keys = dict.fromkeys(self._state.keys_in(namespace))
        for key, operation in self._pending.items():
            if key.namespace == namespace:
                if operation.after is None:
                    keys.pop(key, None)
                else:
                    keys[key] = None
        return tuple(keys)

    def list(self, collection: str, namespace: str = "", *, at: int | None = None) -> Snapshot:
        if at is None or at == self.revision:
            return Snapshot(self._state.listed(collection, namespace), self.revision)
        if at > self.revision:
            raise too_large_version(at, self.revision)
        earlier = self._history.undone(collection, at)
        return Snapshot(self._state.listed_as_it_was(collection, namespace, earlier), at)

    def watch(self, collection: str, after: int) -> StoreWatch:
        return StoreWatch(self._watches, collection, after)

    def entries(self, collection: str) -> Sequence[StoreEntry]:
        """All current entries of a collection, in key order."""
        return self._state.listed(collection, "")

    def listen(self, collection: str, callback: Callable[[StoreChange], None]) -> None:
        self._watches.listen(collection, callback)

    async def write(self, key: StoreKey, decide: WriteDecision) -> StoreEntry | None:
        if self._watches.is_closed:
            raise ServiceUnavailable("the store is closed")
        pending = self._pending.get(key)
        newest = self._state.get(key) if pending is None else pending.after
        self._joined = []
        try:
            document = decide(newest)
        except ApiError:
            if pending is not None:
                await pending.durable()
            raise
        revision = self._assigned + 1
        after = None if document is None else next_entry(key, newest, document, revision)
        if after is None and (document is not None or newest is None):
            if pending is not None:
                await pending.durable()
            return newest
        if after is not None and self._commits.refuses(newest, after):
            self._schedule(FULL_HOUSEKEEPING_SECONDS)
            raise ServiceUnavailable(REFUSED)
        operation = self._submit(Operation(key, revision, newest, after))
        for other, changed in self._joined:
            before = self.newest(other)
            if (joined := next_entry(other, before, changed, self._assigned + 1)) is not None:
                self._submit(Operation(other, joined.revision, before, joined))
        await operation.durable()
        return after or newest

    def join(self, key: StoreKey, document: Document) -> None:
        """Stores another object in the same transaction as the one being decided, if that is stored.

        Only for decisions: readers and watchers see both changes or neither.
        """
        self._joined.append((key, document))

    async def backup(self, path: Path) -> None:
        """Copies the store to a new file; encrypted values stay encrypted. Writes wait meanwhile. OSError if it fails."""
        await self._commits.backup(path)

    def _submit(self, operation: Operation) -> Operation:
        self._assigned = operation.revision
        self._pending[operation.key] = operation
        self._commits.add(operation)
        return operation

    def committed(self, operations: Sequence[Operation]) -> None:
        """Publishes operations that are on disk."""
        now = self._clock.monotonic()
        changes: dict[str, list[StoreChange]] = {}
        for operation in operations:
            key, after = operation.key, operation.after
            if after is None:
                self._state.remove(key)
                self._expiry.removed(key)
            else:
                self._state.put(after)
                self._expiry.written(key, now)
            self._history.append(PastChange(operation.revision, operation.before, after, now))
            if self._pending.get(key) is operation:
                del self._pending[key]
            if self._watches.has_audience(key.collection):
                change = StoreChange(operation.revision, key, operation.before, after)
                changes.setdefault(key.collection, []).append(change)
        self._watches.revision = operations[-1].revision
        for collection, some in changes.items():
            self._watches.publish(collection, some)
        self._forget(now)
        for operation in operations:
            operation.settle(None)

    def refused(self, operations: Sequence[Operation], problem: str) -> None:
        """Reverts operations that failed; their writers get the error."""
        for operation in operations:
            self._pending.pop(operation.key, None)
            operation.settle(f"{problem}: nothing was changed, and nothing that was stored is lost; reading goes on")

    def _forget(self, now: float) -> None:
        """Drops history beyond its bounds, and the rows that only history needed."""
        self._commits.drop(garbage_of(self._history.trim(now), self._settings.without_history))

    def keep_house(self) -> None:
        """Drops old history, removes expired objects, returns disk space; schedules itself again."""
        now, is_full = self._clock.monotonic(), self._commits.is_full
        # A full disk has no space for history.
        self._forget(math.inf if is_full else now)
        due = [key for key in self._expiry.due(now, EXPIRED_AT_ONCE) if key not in self._pending]
        for key in due:
            self._submit(Operation(key, self._assigned + 1, self._state.get(key), None))
        self._commits.sweep()
        self._timer = None
        delay = FULL_HOUSEKEEPING_SECONDS if is_full else HOUSEKEEPING_SECONDS
        self._schedule(NEXT_EXPIRED_SECONDS if len(due) >= EXPIRED_AT_ONCE else delay)

    def _schedule(self, delay_seconds: float) -> None:
        """Keeps house after this time, unless it is due earlier."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay_seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay_seconds, self.keep_house)

    async def close(self) -> None:
        """Rejects new writes, finishes those in progress, ends the watches."""
        if self._timer is not None:
            self._timer.cancel()
        self._watches.close()
        try:
            await self._commits.drained()
        finally:
            self._commits.stop()


@asynccontextmanager
async def open_store(path: Path, *, clock: Clock, settings: StoreSettings | None = None) -> AsyncIterator[DurableStore]:
    """Opens the store in a file, created if missing. StoreUnusable if it cannot be used; the message says what to do."""
    settings = settings or StoreSettings()
    now = Moment(clock.now().timestamp(), clock.monotonic())
    loop = asyncio.get_running_loop()
    thread = ThreadPoolExecutor(1, "store")
    try:
        file, memory, encryption = await loop.run_in_executor(thread, _load, path, settings, now)
        store = DurableStore(memory, file, thread, settings=settings, encryption=encryption, clock=clock)
        try:
            yield store
        finally:
            try:
                await store.close()
            finally:
                await asyncio.shield(loop.run_in_executor(thread, file.close))
    finally:
        thread.shutdown(wait=False)


def next_entry(key: StoreKey, before: StoreEntry | None, document: Document, revision: int) -> StoreEntry | None:
    """The entry to store at `revision`; None if nothing changes, which is not written, as in GuaranteedUpdate."""
    text = encode({**document, "metadata": {**(document.get("metadata") or {}), "resourceVersion": str(revision)}})
    # Equal documents have texts of equal length in any key order, so few writes need decoding to compare.
    if (
        before is not None
        and len(text) - len(str(revision)) == len(before.text) - len(str(before.revision))
        and _without_revision(before.text) == _without_revision(text)
    ):
        return None
    return StoreEntry(key, revision, text)


def _without_revision(text: bytes) -> Document:
    document: Document = decode_document(text)
    del document["metadata"]["resourceVersion"]
    return document


def garbage_of(forgotten: Iterable[PastChange], without_history: frozenset[str]) -> Iterable[Garbage]:
    """The rows that no longer matter once these changes are dropped: replaced revisions and removals."""
    for past in forgotten:
        if past.before is not None and past.key.collection not in without_history:
            yield Garbage(past.before.revision, past.revision)
        if past.after is None:
            yield Garbage(past.revision, past.revision)


def _load(path: Path, settings: StoreSettings, now: Moment) -> tuple[StoreFile, StoreMemory, EncryptionTransformer]:
    file = StoreFile(path, max_bytes=settings.max_bytes, reserve_bytes=settings.reserve_bytes)
    try:
        keys = [] if settings.key_file is None else read_keys(settings.key_file)
        meta = file.meta()
        memory = restore(
            file.rows(), meta, settings, now=now, decrypt=EncryptionTransformer(keys, settings.encrypted).decrypt
        )
        if settings.key_file is not None and not keys:
            # Made only now: if values are encrypted with a missing key, a new key must not take its place.
            keys = [make_key(settings.key_file)]
        if settings.without_history != meta.without_history:
            gains_history = meta.without_history - settings.without_history
            file.set_without_history(settings.without_history, compacted=memory.revision if gains_history else 0)
        return file, memory, EncryptionTransformer(keys, settings.encrypted)
    except BaseException:
        file.close()
        raise
