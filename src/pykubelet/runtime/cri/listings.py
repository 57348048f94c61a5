"""Lists what the runtime has; all who ask while a list is on its way share the next one.

When many pods start at once, a list for each look at each of them would take from the runtime what it starts them with.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from cri_api.v1 import api_pb2 as cri

from pykubelet.api.keys import PodUid
from pykubelet.runtime.cri.channel import Channel
from pykubelet.runtime.cri.labels import POD_UID


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list has."""

    containers: Sequence[cri.Container]
    sandboxes: Sequence[cri.PodSandbox]

    def of_pod(self, uid: PodUid) -> "Listed":
        """What of it is a pod's."""
        return Listed(
            [one for one in self.containers if one.labels.get(POD_UID) == uid],
            [one for one in self.sandboxes if one.labels.get(POD_UID) == uid],
        )


@dataclass(slots=True)
class _Round:
    """Those who wait for one list; None wants everything."""

    wanted: set[PodUid | None] = field(default_factory=set)
    found: Listed | None = None


class Listings:
    """Lists, one at a time; each begins after it was asked for."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._turn = asyncio.Lock()
        self._next = _Round()

    async def everything(self) -> Listed:
        """All there is."""
        return await self._list(None)

    async def of_pod(self, uid: PodUid) -> Listed:
        """What there is of a pod."""
        return (await self._list(uid)).of_pod(uid)

    async def _list(self, uid: PodUid | None) -> Listed:
        joined = self._next
        joined.wanted.add(uid)
        async with self._turn:
            # Whoever has the first turn lists for all; if that fails, or it is cancelled, the next one does.
            if joined.found is None:
                if self._next is joined:
                    self._next = _Round()
                joined.found = await self._ask(next(iter(joined.wanted)) if len(joined.wanted) == 1 else None)
        return joined.found

    async def _ask(self, uid: PodUid | None) -> Listed:
        labels = {} if uid is None else {POD_UID: uid}
        wanted = cri.ListContainersRequest(filter=cri.ContainerFilter(label_selector=labels))
        request = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(label_selector=labels))
        answers = await asyncio.gather(
            self._channel.ask(wanted, cri.ListContainersResponse),
            self._channel.ask(request, cri.ListPodSandboxResponse),
        )
        containers, sandboxes = answers[0].containers, answers[1].items
        known = {one.id for one in sandboxes}
        if any(one.pod_sandbox_id not in known for one in containers):
            # A pod was made between the two: there is no container without its sandbox.
            sandboxes = (await self._channel.ask(request, cri.ListPodSandboxResponse)).items
        return Listed(containers, sandboxes)
