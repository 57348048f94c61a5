"""Inspects the pods of a CRI runtime with as few calls as possible.

Lists return most facts in one call each. Exit codes and addresses are requested once for each container or sandbox and
state, because they do not change while the state is the same. Concurrent inspections share a list: otherwise the
inspections of many starting pods would slow down the runtime.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go, pkg/kubelet/kuberuntime/kuberuntime_container.go,
pkg/kubelet/kuberuntime/kuberuntime_sandbox.go
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from cri_api.v1 import api_pb2 as cri

from pykubelet.aio.backoff import Backoff
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.cri.channel import CriChannel, ignore_not_found
from pykubelet.runtimes.cri.configs import POD_UID
from pykubelet.runtimes.cri.statuses import (
    PodOwner,
    created_container,
    group_by_pod,
    owner_of,
    runtime_container,
    runtime_sandbox,
)
from pykubelet.runtimes.protocol import RuntimeContainer, RuntimePod, Sandbox


@dataclass(frozen=True, slots=True)
class CriListing:
    """The containers and sandboxes of one list."""

    containers: Sequence[cri.Container]
    sandboxes: Sequence[cri.PodSandbox]

    def of_pod(self, uid: PodUid) -> "CriListing":
        return CriListing(
            [one for one in self.containers if one.labels.get(POD_UID) == uid],
            [one for one in self.sandboxes if one.labels.get(POD_UID) == uid],
        )


@dataclass(slots=True)
class _ListingRound:
    """One list and the pods it was requested for; None requests all pods."""

    requested: set[PodUid | None] = field(default_factory=set)
    found: CriListing | None = None


class SharedListings:
    """Lists containers and sandboxes, one list at a time; callers that wait share the next list."""

    def __init__(self, channel: CriChannel) -> None:
        self._channel = channel
        self._turn = asyncio.Lock()
        self._next = _ListingRound()

    async def everything(self) -> CriListing:
        return await self._list(None)

    async def of_pod(self, uid: PodUid) -> CriListing:
        return (await self._list(uid)).of_pod(uid)

    async def _list(self, uid: PodUid | None) -> CriListing:
        joined = self._next
        joined.requested.add(uid)
        async with self._turn:
            # The first caller lists for all; if it fails or is cancelled, the next one does.
            if joined.found is None:
                if self._next is joined:
                    self._next = _ListingRound()
                joined.found = await self._request(next(iter(joined.requested)) if len(joined.requested) == 1 else None)
        return joined.found

    async def _request(self, uid: PodUid | None) -> CriListing:
        labels = {} if uid is None else {POD_UID: uid}
        list_containers = cri.ListContainersRequest(filter=cri.ContainerFilter(label_selector=labels))
        list_sandboxes = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(label_selector=labels))
        answers = await asyncio.gather(
            self._channel.call(list_containers, cri.ListContainersResponse),
            self._channel.call(list_sandboxes, cri.ListPodSandboxResponse),
        )
        containers, sandboxes = answers[0].containers, answers[1].items
        known = {one.id for one in sandboxes}
        if any(one.pod_sandbox_id not in known for one in containers):
            # A pod was created between the two calls: every container has a sandbox.
            sandboxes = (await self._channel.call(list_sandboxes, cri.ListPodSandboxResponse)).items
        return CriListing(containers, sandboxes)


# containerd's event of an end precedes CRI's status by some ten milliseconds, more on a slow disk.
_SETTLING = Backoff(first_seconds=0.005, limit_seconds=0.1, factor=1.5)
_SETTLED_SECONDS = 2.0

S = TypeVar("S", cri.ContainerStatus, cri.PodSandboxStatus)


class CriPodInspector:
    """Inspects pods, caches statuses, and knows the pod of each container and sandbox."""

    def __init__(self, channel: CriChannel) -> None:
        self._channel, self._listings = channel, SharedListings(channel)
        self._owners: dict[str, PodUid] = {}
        # Each with the CRI state that it was read in.
        self._sandboxes: dict[str, tuple[int, Sandbox]] = {}
        self._containers: dict[str, tuple[int, RuntimeContainer]] = {}
        self._sandbox_ids: set[str] = set()

    async def everything(self) -> Sequence[RuntimePod]:
        # The list may lack what is created meanwhile.
        before = set(self._owners)
        listed = await self._listings.everything()
        self._forget_all(before - {one.id for one in listed.containers} - {one.id for one in listed.sandboxes})
        return await self._pods(listed)

    async def of_pod(self, uid: PodUid) -> RuntimePod | None:
        """One pod; None if there is nothing of it."""
        pods = await self._pods(await self._listings.of_pod(uid))
        return pods[0] if pods else None

    def owner(self, id: str) -> PodUid | None:
        """The pod of a container or sandbox, if known."""
        return self._owners.get(id)

    def owners(self) -> set[PodUid]:
        """All pods that are known."""
        return set(self._owners.values())

    async def find_owner(self, id: str) -> PodUid | None:
        """The pod of a container or sandbox; asks the runtime if it is not known."""
        if id not in self._owners:
            by_id = cri.ListContainersRequest(filter=cri.ContainerFilter(id=id))
            for container in (await self._channel.call(by_id, cri.ListContainersResponse)).containers:
                self._record(container)
            of_sandbox = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(id=id))
            for sandbox in (await self._channel.call(of_sandbox, cri.ListPodSandboxResponse)).items:
                self._record(sandbox)
        return self._owners.get(id)

    async def is_sandbox(self, id: str) -> bool:
        """Whether an id is a sandbox; otherwise it is a container or unknown."""
        return id in self._sandbox_ids or (id not in self._owners and await self.sandbox_status(id) is not None)

    async def sandbox_status(self, id: str) -> cri.PodSandboxStatus | None:
        """The runtime's status of a sandbox; None if it does not exist."""
        request = cri.PodSandboxStatusRequest(pod_sandbox_id=id)
        with ignore_not_found():
            return (await self._channel.call(request, cri.PodSandboxStatusResponse)).status
        return None

    async def container_status(self, id: str) -> cri.ContainerStatus | None:
        """The runtime's status of a container; None if it does not exist."""
        request = cri.ContainerStatusRequest(container_id=id)
        with ignore_not_found():
            return (await self._channel.call(request, cri.ContainerStatusResponse)).status
        return None

    async def ended_container(self, id: str) -> cri.ContainerStatus | None:
        """Wait until CRI reports the end of a container that an event has announced; None if it is gone.

        TimeoutError if CRI keeps reporting that it runs.
        """
        status = await _settled(lambda: self.container_status(id), cri.CONTAINER_RUNNING)
        known = self._containers.get(id)
        if status is not None and known is not None:
            self._cache_container(status, known[1].sandbox_id)
        return status

    async def ended_sandbox(self, id: str) -> cri.PodSandboxStatus | None:
        """Like `ended_container`, for a sandbox."""
        status = await _settled(lambda: self.sandbox_status(id), cri.SANDBOX_READY)
        if status is not None:
            self._sandboxes[id] = status.state, runtime_sandbox(status)
        return status

    def record_created(self, id: str, uid: PodUid, *, is_sandbox: bool) -> None:
        self._owners[id] = uid
        if is_sandbox:
            self._sandbox_ids.add(id)

    def forget(self, id: str) -> None:
        """Drop the cached status; the pod stays known until the next full list, for late events."""
        self._containers.pop(id, None)
        self._sandboxes.pop(id, None)

    async def _pods(self, found: CriListing) -> Sequence[RuntimePod]:
        sandboxes: list[tuple[PodOwner, Sandbox]] = []
        containers: list[tuple[PodOwner, RuntimeContainer]] = []
        for listed in found.sandboxes:
            owner = self._record(listed)
            if owner is not None and (sandbox := await self._sandbox(listed)) is not None:
                sandboxes.append((owner, sandbox))
        for one in found.containers:
            owner = self._record(one)
            if owner is not None and (container := await self._container(one)) is not None:
                containers.append((owner, container))
        return group_by_pod(sandboxes, containers)

    def _record(self, listed: cri.PodSandbox | cri.Container) -> PodOwner | None:
        owner = owner_of(listed)
        if owner is not None:
            self.record_created(listed.id, owner.uid, is_sandbox=isinstance(listed, cri.PodSandbox))
        return owner

    async def _sandbox(self, listed: cri.PodSandbox) -> Sandbox | None:
        known = self._sandboxes.get(listed.id)
        if known is not None and known[0] == listed.state:
            return known[1]
        status = await self.sandbox_status(listed.id)
        if status is None:
            return None
        found = runtime_sandbox(status)
        self._sandboxes[listed.id] = status.state, found
        return found

    async def _container(self, listed: cri.Container) -> RuntimeContainer | None:
        if listed.state == cri.CONTAINER_CREATED:
            return created_container(listed)
        known = self._containers.get(listed.id)
        if known is not None and known[0] == listed.state:
            return known[1]
        status = await self.container_status(listed.id)
        return self._cache_container(status, listed.pod_sandbox_id) if status is not None else None

    def _cache_container(self, status: cri.ContainerStatus, sandbox_id: str) -> RuntimeContainer:
        found = runtime_container(status, sandbox_id)
        # Other states may change without notice.
        if status.state in {cri.CONTAINER_RUNNING, cri.CONTAINER_EXITED}:
            self._containers[status.id] = status.state, found
        return found

    def _forget_all(self, gone: set[str]) -> None:
        for known in (self._owners, self._sandboxes, self._containers):
            for id in known.keys() & gone:
                del known[id]
        self._sandbox_ids -= gone


async def _settled(status: Callable[[], Awaitable[S | None]], running: int) -> S | None:
    """Polls a status until its state is no longer `running`."""
    async with asyncio.timeout(_SETTLED_SECONDS):
        for attempt in itertools.count(1):
            found = await status()
            if found is None or found.state != running:
                break
            await asyncio.sleep(_SETTLING.delay_seconds(attempt))
    return found
