"""Reclaiming disk space: dead containers first, then images; one failure does not stop the rest."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.eviction.eviction_manager import DiskReclaimer
from pykubelet.kubelet.images.image_gc_manager import ImageGcManager, ImageGcPolicy
from pykubelet.kubelet.kuberuntime.container_gc import ContainerGc, GcPolicy
from pykubelet.runtimes.protocol import RuntimeFailure, RuntimePod
from pykubelet.runtimes.sim.runtime import Behaviour, ContainerRun, SimImages, SimRuntime
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import VirtualClock
from runtime_rig import Rig

NODE = ObjectReference(kind="Node", name="node-1")


class AllOver:
    """Every pod has ended, none is deleted. Implements PodStates."""

    def all_sources_ready(self) -> bool:
        return True

    def should_pod_content_be_removed(self, _: PodUid) -> bool:
        return False

    def should_pod_runtime_be_removed(self, _: PodUid) -> bool:
        return True


class Forgetful(SimRuntime):
    """A runtime whose pod list can be made to fail."""

    is_deaf = False

    async def pods(self) -> Sequence[RuntimePod]:
        if self.is_deaf:
            raise RuntimeFailure("no answer")
        return await super().pods()


def reclaimer(rig: Rig, *, with_images: bool = True) -> DiskReclaimer:
    gc = ContainerGc(
        runtime=rig.sim,
        remover=rig.remover,
        states=AllOver(),
        is_exit_reported=lambda _, __: True,
        events=rig.events,
        node=NODE,
        clock=rig.clock,
        policy=GcPolicy(),
    )
    images = ImageGcManager(
        images=rig.images,
        image_fs=rig.images,
        runtime=rig.sim,
        events=rig.events,
        node=NODE,
        clock=rig.clock,
        policy=ImageGcPolicy(min_age_seconds=0),
    )
    return DiskReclaimer(containers=gc, images=images if with_images else None)


@pytest.mark.parametrize("with_images", [True, False])
async def test_image_of_a_dead_container_goes_with_it(tmp_path: Path, *, with_images: bool) -> None:
    """Both are removed in one pass; without an image service only the container is removed."""
    sim = SimRuntime(clock=VirtualClock(), default=Behaviour(runs=(ContainerRun(seconds=0),)))
    async with Rig(tmp_path, sim=sim).running() as rig:
        web = pod(restart_policy="Never", containers=[container(image="example/image:1")])
        await rig.sync(web)
        await asyncio.sleep(1)
        await rig.killer.kill_pod(web, await rig.observed(web))
        await reclaimer(rig, with_images=with_images).reclaim()
        assert await rig.sim.pods() == []
        assert len(await rig.images.images()) == (0 if with_images else 1)


async def test_runtime_that_does_not_answer_makes_no_room(tmp_path: Path) -> None:
    """It raises no error: callers measure the free space themselves."""
    sim = Forgetful(clock=VirtualClock())
    async with Rig(tmp_path, sim=sim, images=SimImages()).running() as rig:
        await rig.sync(pod())
        sim.is_deaf = True
        await reclaimer(rig).reclaim()
        assert len(await rig.images.images()) == 1
