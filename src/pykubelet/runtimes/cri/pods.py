"""What the runtime has of pods, asking as little as possible.

Lists tell most of it in one call each. The rest, an exit code or an address, is asked once for each container or sandbox
and state: neither changes any more as long as the state is the same.

Upstream: GetPods, GetPodStatus and getPodContainerStatuses in pkg/kubelet/kuberuntime

Lists what the runtime has; all who ask while a list is on its way share the next one.

When many pods start at once, a list for each look at each of them would take from the runtime what it starts them with.
"""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from cri_api.v1 import api_pb2 as cri

from pykubelet.aio.backoff import Backoff
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.cri.channel import NOT_FOUND, CriChannel, CriFailure
from pykubelet.runtimes.cri.configs import POD_UID
from pykubelet.runtimes.cri.statuses import PodOwner, container_of, created_container, owner_of, pods_of, sandbox_of
from pykubelet.runtimes.protocol import RuntimeContainer, RuntimePod, Sandbox


@dataclass(frozen=True, slots=True)
class CriListing:
    """What a list has."""

    containers: Sequence[cri.Container]
    sandboxes: Sequence[cri.PodSandbox]

    def of_pod(self, uid: PodUid) -> "CriListing":
        """What of it is a pod's."""
        return CriListing(
            [one for one in self.containers if one.labels.get(POD_UID) == uid],
            [one for one in self.sandboxes if one.labels.get(POD_UID) == uid],
        )


@dataclass(slots=True)
class _ListingRound:
    """Those who wait for one list; None wants everything."""

    wanted: set[PodUid | None] = field(default_factory=set)
    found: CriListing | None = None


class SharedListings:
    """Lists, one at a time; each begins after it was asked for."""

    def __init__(self, channel: CriChannel) -> None:
        self._channel = channel
        self._turn = asyncio.Lock()
        self._next = _ListingRound()

    async def everything(self) -> CriListing:
        """All there is."""
        return await self._list(None)

    async def of_pod(self, uid: PodUid) -> CriListing:
        """What there is of a pod."""
        return (await self._list(uid)).of_pod(uid)

    async def _list(self, uid: PodUid | None) -> CriListing:
        joined = self._next
        joined.wanted.add(uid)
        async with self._turn:
            # Whoever has the first turn lists for all; if that fails, or it is cancelled, the next one does.
            if joined.found is None:
                if self._next is joined:
                    self._next = _ListingRound()
                joined.found = await self._ask(next(iter(joined.wanted)) if len(joined.wanted) == 1 else None)
        return joined.found

    async def _ask(self, uid: PodUid | None) -> CriListing:
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
        return CriListing(containers, sandboxes)


# containerd tells of an end before CRI does: usually some ten milliseconds, more on a slow disk.
_SETTLING = Backoff(first_seconds=0.005, limit_seconds=0.1, factor=1.5)
_SETTLED_SECONDS = 2.0


class CriPodInspector:
    """Looks at pods, and knows whose everything is that was seen or made."""

    def __init__(self, channel: CriChannel) -> None:
        self._channel, self._listings = channel, SharedListings(channel)
        self._owners: dict[str, PodUid] = {}
        self._sandboxes: dict[str, tuple[int, Sandbox]] = {}
        self._containers: dict[str, tuple[int, RuntimeContainer]] = {}
        """With the state in which they were asked for."""
        self._sandbox_ids: set[str] = set()

    async def everything(self) -> Sequence[RuntimePod]:
        """All pods there are."""
        # What is made while the list is on its way may not be in it.
        before = set(self._owners)
        listed = await self._listings.everything()
        self._forget_all(before - {one.id for one in listed.containers} - {one.id for one in listed.sandboxes})
        return await self._pods(listed)

    async def of_pod(self, uid: PodUid) -> RuntimePod | None:
        """One of them."""
        pods = await self._pods(await self._listings.of_pod(uid))
        return pods[0] if pods else None

    def owner(self, id: str) -> PodUid | None:
        """Whose it is, if that is known."""
        return self._owners.get(id)

    def owners(self) -> set[PodUid]:
        """All pods that are known."""
        return set(self._owners.values())

    async def find_owner(self, id: str) -> PodUid | None:
        """Whose it is; asks if that is not known."""
        if id not in self._owners:
            by_id = cri.ListContainersRequest(filter=cri.ContainerFilter(id=id))
            for container in (await self._channel.ask(by_id, cri.ListContainersResponse)).containers:
                self._note(container)
            of_sandbox = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(id=id))
            for sandbox in (await self._channel.ask(of_sandbox, cri.ListPodSandboxResponse)).items:
                self._note(sandbox)
        return self._owners.get(id)

    async def is_sandbox(self, id: str) -> bool:
        """Whether this is a sandbox; all else is a container, or nothing."""
        return id in self._sandbox_ids or (id not in self._owners and await self.sandbox_status(id) is not None)

    async def sandbox_status(self, id: str) -> cri.PodSandboxStatus | None:
        """All the runtime has to say of a sandbox, if there is one."""
        request = cri.PodSandboxStatusRequest(pod_sandbox_id=id)
        try:
            return (await self._channel.ask(request, cri.PodSandboxStatusResponse)).status
        except CriFailure as failure:
            if failure.code == NOT_FOUND:
                return None
            raise

    async def container_status(self, id: str) -> cri.ContainerStatus | None:
        """All the runtime has to say of a container, if there is one."""
        request = cri.ContainerStatusRequest(container_id=id)
        try:
            return (await self._channel.ask(request, cri.ContainerStatusResponse)).status
        except CriFailure as failure:
            if failure.code == NOT_FOUND:
                return None
            raise

    async def ended_container(self, id: str) -> cri.ContainerStatus | None:
        """A container of which one heard that it has ended, once the runtime says so, too; None if it is gone.

        TimeoutError if it goes on saying that it runs.
        """
        async with asyncio.timeout(_SETTLED_SECONDS):
            for looks in itertools.count(1):
                status = await self.container_status(id)
                if status is None or status.state != cri.CONTAINER_RUNNING:
                    break
                await asyncio.sleep(_SETTLING.delay_seconds(looks))
        known = self._containers.get(id)
        if status is not None and known is not None:
            self._keep_container(status, known[1].sandbox_id)
        return status

    async def ended_sandbox(self, id: str) -> cri.PodSandboxStatus | None:
        """The same for a sandbox."""
        async with asyncio.timeout(_SETTLED_SECONDS):
            for looks in itertools.count(1):
                status = await self.sandbox_status(id)
                if status is None or status.state != cri.SANDBOX_READY:
                    break
                await asyncio.sleep(_SETTLING.delay_seconds(looks))
        if status is not None:
            self._sandboxes[id] = status.state, sandbox_of(status)
        return status

    def note_made(self, id: str, uid: PodUid, *, is_sandbox: bool) -> None:
        """We made something for a pod."""
        self._owners[id] = uid
        if is_sandbox:
            self._sandbox_ids.add(id)

    def forget(self, id: str) -> None:
        """It is gone; whose it was is known until the next look at everything, for hints that come late."""
        self._containers.pop(id, None)
        self._sandboxes.pop(id, None)

    async def _pods(self, found: CriListing) -> Sequence[RuntimePod]:
        seen_boxes: list[tuple[PodOwner, Sandbox]] = []
        seen: list[tuple[PodOwner, RuntimeContainer]] = []
        for listed in found.sandboxes:
            owner = self._note(listed)
            if owner is not None and (sandbox := await self._sandbox(listed)) is not None:
                seen_boxes.append((owner, sandbox))
        for one in found.containers:
            owner = self._note(one)
            if owner is not None and (container := await self._container(one)) is not None:
                seen.append((owner, container))
        return pods_of(seen_boxes, seen)

    def _note(self, listed: cri.PodSandbox | cri.Container) -> PodOwner | None:
        owner = owner_of(listed)
        if owner is not None:
            self.note_made(listed.id, owner.uid, is_sandbox=isinstance(listed, cri.PodSandbox))
        return owner

    async def _sandbox(self, listed: cri.PodSandbox) -> Sandbox | None:
        known = self._sandboxes.get(listed.id)
        if known is not None and known[0] == listed.state:
            return known[1]
        status = await self.sandbox_status(listed.id)
        if status is None:
            return None
        found = sandbox_of(status)
        self._sandboxes[listed.id] = status.state, found
        return found

    async def _container(self, listed: cri.Container) -> RuntimeContainer | None:
        if listed.state == cri.CONTAINER_CREATED:
            return created_container(listed)
        known = self._containers.get(listed.id)
        if known is not None and known[0] == listed.state:
            return known[1]
        status = await self.container_status(listed.id)
        if status is None:
            return None
        return self._keep_container(status, listed.pod_sandbox_id)

    def _keep_container(self, status: cri.ContainerStatus, sandbox_id: str) -> RuntimeContainer:
        found = container_of(status, sandbox_id)
        # Of the unknown nobody knows whether it stays as it is.
        if status.state in {cri.CONTAINER_RUNNING, cri.CONTAINER_EXITED}:
            self._containers[status.id] = status.state, found
        return found

    def _forget_all(self, gone: set[str]) -> None:
        for known in (self._owners, self._sandboxes, self._containers):
            for id in known.keys() & gone:
                del known[id]
        self._sandbox_ids -= gone
