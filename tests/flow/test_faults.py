"""Pod sources, mirror pods and statuses together converge with one fault at each call in turn."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pykubelet.api.errors import ApiError
from pykubelet.api.generated.core import Node, Pod, PodStatus
from pykubelet.api.generated.meta import DeleteOptions
from pykubelet.api.pods import CONFIG_HASH, CONFIG_MIRROR, PodUid, is_static_pod
from pykubelet.api.schema import PODS as POD_NAMES
from pykubelet.api.scheme import PODS
from pykubelet.client.interface import Client
from pykubelet.kubelet.config.apiserver import ApiServerSource
from pykubelet.kubelet.config.config import PodConfig
from pykubelet.kubelet.pod.mirror_client import MirrorClient, MirrorReconciler
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import PodOperation, PodUpdate
from pykubelet.testing import build
from pykubelet.testing.faults import Fault, FaultyClient
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

# More calls than any scenario below makes; a fault beyond the last call is never injected.
MOST_CALLS = 60
PATIENCE_SECONDS = 300


class OneNode:
    """The parts of a node joined by the simplest possible loop; pods get phase Running as soon as they are known."""

    def __init__(self, client: Client, node: Node) -> None:
        self.clock = VirtualClock()
        self.pods = PodManager()
        self.config = PodConfig(clock=self.clock, recorder=self)
        self.keeper = MirrorReconciler(
            mirrors=MirrorClient(client=client, node_name="node-1", nodes=self),
            pods=self.pods,
            node_name="node-1",
            nodes=self,
        )
        self.status = StatusManager(client=client, pods=self.pods, safety=self, clock=self.clock)
        node_known = asyncio.Event()
        node_known.set()
        self.api_source = ApiServerSource(
            client=client,
            node_name="node-1",
            node_known=node_known,
            channel=self.config.channel("api"),
            clock=self.clock,
        )
        self.files = self.config.channel("file")
        self._node = node

    def node(self, name: str) -> Node:
        return self._node

    def event(self, *_: Any) -> None:
        return

    def could_have_running_containers(self, _: PodUid, /) -> bool:
        return False

    def pod_resources_are_reclaimed(self, _pod: Pod, _status: PodStatus, /) -> bool:
        return True

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for part in (self.config, self.status, self.api_source):
                group.create_task(part.run(asyncio.Event()))
            group.create_task(self.housekeeping())
            async for update in self.config.updates():
                self.take(update)

    def take(self, update: PodUpdate) -> None:
        for pod in update.pods:
            if update.op is PodOperation.REMOVE:
                self.pods.delete_pod(pod)
                continue
            self.pods.update_pod(pod)
            if (
                pod.metadata.deletion_timestamp
                and not is_static_pod(pod)
                and CONFIG_MIRROR not in pod.metadata.annotations
            ):
                self.status.terminate_pod(pod)
            elif update.op is PodOperation.ADD and CONFIG_MIRROR not in pod.metadata.annotations:
                self.status.set_pod_status(pod, PodStatus(phase="Running", pod_ip="10.1.0.1"))

    async def housekeeping(self) -> None:
        """Reconciles mirror pods and removes orphans every two seconds."""
        while True:
            for pod in self.pods.pods():
                await self.keeper.reconcile_mirror_pod(pod, self.pods.mirror_pod_by_pod(pod))
            await self.keeper.delete_orphaned_mirrors(self.pods.orphaned_mirror_pod_names(), lambda _: False)
            known = self.pods.pods_and_mirror_pods()
            self.status.remove_orphaned_statuses({PodUid(p.metadata.uid) for p in (*known.pods, *known.mirror_pods)})
            await asyncio.sleep(2)


def pods_in(api: MemoryApi) -> dict[str, tuple[str, str, str]]:
    """The mirror pod's hash, the phase and the address of each pod, by name."""
    return {
        doc["metadata"]["name"]: (
            doc["metadata"].get("annotations", {}).get(CONFIG_MIRROR, ""),
            doc.get("status", {}).get("phase", ""),
            doc.get("status", {}).get("podIP", ""),
        )
        for doc in api.documents(POD_NAMES)
    }


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():
            await asyncio.sleep(0.25)


async def life(api: MemoryApi, node: OneNode) -> None:
    """A static pod appears, a user deletes its mirror pod, it is edited; an API pod runs and is deleted."""
    first = build.static_pod(content_hash="hash-1")
    await api.create(PODS, build.pod("web"), namespace="default")
    await node.files.send(PodOperation.SET, (first,))
    running = ("", "Running", "10.1.0.1")
    await until(lambda: pods_in(api) == {"web": running, "web-node-1": ("hash-1", "Running", "10.1.0.1")})

    (mirror,) = [doc for doc in api.documents(POD_NAMES) if doc["metadata"]["name"] == "web-node-1"]
    await api.delete(PODS, "web-node-1", namespace="default", options=DeleteOptions())
    await api.delete(PODS, "web", namespace="default", options=DeleteOptions())
    await until(lambda: mirror["metadata"]["uid"] not in {doc["metadata"]["uid"] for doc in api.documents(POD_NAMES)})
    await until(lambda: pods_in(api) == {"web-node-1": ("hash-1", "Running", "10.1.0.1")})

    await node.files.send(PodOperation.SET, (build.static_pod(content_hash="hash-2"),))
    await until(lambda: pods_in(api) == {"web-node-1": ("hash-2", "Running", "10.1.0.1")})
    await node.files.send(PodOperation.SET, ())
    await until(lambda: pods_in(api) == {})


class Watched(MemoryApi):
    """An API that records the writes it executed, even if the client got an error."""

    def __init__(self) -> None:
        super().__init__(VirtualClock())
        self.created: list[str] = []
        self.deleted: list[str] = []

    async def create(self, kind: Any, body: Any, **where: Any) -> Any:
        made = await super().create(kind, body, **where)
        self.created.append(f"{made.metadata.name} {made.metadata.annotations.get(CONFIG_HASH, '')}".strip())
        return made

    async def delete(self, kind: Any, name: str, **where: Any) -> None:
        await super().delete(kind, name, **where)
        self.deleted.append(name)


async def scenario(fault: Fault, at: int) -> bool:
    """Runs one life with one fault; returns whether the fault was injected."""
    api = Watched()
    client = FaultyClient(api, fault, at=at)
    node = OneNode(client, build.node())
    running = asyncio.create_task(node.run())
    try:
        await life(api, node)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    # Each mirror pod was created once: at first, after the user's delete, and after the edit.
    assert api.created == ["web", "web-node-1 hash-1", "web-node-1 hash-1", "web-node-1 hash-2"]
    check_deletes(api)
    return client.injected


def check_deletes(api: Watched) -> None:
    """The node deletes the API pod by UID, and only once."""
    for call in api.calls:
        if call.verb == "delete" and call.name == "web" and call.body.get("gracePeriodSeconds") == 0:
            assert call.body["preconditions"]["uid"]
    # The user's deletion, then the node's.
    assert api.deleted.count("web") == 2


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
async def test_status_and_mirrors_converge_with_a_fault_at_every_call(fault: Fault) -> None:
    """The outcome is the same wherever the fault hits, and no pod is created or deleted twice."""
    tried = 0
    for at in range(MOST_CALLS):
        if not await scenario(fault, at):
            break
        tried += 1
    assert 5 <= tried < MOST_CALLS


async def test_status_changed_by_someone_else_is_put_right() -> None:
    """The next comparison restores the kubelet's status."""
    api = Watched()
    node = OneNode(api, build.node())
    running = asyncio.create_task(node.run())
    await api.create(PODS, build.pod("web"), namespace="default")
    await until(lambda: pods_in(api) == {"web": ("", "Running", "10.1.0.1")})

    await api.patch(PODS, "web", {"status": {"podIP": "6.6.6.6"}}, namespace="default", subresource="status")
    await asyncio.sleep(12)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert pods_in(api) == {"web": ("", "Running", "10.1.0.1")}


async def test_status_and_mirrors_need_no_get_request() -> None:
    """The watch supplies what the API holds, so a PATCH needs no GET first."""
    api = Watched()
    node = OneNode(api, build.node())
    running = asyncio.create_task(node.run())
    await life(api, node)
    running.cancel()
    with suppress(asyncio.CancelledError, ApiError):
        await running
    assert [call.verb for call in api.calls].count("get") == 0
