"""Containers of pods that are gone, removed as soon as they have ended."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.images.image_manager import NoImages
from pykubelet.kubelet.kuberuntime.container_gc import ContainerGc, GcPolicy, PodContainerDeletor
from pykubelet.testing.build import container, pod
from runtime_rig import Rig

WEB = pod(restart_policy="Always")
UID = PodUid(WEB.metadata.uid)


class DeadRig(Rig):
    """The rig with what removes dead containers; also says which pods are gone."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.gone: set[PodUid] = set()
        gc = ContainerGc(
            runtime=self.sim,
            remover=self.remover,
            states=self,
            is_reported=lambda _: True,
            events=self.events,
            node=ObjectReference(kind="Node", name="node-1"),
            clock=self.clock,
            policy=GcPolicy(),
        )
        self.dead = PodContainerDeletor(runtime=self.sim, gc=gc, is_gone=self.should_pod_content_be_removed)

    def all_sources_ready(self) -> bool:
        return True

    def should_pod_content_be_removed(self, uid: PodUid) -> bool:
        return uid in self.gone

    def should_pod_runtime_be_removed(self, uid: PodUid) -> bool:
        return uid in self.gone

    @asynccontextmanager
    async def with_dead(self) -> AsyncIterator[None]:
        """A pod whose container has ended, and the remover at work."""
        async with self.running(), asyncio.TaskGroup() as group:
            task = group.create_task(self.dead.run(asyncio.Event()))
            await self.sync(WEB)
            self.sim.crash(UID, "main")
            yield
            task.cancel()


async def test_containers_of_a_pod_that_stays_are_kept(tmp_path: Path) -> None:
    """Its worker sees to them, once they are reported."""
    rig = DeadRig(tmp_path)
    async with rig.with_dead():
        rig.dead.prune(UID)
        await asyncio.sleep(1)
        assert len((await rig.observed(WEB)).containers) == 1


async def test_containers_of_a_pod_that_is_gone_are_removed(tmp_path: Path) -> None:
    """At once, without waiting for the next collection."""
    rig = DeadRig(tmp_path)
    async with rig.with_dead():
        rig.gone.add(UID)
        rig.dead.prune(UID)
        await asyncio.sleep(0)
        await asyncio.sleep(1)
        assert (await rig.observed(WEB)).containers == ()


async def test_evicted_pod_loses_its_containers_and_strangers_do_not_matter(tmp_path: Path) -> None:
    """A pod of which there is nothing is no trouble."""
    rig = DeadRig(tmp_path)
    async with rig.with_dead():
        rig.dead.remove_all(PodUid("stranger"))
        rig.dead.remove_all(UID)
        await asyncio.sleep(1)
        assert (await rig.observed(WEB)).containers == ()


async def test_runtime_without_images_takes_any_name() -> None:
    """The name stands for the image, and has no say about the user."""
    images, main = NoImages(), container(image="example/image:1")
    assert await images.ensure(WEB, main, ObjectReference()) == "example/image:1"
    assert await images.user_of(main) is None
