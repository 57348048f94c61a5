"""Containers of deleted pods are removed as soon as they exit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.images.image_manager import NoImages
from pykubelet.kubelet.kuberuntime.container_gc import ContainerGc, GcPolicy, PodContainerDeletor
from pykubelet.testing.build import container, pod
from runtime_rig import Rig

WEB = pod(restart_policy="Always")
UID = PodUid(WEB.metadata.uid)


class DeadRig(Rig):
    """The rig with a PodContainerDeletor; it also decides which pods are deleted."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.gone: set[PodUid] = set()
        self.is_reported: bool | None = True
        self.gc = ContainerGc(
            runtime=self.sim,
            remover=self.remover,
            states=self,
            is_exit_reported=lambda _, __: self.is_reported,
            events=self.events,
            node=ObjectReference(kind="Node", name="node-1"),
            clock=self.clock,
            policy=GcPolicy(),
        )
        self.dead = PodContainerDeletor(runtime=self.sim, gc=self.gc, is_gone=self.should_pod_content_be_removed)

    def all_sources_ready(self) -> bool:
        return True

    def should_pod_content_be_removed(self, uid: PodUid) -> bool:
        return uid in self.gone

    def should_pod_runtime_be_removed(self, uid: PodUid) -> bool:
        return uid in self.gone

    @asynccontextmanager
    async def with_dead(self) -> AsyncIterator[None]:
        """Runs the deletor with a pod whose container has exited."""
        async with self.running(), asyncio.TaskGroup() as group:
            task = group.create_task(self.dead.run(asyncio.Event()))
            await self.sync(WEB)
            self.sim.crash(UID, "main")
            yield
            task.cancel()


async def test_containers_of_a_pod_that_stays_are_kept(tmp_path: Path) -> None:
    """The pod worker removes them after they are reported."""
    rig = DeadRig(tmp_path)
    async with rig.with_dead():
        rig.dead.prune(UID)
        await asyncio.sleep(1)
        assert len((await rig.observed(WEB)).containers) == 1


async def test_containers_of_a_pod_that_is_gone_are_removed(tmp_path: Path) -> None:
    """They are removed at once, before the next garbage collection."""
    rig = DeadRig(tmp_path)
    async with rig.with_dead():
        rig.gone.add(UID)
        rig.dead.prune(UID)
        await asyncio.sleep(0)
        await asyncio.sleep(1)
        assert (await rig.observed(WEB)).containers == ()


@pytest.mark.parametrize(("is_reported", "left"), [(False, 1), (True, 0), (None, 0)])
async def test_exit_of_a_deleted_pod_stays_until_the_api_has_it(
    tmp_path: Path, is_reported: bool | None, left: int
) -> None:
    """Nothing will report the exit of a pod without a status (None)."""
    rig = DeadRig(tmp_path)
    async with rig.with_dead():
        rig.gone.add(UID)
        rig.is_reported = is_reported
        rig.dead.prune(UID)
        await asyncio.sleep(1)
        assert len((await rig.observed(WEB)).containers) == left
        await rig.gc.collect()
        assert len((await rig.observed(WEB)).containers) == left


async def test_remove_all_removes_dead_containers_and_ignores_unknown_pods(tmp_path: Path) -> None:
    """Used for evicted pods; an unknown UID is no error."""
    rig = DeadRig(tmp_path)
    async with rig.with_dead():
        rig.dead.remove_all(PodUid("stranger"))
        rig.dead.remove_all(UID)
        await asyncio.sleep(1)
        assert (await rig.observed(WEB)).containers == ()


async def test_runtime_without_images_takes_any_name() -> None:
    """The name is used as the image id, and the image has no user."""
    images, main = NoImages(), container(image="example/image:1")
    assert await images.ensure(WEB, main, ObjectReference()) == "example/image:1"
    assert await images.user_of(main) is None
