"""DaemonSets end to end: the controller, the real API, and nodes that join and leave."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from controller_rig import BROKEN, NAMESPACE
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api import schema
from pykubelet.api.generated.core import EventSource, Pod
from pykubelet.api.scheme import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, POD_DISRUPTION_BUDGETS, PODS
from pykubelet.client.informers import Informers
from pykubelet.client.interface import PatchType
from pykubelet.client.recorder import Recorder
from pykubelet.controllers.daemon.placement import target_node
from pykubelet.controllers.framework.active_pods import ready_condition
from pykubelet.controllers.framework.work_queue import ControllerWorkers
from pykubelet.scheduler.schedule_one import SCHEDULER_NAME, Scheduler
from pykubelet.testing.local_api import local_api
from workload_rig import Cluster, cluster

DS = schema.DAEMON_SETS
NAMES = ("n1", "n2", "n3", "n4")


def rolling(**limits: Any) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, **limits}}


async def staying(world: Cluster) -> list[Pod]:
    """The pods without a deletion timestamp."""
    return [pod for pod in (await world.pods()).values() if pod.metadata.deletion_timestamp is None]


async def ready_nodes(world: Cluster) -> list[str]:
    """The target nodes of pods that are ready and not being deleted, one entry per pod."""
    return sorted(target_node(pod) or "" for pod in await staying(world) if ready_condition(pod) is not None)


async def fewest_and_most(world: Cluster) -> tuple[int, int]:
    """Over 40 seconds: the fewest nodes with a ready pod, and the most pods not being deleted."""
    fewest, most = len(NAMES), len(NAMES)
    for _ in range(200):
        fewest = min(fewest, len(set(await ready_nodes(world))))
        most = max(most, len(await staying(world)))
        await asyncio.sleep(0.2)
    return fewest, most


async def test_every_node_has_its_pod_whenever_it_comes(tmp_path: Path) -> None:
    """A node that joins gets a pod; a pod on a node with a NoExecute taint is deleted."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_nodes("n1", "n2")
        await world.create_daemon()
        await world.until_daemons_rolled_out()
        assert await ready_nodes(world) == ["n1", "n2"]
        (revision,) = await world.revisions()
        labels = [pod.metadata.labels for pod in (await world.pods()).values()]
        value = revision.metadata.labels["controller-revision-hash"]
        assert labels == [{"app": "web", "pod-template-generation": "1", "controller-revision-hash": value}] * 2
        assert revision.metadata.name == f"web-{value}"
        await world.create_nodes("n3")
        await asyncio.sleep(5)
        assert await ready_nodes(world) == ["n1", "n2", "n3"]
        closed = {"spec": {"taints": [{"key": "closed", "effect": "NoExecute"}]}}
        await world.client.patch(NODES, "n1", closed, patch_type=PatchType.MERGE)
        await asyncio.sleep(5)
        assert await ready_nodes(world) == ["n2", "n3"]
        await world.client.delete(NODES, "n2")
        await asyncio.sleep(5)
        status = (await world.daemon_set()).status
        assert (status.desired_number_scheduled, status.current_number_scheduled, status.number_ready) == (1, 1, 1)


async def test_scheduler_binds_each_pod_to_the_node_it_was_created_for(tmp_path: Path) -> None:
    """This includes an unschedulable node, because daemon pods tolerate its taint."""
    async with local_api(tmp_path) as api:
        world = Cluster(api.client)
        informers, informed = Informers(client=api.client, clock=world.clock), asyncio.Event()
        recorder = Recorder(sink=api.client, source=EventSource(component=SCHEDULER_NAME), clock=world.clock)
        scheduler = Scheduler(
            client=api.client,
            recorder=recorder,
            pods=informers.pods,
            budgets=informers.objects(POD_DISRUPTION_BUDGETS),
            clock=world.clock,
        )
        scheduler.listen(informers)
        loop = ControllerWorkers(name="scheduler", process_next=scheduler.process_next, informed=informed)
        parts = {"informers": with_ready_event(informers.run, informed), "scheduler": with_ready_event(loop.run)}
        async with running(parts), world.controllers():
            closed = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
            await world.create_nodes("n1", "n2")
            await world.create_nodes("n3", taints=closed, unschedulable=True)
            await world.create_daemon()
            await asyncio.sleep(5)
            pods = (await world.pods()).values()
            assert sorted(pod.spec.node_name for pod in pods) == ["n1", "n2", "n3"]


@pytest.mark.parametrize(
    ("strategy", "bounds"),
    [
        pytest.param(rolling(maxUnavailable=1), (3, 4), id="one may be missing"),
        pytest.param(rolling(maxUnavailable="50%"), (2, 4), id="half may be missing"),
        pytest.param(rolling(maxSurge=1), (4, 5), id="one more, no gap"),
        pytest.param(rolling(maxSurge="50%"), (4, 6), id="two more, no gap"),
    ],
)
async def test_update_keeps_to_its_bounds(tmp_path: Path, strategy: dict[str, Any], bounds: tuple[int, int]) -> None:
    """maxUnavailable limits the nodes without a ready pod, maxSurge the extra pods.

    In the end all pods have the new version.
    """
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_nodes(*NAMES)
        await world.create_daemon(updateStrategy=strategy)
        await world.until_daemons_rolled_out()
        await world.set_image(DS, "two")
        assert await fewest_and_most(world) == bounds
        assert await world.images() == dict.fromkeys(NAMES, "two")
        status = (await world.daemon_set()).status
        assert (status.updated_number_scheduled, status.number_unavailable) == (4, 0)


async def test_rollout_of_a_broken_version_stops_at_max_unavailable(tmp_path: Path) -> None:
    """One node loses its pod, then the rollout stops; rolling back repairs that node."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_nodes(*NAMES)
        await world.create_daemon()
        await world.until_daemons_rolled_out()
        await world.set_image(DS, BROKEN)
        await asyncio.sleep(60)
        assert sorted((await world.images()).values()) == [BROKEN, "one", "one", "one"]
        assert (await world.daemon_set()).status.number_unavailable == 1
        await world.undo(DS, 1)
        await asyncio.sleep(30)
        assert await world.images() == dict.fromkeys(NAMES, "one")
        assert [one.revision for one in await world.revisions()] == [2, 3]


async def test_update_waits_until_new_pods_are_available(tmp_path: Path) -> None:
    """A new pod must be ready for minReadySeconds before the next node is updated."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_nodes("n1", "n2")
        await world.create_daemon(minReadySeconds=20)
        await world.until_daemons_rolled_out()
        await world.set_image(DS, "two")
        await asyncio.sleep(20)
        assert sorted((await world.images()).values()) == ["one", "two"]
        await asyncio.sleep(40)
        assert sorted((await world.images()).values()) == ["two", "two"]
        assert (await world.daemon_set()).status.number_available == 2


async def test_set_that_updates_on_deletion_waits_for_it(tmp_path: Path) -> None:
    """Until then the status only counts the updated pods."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_nodes("n1", "n2")
        await world.create_daemon(updateStrategy={"type": "OnDelete"})
        await world.until_daemons_rolled_out()
        await world.set_image(DS, "two")
        await asyncio.sleep(30)
        assert await world.images() == {"n1": "one", "n2": "one"}
        assert (await world.daemon_set()).status.updated_number_scheduled == 0
        await world.client.delete(PODS, _on(await world.pods(), "n1"), namespace=NAMESPACE)
        await asyncio.sleep(10)
        assert await world.images() == {"n1": "two", "n2": "one"}


def _on(pods: dict[str, Pod], node: str) -> str:
    return next(name for name, pod in pods.items() if target_node(pod) == node)


async def test_failed_pod_is_replaced_and_reported(tmp_path: Path) -> None:
    """The event has upstream's reason and message."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_nodes("n1")
        await world.create_daemon()
        await world.until_daemons_rolled_out()
        (name,) = await world.pods()
        await world.nodes.report(name, "Failed", is_ready=False)
        await asyncio.sleep(10)
        assert await ready_nodes(world) == ["n1"]
        text = f"FailedDaemonPod: Found failed daemon pod default/{name} on node n1, will try to kill it"
        assert text in await world.events()


async def test_history_is_kept_up_to_its_limit(tmp_path: Path) -> None:
    """The current revision does not count towards the limit.

    If it is deleted, the controller recreates it with the same name.
    """
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_nodes("n1")
        await world.create_daemon(revisionHistoryLimit=1)
        for image in ("two", "three"):
            await world.until_daemons_rolled_out()
            await world.set_image(DS, image)
            await asyncio.sleep(5)
        assert [one.revision for one in await world.revisions()] == [2, 3]
        present = (await world.revisions())[-1].metadata
        before = world.happened.copy()
        await world.client.delete(CONTROLLER_REVISIONS, present.name, namespace=NAMESPACE)
        await asyncio.sleep(5)
        again = (await world.revisions())[-1]
        assert (again.metadata.name, again.revision) == (present.name, 3)
        assert world.happened == before


async def test_set_made_again_adopts_what_its_namesake_left(tmp_path: Path) -> None:
    """The set was deleted without its dependents; the new set of the same name owns them and replaces no pod."""
    async with cluster(tmp_path) as world, world.controllers():
        await world.create_nodes("n1", "n2")
        await world.create_daemon()
        await world.until_daemons_rolled_out()
        await world.client.delete(DAEMON_SETS, "web", namespace=NAMESPACE)
        alone = {"metadata": {"ownerReferences": None}}
        for name in await world.pods():
            await world.client.patch(PODS, name, alone, namespace=NAMESPACE, patch_type=PatchType.MERGE)
        for one in await world.revisions():
            await world.client.patch(
                CONTROLLER_REVISIONS, one.metadata.name, alone, namespace=NAMESPACE, patch_type=PatchType.MERGE
            )
        before = world.happened.copy()
        made = await world.create_daemon()
        await world.until_daemons_rolled_out()
        await asyncio.sleep(10)
        assert world.happened == before
        (revision,) = await world.revisions()
        assert [owner.uid for owner in revision.metadata.owner_references] == [made.metadata.uid]
