"""Pod lifecycles recorded from kubelet v1.34.11 with containerd, replayed on the simulated runtime.

States and their order, every field of the final object, and the texts of events must be equal. The replay on real
processes is tests/real/node/test_kubelet_lives.py.
"""

import asyncio
from pathlib import Path

import pytest

import recorded_runs
from pykubelet.api.generated.core import Pod
from pykubelet.api.serializer import from_document
from pykubelet.runtimes.sim.runtime import ImageBehaviour
from recorded_runs import Life, Replay
from shell_scripts import ShellCommands, behaviour
from whole_node import world

PRESENT = ImageBehaviour(is_present=True)
IMAGES = dict.fromkeys(("localhost/busybox:1", "registry.k8s.io/e2e-test-images/busybox:1.36.1-1"), PRESENT)


async def replayed(name: str, folder: Path) -> Life:
    """Replay a recorded pod lifecycle."""
    recording = recorded_runs.load(name)
    pod = from_document(recorded_runs.pods_in(recording)[0], Pod)
    manifests = folder / "manifests"
    manifests.mkdir()
    scripts = {one.name: behaviour(one) for one in (*pod.spec.init_containers, *pod.spec.containers)}
    async with world(folder, scripts=scripts, images=IMAGES, sandbox_seconds=0.3) as outside:
        outside.use(name="containerd", commands=ShellCommands(outside.sim, pod))
        async with outside.running_node(node_name=recorded_runs.NODE, manifests=(manifests,)):
            await asyncio.sleep(recorded_runs.SETTLED_SECONDS)
            replay = Replay(recording, client=outside.api, manifests=manifests, clock=outside.clock)
            return await replay.run()


@pytest.mark.parametrize("name", recorded_runs.NAMES)
async def test_pod_lives_as_on_the_kubelet(name: str, tmp_path: Path) -> None:
    """A pod goes through the recorded states to the recorded end, with the recorded events."""
    life = await replayed(name, tmp_path)
    assert recorded_runs.differences(name, life, recorded_runs.load(name)) == []
