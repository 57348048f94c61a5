"""Merges the pods of all sources into one ordered stream of updates.

In: messages of the sources, each through its own channel. Out: `updates()`, for the node's loop. One listener per channel
takes a message, waits until the stream has room, and merges; a merge has no await in it, so it needs no lock and
the order of updates is the order of merges.

Upstream: pkg/kubelet/config/{config,mux,sources}.go. Beyond it: `is_ready` tells the readiness of one source, so that an
absent source does not hold up deletions of another.

The ordered stream of updates between PodConfig and the loop.

Many may push, one reads. Pushing never waits, so that the updates of one merge stay together without a lock; instead
a source waits for room before it merges the next message. That holds the stream at its limit plus what one merge
adds.

Upstream: the updates channel of pkg/kubelet/config/config.go.

Which updates a merge sends on, and in which order.

In: the mode, and what a merge found. Out: the updates for the stream.

Upstream: pkg/kubelet/config/config.go (podStorage.Merge).
"""

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from collections.abc import Set as AbstractSet
from enum import StrEnum

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import pod_full_name
from pykubelet.api.times import format_micro_time
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.kubelet.config.merge import MergeResult, Pods, merge_update, stored_after
from pykubelet.kubelet.types import PodOperation, PodSource, PodUpdate, Trail


class NotificationMode(StrEnum):
    """How changes are told. The node's loop takes only INCREMENTAL."""

    INCREMENTAL = "incremental"
    """Each change as it is: REMOVE, ADD, UPDATE, DELETE, RESTORE, RECONCILE."""
    SNAPSHOT = "snapshot"
    """All pods of all sources as one SET, whatever the change."""
    SNAPSHOT_AND_UPDATES = "snapshot-and-updates"
    """As SNAPSHOT when pods come or go; UPDATE and DELETE for those that change."""


def notifications(
    mode: NotificationMode, merged: MergeResult, *, source: str, first_set: bool, everything: Callable[[], Pods]
) -> tuple[PodUpdate, ...]:
    """The updates to send, in order.

    The first SET of a source is always told, if need be by an update without pods: it says that the source is ready.
    `everything` gives all pods of all sources; it is asked only where a snapshot is due. Snapshots never tell a mere
    change of status.
    """
    if mode is NotificationMode.INCREMENTAL:
        return _incremental(merged, source, first_set=first_set)
    is_due = first_set or bool(merged.removes or merged.adds or merged.restores)
    changes = _told(source, (PodOperation.UPDATE, merged.updates), (PodOperation.DELETE, merged.deletes))
    if mode is NotificationMode.SNAPSHOT:
        is_due, changes = is_due or bool(changes), ()
    return (PodUpdate(PodOperation.SET, source, everything()), *changes) if is_due else changes


def _incremental(merged: MergeResult, source: str, *, first_set: bool) -> tuple[PodUpdate, ...]:
    # Removes go first: a pod recreated under its old name must not meet its predecessor.
    changes = _told(
        source,
        (PodOperation.REMOVE, merged.removes),
        (PodOperation.ADD, merged.adds),
        (PodOperation.UPDATE, merged.updates),
        (PodOperation.DELETE, merged.deletes),
        (PodOperation.RESTORE, merged.restores),
    )
    told = merged.adds or merged.updates or merged.deletes
    ready = (PodUpdate(PodOperation.ADD, source),) if first_set and not told else ()
    return (*changes, *ready, *_told(source, (PodOperation.RECONCILE, merged.reconciles)))


def _told(source: str, *lists: tuple[PodOperation, Pods]) -> tuple[PodUpdate, ...]:
    return tuple(PodUpdate(op, source, pods) for op, pods in lists if pods)


LIMIT = 50
"""Upstream's capacity: a burst of watch events passes, a stuck loop stops its sources soon."""


class UpdateStream:
    """Updates in the order of their merges; iterate to take them out. It never ends."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._updates: deque[PodUpdate] = deque()
        self._limit = limit
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def push(self, updates: Iterable[PodUpdate]) -> None:
        """Append updates, at once and whatever the limit."""
        self._updates.extend(updates)
        self._note()

    async def wait_for_room(self) -> None:
        """Return when fewer updates wait than the limit; whoever pushes should ask first."""
        while len(self._updates) >= self._limit:
            await self._room.wait()

    def __len__(self) -> int:
        return len(self._updates)

    def __aiter__(self) -> AsyncIterator[PodUpdate]:
        return self

    async def __anext__(self) -> PodUpdate:
        while not self._updates:
            await self._filled.wait()
        update = self._updates.popleft()
        self._note()
        return update

    def _note(self) -> None:
        for event, holds in ((self._filled, bool(self._updates)), (self._room, len(self._updates) < self._limit)):
            if holds:
                event.set()
            else:
                event.clear()


log = get_logger(__name__)


class SourceChannel:
    """Where a source hands in its messages. Holds one: a source is at most one message ahead of the merge."""

    def __init__(self, source: str, trail: Trail | None = None) -> None:
        self.source = source
        self.trail = trail
        """Where the source tells what it decided about its pods."""
        self._messages: asyncio.Queue[PodUpdate] = asyncio.Queue(maxsize=1)
        self.delivered = asyncio.Event()
        """Set once all pods of the source are in the stream of updates."""

    async def send(self, op: PodOperation, pods: Pods) -> None:
        """Hand in a message; waits while the one before has not been taken."""
        await self._messages.put(PodUpdate(op, self.source, pods))

    async def receive(self) -> PodUpdate:
        """Take the oldest message; waits for one."""
        return await self._messages.get()


class PodConfig:
    """All pods of all sources, and the stream of their changes. Belongs to one loop."""

    def __init__(
        self,
        *,
        clock: Clock,
        recorder: EventRecorder,
        mode: NotificationMode = NotificationMode.INCREMENTAL,
        trail: Trail | None = None,
    ) -> None:
        self._trail = trail
        self._clock, self._recorder, self._mode = clock, recorder, NotificationMode(mode)
        self._pods: dict[str, dict[str, Pod]] = {}
        self._delivered: set[str] = set()
        self._stream = UpdateStream()
        self._channels: dict[str, SourceChannel] = {}
        self._listeners: asyncio.TaskGroup | None = None

    def channel(self, source: str) -> SourceChannel:
        """The channel of a source, which counts as configured from now on. The same name gives the same channel."""
        if not source:
            raise ValueError("a source needs a name")
        if source not in self._channels:
            self._channels[source] = SourceChannel(source, self._trail)
            if self._listeners:
                self._listen(self._listeners, self._channels[source])
        return self._channels[source]

    def updates(self) -> AsyncIterator[PodUpdate]:
        """The one stream of updates, for one reader. At 50 waiting updates the sources are held back."""
        return self._stream

    def sync(self) -> None:
        """Send all pods of all sources once more, as a SET from source `*`."""
        self._stream.push([PodUpdate(PodOperation.SET, PodSource.ALL, self.pods())])

    def pods(self) -> Pods:
        """All pods of all sources, as they are stored."""
        return tuple(itertools.chain.from_iterable(pods.values() for pods in self._pods.values()))

    def is_ready(self, source: str) -> bool:
        """Whether a SET of this source has been merged: only then is it known which pods it does *not* have."""
        return source in self._delivered

    def seen_all_sources(self, seen: AbstractSet[str]) -> bool:
        """Whether every configured source is in `seen` and has delivered a SET."""
        return seen >= self._channels.keys() and self._delivered >= self._channels.keys()

    def sources(self) -> tuple[str, ...]:
        """The configured sources."""
        return tuple(self._channels)

    def merge(self, source: str, update: PodUpdate) -> tuple[PodUpdate, ...]:
        """Merge one message of a source now; gives the updates that went to the stream.

        The channel is the usual way in: it holds its source back while the stream is full. This does not wait.
        """
        first_set = update.op is PodOperation.SET and source not in self._delivered
        stored = self._pods.setdefault(source, {})
        merged = merge_update(stored, update, source=source, seen_at=format_micro_time(self._clock.now()))
        self._pods[source] = stored_after(stored, merged)
        if update.op is PodOperation.SET:
            self._delivered.add(source)
        elif update.op is PodOperation.RECONCILE:
            log.warning("update of a source with an operation that only the node uses", source=source)
        for pod in merged.duplicates:
            self._reject(pod, source)
        sent = notifications(self._mode, merged, source=source, first_set=first_set, everything=self.pods)
        self._stream.push(sent)
        if source in self._channels and source in self._delivered:
            self._channels[source].delivered.set()
        return sent

    async def run(self, ready: asyncio.Event) -> None:
        """Merge what arrives on the channels, also on those asked for later, until cancelled."""
        async with asyncio.TaskGroup() as listeners:
            self._listeners = listeners
            try:
                for channel in self._channels.values():
                    self._listen(listeners, channel)
                ready.set()
                await asyncio.Event().wait()
            finally:
                self._listeners = None

    def _listen(self, listeners: asyncio.TaskGroup, channel: SourceChannel) -> None:
        listeners.create_task(self._merge_all(channel), name=f"pod source {channel.source}")

    async def _merge_all(self, channel: SourceChannel) -> None:
        while True:
            update = await channel.receive()
            await self._stream.wait_for_room()
            try:
                self.merge(channel.source, update)
            except Exception as error:  # noqa: BLE001  one bad message must not stop its source for ever
                log.error("failed merging update", error=error, source=channel.source)

    def _reject(self, pod: Pod, source: str) -> None:
        name = pod.metadata.name
        message = (
            f"Error validating pod {pod_full_name(pod)}({pod.metadata.uid}) from {source} "
            f'due to duplicate pod name "{name}", ignoring'
        )
        log.warning("pod ignored, an earlier one has its name", pod=f"{pod.metadata.namespace}/{name}", source=source)
        self._recorder.event(reference_to(pod), WARNING, "FailedValidation", message)
