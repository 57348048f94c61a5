"""Volume mounts that hang in a thread, as on a dead file system, on a node in real time."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.aio.clock import SystemClock
from pykubelet.app.node import node
from pykubelet.app.program import widen_threads
from pykubelet.app.runtimes import simulated
from pykubelet.app.settings import NodeSettings
from pykubelet.runtimes.sim.runtime import SimImages, SimRuntime
from pykubelet.testing.local_api import local_api
from whole_node import POD_DOCUMENTS, World, container, is_ready

HUNG = {
    "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
    "containers": [container(volumeMounts=[{"name": "v", "mountPath": "/v"}])],
}


class HangingMounter:
    """Its calls block until the test releases them."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def mount_memory(self, path: str, *, size_bytes: int, mode: int, group: int | None) -> None:
        self.released.wait()

    def bind(self, source: str, target: str) -> None:
        self.released.wait()

    def unmount(self, path: str) -> None:
        self.released.wait()


@pytest.fixture
def mounter() -> Iterator[HangingMounter]:
    made = HangingMounter()
    yield made
    made.released.set()


async def test_hung_volumes_delay_no_other_pod(tmp_path: Path, mounter: HangingMounter) -> None:
    """While the mounts of fifty pods hang, a pod without volumes becomes ready within seconds."""
    widen_threads()
    clock = SystemClock()
    settings = NodeSettings(node_name="node-1", root_dir=tmp_path / "node")
    runtime = simulated(SimRuntime(clock=clock), SimImages())
    async with local_api(tmp_path, clock=clock) as api:
        outside = World(api.client, tmp_path, SimRuntime(clock=clock), SimImages())
        async with node(settings, client=api.client, runtime=runtime, clock=clock, mounter=mounter) as started:
            await started.until_ready()
            for number in range(50):
                await outside.create(f"hung-{number}", **HUNG)
            await asyncio.sleep(1)
            pod = await outside.create("web")
            async with asyncio.timeout(5):
                while not is_ready(pod):
                    await asyncio.sleep(0.02)
                    pod = await outside.pod("web")
            listed = (await api.client.list(POD_DOCUMENTS, namespace="default")).items
            assert {one["status"]["phase"] for one in listed if one["metadata"]["name"] != "web"} == {"Pending"}
            mounter.released.set()
