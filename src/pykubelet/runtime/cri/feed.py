"""Hears from the runtime what changed, and hints at the pods it happened to.

By CRI's own events where the runtime has them; else by containerd's, which come while CRI still tells the old state, so
that after an end one looks until it tells the new one. What this node does itself it need not hear: whoever does it hints.
A connection that was lost is made anew, and every pod hinted at.

Upstream: pkg/kubelet/pleg/evented.go
"""

import asyncio
from contextlib import suppress

from cri_api.v1 import api_pb2 as cri

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.log import get_logger
from pykubelet.api.keys import PodUid
from pykubelet.runtime.changes import ChangeHints
from pykubelet.runtime.cri.channel import UNIMPLEMENTED, Channel, CriFailure
from pykubelet.runtime.cri.containerd_events import ENDED, SUBSCRIBE, read_happening, subscription
from pykubelet.runtime.cri.deeds import Deeds
from pykubelet.runtime.cri.looks import Looks
from pykubelet.runtime.protocol import RuntimeFailure

log = get_logger(__name__)

_AGAIN = Backoff(first_seconds=0.1, limit_seconds=3)
# Nobody says when a subscription has begun; what happened before is found by looking at everything a moment later.
_BEGUN_SECONDS = 0.3


class Feed:
    """Listens as long as it runs."""

    def __init__(self, *, channel: Channel, looks: Looks, hints: ChangeHints, deeds: Deeds) -> None:
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
                topic, id = read_happening(envelope)
            except ValueError as error:
                log.warning("event of containerd not understood", cause=str(error))
                continue
            uid = self._looks.owner(id)
            # What is nobody's that we know is still being made, or was made by somebody else.
            if uid is None or id in self._deeds:
                continue
            if topic == ENDED:
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
