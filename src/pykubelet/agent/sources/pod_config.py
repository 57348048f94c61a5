"""Merges the pods of all sources into one ordered stream of updates.

In: messages of the sources, each through its own channel. Out: `updates()`, for the node's loop. One listener per channel
takes a message, waits until the stream has room, and merges; a merge has no await in it, so it needs no lock and
the order of updates is the order of merges.

Upstream: pkg/kubelet/config/{config,mux,sources}.go. Beyond it: `is_ready` tells the readiness of one source, so that an
absent source does not hold up deletions of another.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet

from pykubelet.agent.flow import PodOp, PodUpdate, Source, Trail
from pykubelet.agent.sources.merge import Pods, merge_update, stored_after
from pykubelet.agent.sources.notify import NotificationMode, notifications
from pykubelet.agent.sources.stream import UpdateStream
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import pod_full_name
from pykubelet.api.times import format_micro_time
from pykubelet.kube.recorder import WARNING, EventRecorder, reference_to

log = get_logger(__name__)


class Channel:
    """Where a source hands in its messages. Holds one: a source is at most one message ahead of the merge."""

    def __init__(self, source: str, trail: Trail | None = None) -> None:
        self.source = source
        self.trail = trail
        """Where the source tells what it decided about its pods."""
        self._messages: asyncio.Queue[PodUpdate] = asyncio.Queue(maxsize=1)
        self.delivered = asyncio.Event()
        """Set once all pods of the source are in the stream of updates."""

    async def send(self, op: PodOp, pods: Pods) -> None:
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
        self._channels: dict[str, Channel] = {}
        self._listeners: asyncio.TaskGroup | None = None

    def channel(self, source: str) -> Channel:
        """The channel of a source, which counts as configured from now on. The same name gives the same channel."""
        if not source:
            raise ValueError("a source needs a name")
        if source not in self._channels:
            self._channels[source] = Channel(source, self._trail)
            if self._listeners:
                self._listen(self._listeners, self._channels[source])
        return self._channels[source]

    def updates(self) -> AsyncIterator[PodUpdate]:
        """The one stream of updates, for one reader. At 50 waiting updates the sources are held back."""
        return self._stream

    def sync(self) -> None:
        """Send all pods of all sources once more, as a SET from source `*`."""
        self._stream.push([PodUpdate(PodOp.SET, Source.ALL, self.pods())])

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
        first_set = update.op is PodOp.SET and source not in self._delivered
        stored = self._pods.setdefault(source, {})
        merged = merge_update(stored, update, source=source, seen_at=format_micro_time(self._clock.now()))
        self._pods[source] = stored_after(stored, merged)
        if update.op is PodOp.SET:
            self._delivered.add(source)
        elif update.op is PodOp.RECONCILE:
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

    def _listen(self, listeners: asyncio.TaskGroup, channel: Channel) -> None:
        listeners.create_task(self._merge_all(channel), name=f"pod source {channel.source}")

    async def _merge_all(self, channel: Channel) -> None:
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
