"""Hears from the runtime what changed, and hints at the pods it happened to.

By CRI's own events where the runtime has them; else by containerd's, which come while CRI still tells the old state, so
that after an end one looks until it tells the new one. What this node does itself it need not hear: whoever does it hints.
A connection that was lost is made anew, and every pod hinted at.

Upstream: pkg/kubelet/pleg/evented.go

What this node does to containers right now: whoever does it tells of its end.

What containerd's own event service says: read from its wire format, as far as it matters here.

Pure. An Envelope is `timestamp=1 namespace=2 topic=3 event=4`, the event an Any `type_url=1 value=2`; in events about
containers and their tasks field 1 is the container's id. Upstream: github.com/containerd/containerd/api/services/events/v1,
api/events/{container,task}.proto
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

SUBSCRIBE = "/containerd.services.events.v1.Events/Subscribe"
# In the namespace of CRI: what was removed, what started, and what ended with all that containerd does about it.
_FILTER = 'namespace==k8s.io,topic~="^/(containers/delete|tasks/(start|delete))$"'
TASK_DELETE_TOPIC = "/tasks/delete"

_TOPIC, _EVENT, _VALUE, _ID = 3, 4, 2, 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ContainerdEvent(NamedTuple):
    """Something happened to a container or a sandbox, which to containerd are one."""

    topic: str
    id: str


def subscription() -> bytes:
    """The request to be told."""
    wanted = _FILTER.encode()
    return bytes([_ID << 3 | _BYTES, len(wanted)]) + wanted


def read_containerd_event(envelope: bytes) -> ContainerdEvent:
    """What happened; ValueError if this is no event."""
    try:
        outer = dict(_fields(envelope))
        event = dict(_fields(dict(_fields(outer[_EVENT]))[_VALUE]))
        return ContainerdEvent(outer[_TOPIC].decode(), event[_ID].decode())
    except (KeyError, IndexError) as error:
        raise ValueError("not an event about a container") from error


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that hold bytes; the others are passed over."""
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
    """A number of seven bits a byte, the lowest first, and where it ends."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
        if shift > 63:
            raise ValueError("a number is too long")


class OperationsInProgress:
    """Starts, stops and removals under way."""

    def __init__(self, *, looks: CriPodInspector, hints: ChangeHints) -> None:
        self._looks, self._hints = looks, hints
        # One may be asked for again while it is given up.
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def on(self, id: str) -> Iterator[None]:
        """Something is done to a container or a sandbox; its pod is hinted at when that has ended, well or not."""
        self._under_way[id] += 1
        try:
            yield
        finally:
            self._under_way[id] -= 1
            if not self._under_way[id]:
                del self._under_way[id]
            if (uid := self._looks.owner(id)) is not None:
                self._hints.offer(uid)

    def __contains__(self, id: object) -> bool:
        return id in self._under_way


log = get_logger(__name__)

_AGAIN = Backoff(first_seconds=0.1, limit_seconds=3)
# Nobody says when a subscription has begun; what happened before is found by looking at everything a moment later.
_BEGUN_SECONDS = 0.3


class CriEventFeed:
    """Listens as long as it runs."""

    def __init__(
        self, *, channel: CriChannel, looks: CriPodInspector, hints: ChangeHints, deeds: OperationsInProgress
    ) -> None:
        self._channel, self._looks, self._hints, self._deeds = channel, looks, hints, deeds
        self._has_cri_events = True
        self.is_deaf = asyncio.Event()
        """Set once it is known that the runtime has no events at all."""

    async def run(self) -> None:
        """Until cancelled, or until it is clear that there is nothing to hear."""
        retries = Retries(_AGAIN)
        while True:
            try:
                await self._listen(retries)
            except CriFailure as failure:
                if failure.code == UNIMPLEMENTED and not self._has_cri_events:
                    self.is_deaf.set()
                    log.info("runtime has no events, it will be asked every second")
                    return
                if failure.code == UNIMPLEMENTED:
                    self._has_cri_events = False
                    continue
                log.warning("events of the runtime lost", cause=failure.message)
            await asyncio.sleep(retries.next_delay_seconds())

    async def _listen(self, retries: Retries) -> None:
        failure: CriFailure | None = None
        async with asyncio.TaskGroup() as group:
            begun = group.create_task(self._hint_at_all(), name="cri: hint at all")
            try:
                await (self._hear_cri(retries) if self._has_cri_events else self._hear_containerd(retries, group))
            except CriFailure as error:
                # Out of the group it would come wrapped.
                failure = error
            begun.cancel()
        if failure is not None:
            raise failure

    async def _hint_at_all(self) -> None:
        await self._channel.ready()
        await asyncio.sleep(_BEGUN_SECONDS)
        for uid in self._looks.owners():
            self._hints.offer(uid)

    async def _hear_cri(self, retries: Retries) -> None:
        async for event in self._channel.listen(cri.GetEventsRequest(), cri.ContainerEventResponse):
            retries.reset()
            if event.container_event_type == cri.CONTAINER_CREATED_EVENT or event.container_id in self._deeds:
                continue
            if uid := event.pod_sandbox_status.metadata.uid or self._looks.owner(event.container_id):
                self._hints.offer(PodUid(uid))

    async def _hear_containerd(self, retries: Retries, group: asyncio.TaskGroup) -> None:
        async for envelope in self._channel.listen_to(SUBSCRIBE, subscription()):
            retries.reset()
            try:
                topic, id = read_containerd_event(envelope)
            except ValueError as error:
                log.warning("event of containerd not understood", cause=str(error))
                continue
            uid = self._looks.owner(id)
            # What is nobody's that we know is still being made, or was made by somebody else.
            if uid is None or id in self._deeds:
                continue
            if topic == TASK_DELETE_TOPIC:
                group.create_task(self._hint_when_settled(id, uid), name=f"cri: end of {id}")
            else:
                self._hints.offer(uid)

    async def _hint_when_settled(self, id: str, uid: PodUid) -> None:
        with suppress(RuntimeFailure, TimeoutError):
            if await self._looks.is_sandbox(id):
                await self._looks.ended_sandbox(id)
            else:
                await self._looks.ended_container(id)
        self._hints.offer(uid)
