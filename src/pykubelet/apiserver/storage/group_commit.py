"""Group commit: writes decided during one transaction are committed together in the next.

A thread waits for the disk, so the event loop never does. One transaction runs at a time. If it fails, all writes
decided since fail too, because they were decided on a state that was never stored.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ServiceUnavailable
from pykubelet.apiserver.storage.encryption import EncryptionTransformer
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.apiserver.storage.sqlite import Commit, CommitFailed, StoreFile, StoreRow

log = get_logger(__name__)

DROPPED_WITH_WRITES = 128
DROPPED_ALONE = 512
"""Old rows dropped in one transaction: few enough to delay a write by some milliseconds at most."""
DROPPED_FROM_FULL_DISK = 64
"""The same on a full disk: few enough for the log that is kept for it, even if each row has pages of its own."""


class Garbage(NamedTuple):
    """A row to drop; after that, changes up to `compacted` are no longer known."""

    revision: int
    compacted: int


@dataclass(slots=True, eq=False)
class Operation:
    """A decided write on its way to the disk, and the futures that wait for it."""

    key: StoreKey
    revision: int
    before: StoreEntry | None
    after: StoreEntry | None
    waiters: list[asyncio.Future[None]] = field(default_factory=list)

    async def durable(self) -> None:
        """Waits until it is on disk; raises ApiError if it fails."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiters.append(waiter)
        await waiter

    def settle(self, problem: str | None) -> None:
        """Resolves the waiting futures; `problem` is the error message, or None."""
        for waiter in self.waiters:
            if not waiter.done():
                if problem is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(ServiceUnavailable(problem))


class GroupCommit:
    """The queue between the event loop and the writer thread.

    Calls `committed` on the event loop when operations are on disk, in order, or `refused` when they failed, and with
    them all that were decided later.
    """

    def __init__(
        self,
        file: StoreFile,
        thread: Executor,
        *,
        committed: Callable[[Sequence[Operation]], None],
        refused: Callable[[Sequence[Operation], str], None],
        clock: Clock,
        encryption: EncryptionTransformer,
        without_history: frozenset[str],
        revision: int,
    ) -> None:
        """`thread` is a single-thread executor, the one that opened `file`; `revision` is the newest on disk."""
        self._file, self._thread, self._committed, self._refused = file, thread, committed, refused
        self._clock, self._encryption, self._without_history = clock, encryption, without_history
        self._revision = revision
        self._loop = asyncio.get_running_loop()
        self._queue: list[Operation] = []
        self._garbage: deque[Garbage] = deque()
        self._is_sweeping = False
        self._is_busy = False
        self._is_stopped = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.problem = ""
        """Why writes fail; empty while they succeed."""

    def add(self, operation: Operation) -> None:
        """Queues an operation, whose revision is the highest so far."""
        self._queue.append(operation)
        self._wake()

    def drop(self, garbage: Iterable[Garbage]) -> None:
        """Queues rows to drop, along with later writes."""
        self._garbage.extend(garbage)

    def sweep(self) -> None:
        """Drops queued rows and returns unused disk space, even without writes."""
        self._is_sweeping = True
        self._wake()

    @property
    def is_full(self) -> bool:
        """Whether the disk is full and the reserve in use."""
        return self._file.reserve.is_used

    def refuses(self, before: StoreEntry | None, after: StoreEntry) -> bool:
        """Whether a write must wait for space on the disk."""
        return self._file.reserve.refuses(after.key.collection, b"" if before is None else before.text, after.text)

    async def drained(self) -> None:
        await self._idle.wait()

    def stop(self) -> None:
        """Starts no more transactions; queued operations fail."""
        self._is_stopped = True
        refused, self._queue = self._queue, []
        self._refused(refused, "the store is closed")

    async def backup(self, path: Path) -> None:
        """Copies the file after the transaction in progress."""
        await self._loop.run_in_executor(self._thread, self._file.backup, path)

    def _wake(self) -> None:
        if not self._is_busy:
            self._is_busy = True
            self._idle.clear()
            # Deferred, so that all writes decided in this turn of the loop share the transaction.
            self._loop.call_soon(self._start)

    def _start(self) -> None:
        if self._is_stopped or not (self._queue or self._is_sweeping):
            self._is_busy = False
            self._idle.set()
            return
        operations, self._queue = self._queue, []
        most = DROPPED_FROM_FULL_DISK if self.is_full else DROPPED_WITH_WRITES if operations else DROPPED_ALONE
        count = min(len(self._garbage), most)
        garbage = [self._garbage.popleft() for _ in range(count)]
        written_at = int(self._clock.now().timestamp())
        tidies = self._is_sweeping and not self._garbage
        job = self._loop.run_in_executor(self._thread, self._write, operations, garbage, written_at, tidies)
        job.add_done_callback(partial(self._settle, operations, garbage))

    def _write(
        self, operations: Sequence[Operation], garbage: Sequence[Garbage], written_at: int, tidies: bool
    ) -> bool:
        """Runs in the thread: one transaction, and some vacuuming if requested; returns whether that is complete."""
        dropped = {each.revision for each in garbage}
        dropped.update(
            operation.before.revision
            for operation in operations
            if operation.before is not None and operation.key.collection in self._without_history
        )
        self._file.commit(
            Commit(
                rows=[self._row(operation, written_at) for operation in operations],
                dropped=frozenset(dropped),
                compacted=max((each.compacted for each in garbage), default=0),
                # Without anything else to write, this checks whether the disk is writable again.
                revision=self._revision if garbage or self.problem else 0,
            )
        )
        return tidies and self._tidy()

    def _row(self, operation: Operation, written_at: int) -> StoreRow:
        key, after = operation.key, operation.after
        value = None if after is None else after.text
        if value is not None and key.collection in self._encryption.collections:
            value = self._encryption.encrypt(key, value)
        return StoreRow(operation.revision, written_at, *key, value)

    def _tidy(self) -> bool:
        try:
            return not self._file.tidy()
        except CommitFailed as error:
            log.warning("the store's file could not be tidied up", reason=str(error))
            return True

    def _settle(self, operations: Sequence[Operation], garbage: Sequence[Garbage], job: asyncio.Future[bool]) -> None:
        error = job.exception()
        try:
            if error is None:
                self._succeeded(operations, is_tidy=job.result())
            else:
                self._failed(operations, garbage, error)
        finally:
            self._start()

    def _succeeded(self, operations: Sequence[Operation], *, is_tidy: bool) -> None:
        if self.problem:
            log.info("writes are stored again", after=self.problem)
            self.problem = ""
        self._is_sweeping = self._is_sweeping and not is_tidy
        if operations:
            self._revision = operations[-1].revision
            self._committed(operations)

    def _failed(self, operations: Sequence[Operation], garbage: Sequence[Garbage], error: BaseException) -> None:
        is_expected = isinstance(error, CommitFailed)
        problem = str(error) if is_expected else "storage cannot be written"
        if problem != self.problem:
            log.error("writes are refused", error=None if is_expected else error, reason=problem)
            self.problem = problem
        self._garbage.extendleft(reversed(garbage))
        self._is_sweeping = False
        if operations:
            refused, self._queue = [*operations, *self._queue], []
            self._refused(refused, problem)
