"""Follows the events of a container runtime and hints at the pods that changed.

Uses CRI's events if the runtime has them, else containerd's own. containerd's events arrive before CRI reports the new
state, so the feed polls the status of an ended container until it has changed. Operations of this node produce their own
hints, and the feed ignores their events. After a lost connection every pod gets a hint.

Upstream: pkg/kubelet/pleg/evented.go
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from cri_api.v1 import api_pb2 as cri

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.log import get_logger
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.cri.channel import UNIMPLEMENTED, CriChannel, CriFailure
from pykubelet.runtimes.cri.pods import CriPodInspector
from pykubelet.runtimes.protocol import ChangeHints, RuntimeFailure

log = get_logger(__name__)

_RETRY = Backoff(first_seconds=0.1, limit_seconds=3)
# The start of a subscription is not confirmed; a hint for every pod a moment later covers earlier changes.
_SUBSCRIBED_SECONDS = 0.3

SUBSCRIBE = "/containerd.services.events.v1.Events/Subscribe"
# In CRI's namespace: removed containers, started tasks, and ended tasks after containerd has cleaned up.
_FILTER = 'namespace==k8s.io,topic~="^/(containers/delete|tasks/(start|delete))$"'
TASK_DELETE_TOPIC = "/tasks/delete"

_TOPIC, _EVENT, _VALUE, _ID = 3, 4, 2, 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class OperationsInProgress:
    """Starts, stops and removals by this node that are in progress."""

    def __init__(self, *, inspector: CriPodInspector, hints: ChangeHints) -> None:
        self._inspector, self._hints = inspector, hints
        # The same operation may be requested again while the cancelled one still runs.
        self._running: Counter[str] = Counter()

    @contextmanager
    def on(self, id: str) -> Iterator[None]:
        """Mark an operation on a container or sandbox for a `with` block; its end produces a hint for the pod."""
        self._running[id] += 1
        try:
            yield
        finally:
            self._running[id] -= 1
            if not self._running[id]:
                del self._running[id]
            if (uid := self._inspector.owner(id)) is not None:
                self._hints.offer(uid)

    def __contains__(self, id: object) -> bool:
        return id in self._running


class CriEventFeed:
    """Turns the runtime's events into hints while `run` runs."""

    def __init__(
        self, *, channel: CriChannel, inspector: CriPodInspector, hints: ChangeHints, operations: OperationsInProgress
    ) -> None:
        self._channel, self._inspector, self._hints, self._operations = channel, inspector, hints, operations
        self._has_cri_events = True
        self.has_no_events = asyncio.Event()
        """Set when the runtime turns out to have no events."""

    async def run(self) -> None:
        """Follow events until cancelled, or until it is known that the runtime has none."""
        retries = Retries(_RETRY)
        while True:
            try:
                await self._listen(retries)
            except CriFailure as failure:
                if failure.code == UNIMPLEMENTED and not self._has_cri_events:
                    self.has_no_events.set()
                    log.info("runtime has no events, polling every second")
                    return
                if failure.code == UNIMPLEMENTED:
                    self._has_cri_events = False
                    continue
                log.warning("event stream of the runtime lost", cause=failure.message)
            await asyncio.sleep(retries.next_delay_seconds())

    async def _listen(self, retries: Retries) -> None:
        failure: CriFailure | None = None
        async with asyncio.TaskGroup() as group:
            begun = group.create_task(self._hint_all(), name="cri: hint at all")
            try:
                await (self._follow_cri(retries) if self._has_cri_events else self._follow_containerd(retries, group))
            except CriFailure as error:
                # Raised outside of the group, where it is not wrapped in an ExceptionGroup.
                failure = error
            begun.cancel()
        if failure is not None:
            raise failure

    async def _hint_all(self) -> None:
        await self._channel.ready()
        await asyncio.sleep(_SUBSCRIBED_SECONDS)
        for uid in self._inspector.owners():
            self._hints.offer(uid)

    async def _follow_cri(self, retries: Retries) -> None:
        async for event in self._channel.listen(cri.GetEventsRequest(), cri.ContainerEventResponse):
            retries.reset()
            if event.container_event_type == cri.CONTAINER_CREATED_EVENT or event.container_id in self._operations:
                continue
            if uid := event.pod_sandbox_status.metadata.uid or self._inspector.owner(event.container_id):
                self._hints.offer(PodUid(uid))

    async def _follow_containerd(self, retries: Retries, group: asyncio.TaskGroup) -> None:
        async for envelope in self._channel.listen_to(SUBSCRIBE, subscription()):
            retries.reset()
            try:
                topic, id = read_containerd_event(envelope)
            except ValueError as error:
                log.warning("malformed containerd event", cause=str(error))
                continue
            uid = self._inspector.owner(id)
            # An unknown container is still being created or belongs to another client.
            if uid is None or id in self._operations:
                continue
            if topic == TASK_DELETE_TOPIC:
                group.create_task(self._hint_when_settled(id, uid), name=f"cri: end of {id}")
            else:
                self._hints.offer(uid)

    async def _hint_when_settled(self, id: str, uid: PodUid) -> None:
        with suppress(RuntimeFailure, TimeoutError):
            if await self._inspector.is_sandbox(id):
                await self._inspector.ended_sandbox(id)
            else:
                await self._inspector.ended_container(id)
        self._hints.offer(uid)


class ContainerdEvent(NamedTuple):
    """An event of a container or sandbox; containerd does not distinguish them."""

    topic: str
    id: str


def subscription() -> bytes:
    """The SubscribeRequest message with our filter."""
    filter = _FILTER.encode()
    return bytes([_ID << 3 | _BYTES, len(filter)]) + filter


def read_containerd_event(envelope: bytes) -> ContainerdEvent:
    """Decodes an Envelope; ValueError if it is not an event about a container.

    Decoded by hand, to need no generated code: an Envelope is `timestamp=1 namespace=2 topic=3 event=4`, the event an Any
    `type_url=1 value=2`; in events about containers and tasks field 1 is the container id.
    """
    try:
        outer = dict(_fields(envelope))
        event = dict(_fields(dict(_fields(outer[_EVENT]))[_VALUE]))
        return ContainerdEvent(outer[_TOPIC].decode(), event[_ID].decode())
    except (KeyError, IndexError) as error:
        raise ValueError("not an event about a container") from error


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a message; skips all others."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            _, at = _varint(data, at)
        elif kind in {_FIXED64, _FIXED32}:
            at += 8 if kind == _FIXED64 else 4
        elif kind == _BYTES:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("cut off")
            yield key >> 3, data[at : at + size]
            at += size
        else:
            raise ValueError("not a message")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A protobuf varint and the position after it."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
        if shift > 63:
            raise ValueError("a number is too long")
