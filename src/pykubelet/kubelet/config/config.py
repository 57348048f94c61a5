"""PodConfig: merges the pods of all sources into one ordered stream of updates.

Each source sends messages through its channel. Pushing to the stream never waits, so that the updates of one merge stay
together without a lock; instead a source waits for room before its next message is merged. A pod that disappears from a
ready source is removed even while another source is absent; upstream waits for all sources. `StaticPodHold` delays
static pods until the mirror pods are known: a static pod that kept running over a restart of the kubelet has its
readiness in its mirror pod, and a status made without it would move conditions. A node on which nothing runs does not
wait, and an API server that does not answer delays static pods only briefly, since it may be one of them. Problems of
sources become events and stay listed until solved; upstream only logs them.

Upstream: pkg/kubelet/config/config.go, pkg/kubelet/config/mux.go, pkg/kubelet/config/sources.go
"""

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from enum import StrEnum
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import ObjectReference, Pod
from pykubelet.api.pods import pod_full_name
from pykubelet.api.times import format_micro_time
from pykubelet.client.manifests.last_known_good import SourceProblem
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.kubelet.config.merge import MergeResult, Pods, merge_update, stored_after
from pykubelet.kubelet.types import PodOperation, PodSource, PodUpdate, Trail
from pykubelet.runtimes.protocol import Runtime, RuntimeFailure


class NotificationMode(StrEnum):
    """How changes are reported. The sync loop supports only INCREMENTAL."""

    INCREMENTAL = "incremental"
    """Each change by itself: REMOVE, ADD, UPDATE, DELETE, RESTORE, RECONCILE."""
    SNAPSHOT = "snapshot"
    """All pods of all sources as one SET, whatever the change."""
    SNAPSHOT_AND_UPDATES = "snapshot-and-updates"
    """A SET when pods are added or removed, UPDATE and DELETE for changed pods."""


def notifications(
    mode: NotificationMode, merged: MergeResult, *, source: str, first_set: bool, everything: Callable[[], Pods]
) -> tuple[PodUpdate, ...]:
    """The updates to send, in order.

    The first SET of a source is always reported, if necessary by an update without pods: it makes the source ready.
    `everything` returns all pods of all sources and is called only for snapshots. Snapshots never report a mere change
    of status.
    """
    if mode is NotificationMode.INCREMENTAL:
        return _incremental(merged, source, first_set=first_set)
    is_due = first_set or bool(merged.removes or merged.adds or merged.restores)
    changes = _pod_updates(source, (PodOperation.UPDATE, merged.updates), (PodOperation.DELETE, merged.deletes))
    if mode is NotificationMode.SNAPSHOT:
        is_due, changes = is_due or bool(changes), ()
    return (PodUpdate(PodOperation.SET, source, everything()), *changes) if is_due else changes


def _incremental(merged: MergeResult, source: str, *, first_set: bool) -> tuple[PodUpdate, ...]:
    # Removals come first, so that a recreated pod does not meet its predecessor of the same name.
    changes = _pod_updates(
        source,
        (PodOperation.REMOVE, merged.removes),
        (PodOperation.ADD, merged.adds),
        (PodOperation.UPDATE, merged.updates),
        (PodOperation.DELETE, merged.deletes),
        (PodOperation.RESTORE, merged.restores),
    )
    changed = merged.adds or merged.updates or merged.deletes
    ready = (PodUpdate(PodOperation.ADD, source),) if first_set and not changed else ()
    return (*changes, *ready, *_pod_updates(source, (PodOperation.RECONCILE, merged.reconciles)))


def _pod_updates(source: str, *lists: tuple[PodOperation, Pods]) -> tuple[PodUpdate, ...]:
    return tuple(PodUpdate(op, source, pods) for op, pods in lists if pods)


LIMIT = 50
"""Upstream's capacity: enough for a burst of watch events, and a stuck loop soon stops its sources."""


class UpdateStream:
    """An endless stream of updates in the order of their merges; iterate to take them."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._updates: deque[PodUpdate] = deque()
        self._limit = limit
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def push(self, updates: Iterable[PodUpdate]) -> None:
        """Append updates, at once and beyond the limit."""
        self._updates.extend(updates)
        self._note()

    async def wait_for_room(self) -> None:
        """Return when fewer updates wait than the limit; call it before `push`."""
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
    """Takes the messages of one source. It holds one message: a source is at most one ahead of the merge."""

    def __init__(self, source: str, trail: Trail | None = None) -> None:
        self.source = source
        self.trail = trail
        """Where the source records decisions about its pods."""
        self._messages: asyncio.Queue[PodUpdate] = asyncio.Queue(maxsize=1)
        self.delivered = asyncio.Event()
        """Set once all pods of the source are in the stream of updates."""

    async def send(self, op: PodOperation, pods: Pods) -> None:
        """Send a message; waits until the previous one was taken."""
        await self._messages.put(PodUpdate(op, self.source, pods))

    async def receive(self) -> PodUpdate:
        return await self._messages.get()


class PodConfig:
    """All pods of all sources, and the stream of their changes; used by one event loop."""

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
        """The channel of a source, created on first use; from then on the source counts as configured."""
        if not source:
            raise ValueError("a source needs a name")
        if source not in self._channels:
            self._channels[source] = SourceChannel(source, self._trail)
            if self._listeners:
                self._listen(self._listeners, self._channels[source])
        return self._channels[source]

    def updates(self) -> AsyncIterator[PodUpdate]:
        """The stream of updates, for one reader. At 50 waiting updates the sources have to wait."""
        return self._stream

    def sync(self) -> None:
        """Send all pods of all sources once more, as a SET from source `*`."""
        self._stream.push([PodUpdate(PodOperation.SET, PodSource.ALL, self.pods())])

    def pods(self) -> Pods:
        return tuple(itertools.chain.from_iterable(pods.values() for pods in self._pods.values()))

    def is_ready(self, source: str) -> bool:
        """Whether a SET of this source was merged: only then is it known which pods the source does *not* have."""
        return source in self._delivered

    def seen_all_sources(self, seen: AbstractSet[str]) -> bool:
        """Whether every configured source is in `seen` and has delivered a SET."""
        return seen >= self._channels.keys() and self._delivered >= self._channels.keys()

    def sources(self) -> tuple[str, ...]:
        return tuple(self._channels)

    def merge(self, source: str, update: PodUpdate) -> tuple[PodUpdate, ...]:
        """Merge one message now and return the resulting updates; channels wait for room in the stream before."""
        first_set = update.op is PodOperation.SET and source not in self._delivered
        stored = self._pods.setdefault(source, {})
        merged = merge_update(stored, update, source=source, seen_at=format_micro_time(self._clock.now()))
        self._pods[source] = stored_after(stored, merged)
        if update.op is PodOperation.SET:
            self._delivered.add(source)
        elif update.op is PodOperation.RECONCILE:
            log.warning("source sent an operation that only the kubelet uses", source=source)
        for pod in merged.duplicates:
            self._reject(pod, source)
        sent = notifications(self._mode, merged, source=source, first_set=first_set, everything=self.pods)
        self._stream.push(sent)
        if source in self._channels and source in self._delivered:
            self._channels[source].delivered.set()
        return sent

    async def run(self, ready: asyncio.Event) -> None:
        """Merge the messages of all channels, later ones included, until cancelled."""
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
                log.error("update not merged", error=error, source=channel.source)

    def _reject(self, pod: Pod, source: str) -> None:
        name = pod.metadata.name
        message = (
            f"Error validating pod {pod_full_name(pod)}({pod.metadata.uid}) from {source} "
            f'due to duplicate pod name "{name}", ignoring'
        )
        log.warning("pod ignored: an earlier pod has its name", pod=f"{pod.metadata.namespace}/{name}", source=source)
        self._recorder.event(reference_to(pod), WARNING, "FailedValidation", message)


PATIENCE_SECONDS = 5.0


class SourceRunner(Protocol):
    """A source of static pods: FileSource, UrlSource or a StaticPodHold around one."""

    async def run(self, ready: asyncio.Event) -> None:
        """Follow the source until cancelled."""


class StaticPodHold:
    """Delays a source of static pods until the pods of the API server are `delivered`."""

    def __init__(
        self,
        source: SourceRunner,
        *,
        delivered: asyncio.Event,
        runtime: Runtime,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._source, self._delivered, self._runtime = source, delivered, runtime
        self._patience_seconds = patience_seconds

    async def run(self, ready: asyncio.Event) -> None:
        """Wait for the mirror pods if any pod runs, then follow the source until cancelled."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_seconds):
                if await self._may_have_pods():
                    await self._delivered.wait()
        await self._source.run(ready)

    async def _may_have_pods(self) -> bool:
        try:
            return bool(await self._runtime.pods())
        except RuntimeFailure:
            return True


SOURCE_PROBLEM = "PodSourceProblem"
MANIFEST_PROBLEM = "ManifestProblem"
"""Reason of events about documents that are not pods."""
_SOURCES_OF_PODS = frozenset(PodSource)
_LONGEST_EVENT = 1024
"""The longest message of an event."""


class SourceProblemReporter:
    """Reports problems of sources as events of the node, and lists the open ones."""

    def __init__(self, *, recorder: EventRecorder, node: ObjectReference) -> None:
        self._recorder, self._node = recorder, node
        self._open: dict[tuple[str, str], SourceProblem] = {}

    def report(self, problem: SourceProblem) -> None:
        # Two followers of one file find the same problem; one event is enough.
        is_reported = any(
            (each.where, each.message) == (problem.where, problem.message) for each in self._open.values()
        )
        self._open[problem.source, problem.where] = problem
        if is_reported:
            return
        message = f"{problem.where}: {problem.message}"
        reason = SOURCE_PROBLEM if problem.source in _SOURCES_OF_PODS else MANIFEST_PROBLEM
        self._recorder.event(self._node, WARNING, reason, message[:_LONGEST_EVENT])

    def clear(self, source: str, where: str) -> None:
        self._open.pop((source, where), None)

    def all(self) -> tuple[SourceProblem, ...]:
        """The problems that are still open."""
        return tuple(self._open.values())

    def warning(self) -> str:
        """The open problems with pods, for the node's condition; empty if there are none."""
        places = ", ".join(problem.where for problem in self._open.values() if problem.source in _SOURCES_OF_PODS)
        return f"problems with sources of pods: {places}" if places else ""


class SourcesReady:
    """Which sources are ready: PodConfig merged a SET of it, and the sync loop handled an update of it.

    Between the two the source's pods are still in the stream and would look like orphans.
    """

    def __init__(self, config: PodConfig) -> None:
        self._config = config
        self._seen: set[str] = set()

    def saw(self, update: PodUpdate) -> None:
        """Record a handled update. A RESTORE does not count: it may lack pods of its source."""
        if update.op is not PodOperation.RESTORE:
            self._seen.add(update.source)

    def is_ready(self, source: str) -> bool:
        """Whether all pods of this source are known, so that pods it does not name may be removed."""
        return source in self._seen and self._config.is_ready(source)

    def all_ready(self) -> bool:
        """Whether every configured source is ready, so that pods of unknown origin may be removed."""
        return self._config.seen_all_sources(self._seen)

    def waiting_for(self) -> tuple[str, ...]:
        """The configured sources that are not ready yet."""
        return tuple(source for source in self._config.sources() if not self.is_ready(source))
