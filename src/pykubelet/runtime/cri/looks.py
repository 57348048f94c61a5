"""What the runtime has of pods, asking as little as possible.

Lists tell most of it in one call each. The rest, an exit code or an address, is asked once for each container or sandbox
and state: neither changes any more as long as the state is the same.

Upstream: GetPods, GetPodStatus and getPodContainerStatuses in pkg/kubelet/kuberuntime
"""

import asyncio
import itertools
from collections.abc import Sequence

from cri_api.v1 import api_pb2 as cri

from pykubelet.aio.backoff import Backoff
from pykubelet.api.keys import PodUid
from pykubelet.runtime.cri.channel import NOT_FOUND, Channel, CriFailure
from pykubelet.runtime.cri.listings import Listed, Listings
from pykubelet.runtime.cri.statuses import Owner, container_of, created_container, owner_of, pods_of, sandbox_of
from pykubelet.runtime.protocol import RuntimeContainer, RuntimePod, Sandbox

# containerd tells of an end before CRI does: usually some ten milliseconds, more on a slow disk.
_SETTLING = Backoff(first_seconds=0.005, limit_seconds=0.1, factor=1.5)
_SETTLED_SECONDS = 2.0


class Looks:
    """Looks at pods, and knows whose everything is that was seen or made."""

    def __init__(self, channel: Channel) -> None:
        self._channel, self._listings = channel, Listings(channel)
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

    async def _pods(self, found: Listed) -> Sequence[RuntimePod]:
        seen_boxes: list[tuple[Owner, Sandbox]] = []
        seen: list[tuple[Owner, RuntimeContainer]] = []
        for listed in found.sandboxes:
            owner = self._note(listed)
            if owner is not None and (sandbox := await self._sandbox(listed)) is not None:
                seen_boxes.append((owner, sandbox))
        for one in found.containers:
            owner = self._note(one)
            if owner is not None and (container := await self._container(one)) is not None:
                seen.append((owner, container))
        return pods_of(seen_boxes, seen)

    def _note(self, listed: cri.PodSandbox | cri.Container) -> Owner | None:
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
