"""ReplicationControllers with their controller and the garbage collector on a whole API server, on virtual time."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from controller_rig import Bench, SimulatedNodes
from pykubelet.api import scheme
from pykubelet.api.generated.meta import DeleteOptions
from pykubelet.api.schema import PODS, REPLICATION_CONTROLLERS, Resource
from pykubelet.api.serializer import Document
from pykubelet.controllers.framework.expectations import UidTrackingExpectations
from pykubelet.controllers.framework.pod_control import PodControl
from pykubelet.controllers.garbagecollector.garbagecollector import GarbageCollector
from pykubelet.controllers.replication.replication_controller import ReplicationManager
from pykubelet.testing.local_api import local_api

LABELS = {"app": "web"}
TEMPLATE: Document = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """Runs the controller, the garbage collector and simulated nodes."""
    async with local_api(tmp_path) as api:
        made = Bench(api.client)
        controller = ReplicationManager(
            client=api.client,
            pod_control=PodControl(client=api.client, recorder=made.recorder),
            pods=made.informers.pods,
            sets=made.informers.objects(scheme.REPLICATION_CONTROLLERS),
            expectations=UidTrackingExpectations(),
            clock=made.clock,
        )
        collector = GarbageCollector(client=api.client, recorder=made.recorder, clock=made.clock)
        async with made.running(controller), asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(SimulatedNodes(api.client, made.clock).run()),
                group.create_task(collector.run(asyncio.Event())),
            ]
            yield made
            for task in tasks:
                task.cancel()


async def status_of(bench: Bench) -> Document:
    found = await bench.get(REPLICATION_CONTROLLERS, "web")
    return {} if found is None else found["status"]


async def owned(bench: Bench) -> list[Document]:
    return [pod for pod in await bench.all(PODS) if pod["metadata"].get("ownerReferences")]


async def create(bench: Bench, **spec: Any) -> None:
    await bench.make(REPLICATION_CONTROLLERS, "web", spec={"template": TEMPLATE, "replicas": 2, **spec})
    await bench.until(lambda: has_available(bench, spec.get("replicas", 2)))


async def has_available(bench: Bench, count: int) -> bool:
    available: int = (await status_of(bench)).get("availableReplicas", 0)
    return available == count == len(await owned(bench))


async def delete(bench: Bench, policy: str) -> None:
    options = DeleteOptions(propagation_policy=policy)
    await bench.plain.delete(scheme.REPLICATION_CONTROLLERS, "web", namespace="default", options=options)


async def test_controller_creates_adopts_and_releases_pods(bench: Bench) -> None:
    """The pods name their ReplicationController as controller, and the status counts them."""
    await bench.make(PODS, "orphan", metadata={"labels": LABELS}, spec=TEMPLATE["spec"])
    await create(bench)
    pods = await owned(bench)
    assert "orphan" in {pod["metadata"]["name"] for pod in pods}
    (reference,) = pods[0]["metadata"]["ownerReferences"]
    wanted = ("v1", "ReplicationController", "web", True, True)
    names = ("apiVersion", "kind", "name", "controller", "blockOwnerDeletion")
    assert tuple(reference[name] for name in names) == wanted
    assert await status_of(bench) == {
        "replicas": 2,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "observedGeneration": 1,
    }
    await bench.change(PODS, "orphan", {"metadata": {"labels": {"app": "other"}}})

    async def replaced() -> bool:
        names = {pod["metadata"]["name"] for pod in await owned(bench)}
        return len(names) == 2 and "orphan" not in names

    await bench.until(replaced)


async def test_scale_subresource_changes_the_number_of_pods(bench: Bench) -> None:
    await create(bench)
    scale = Resource("", "v1", "replicationcontrollers", "Scale", subresource="scale")
    found = await bench.plain.get(scheme.as_documents(scale), "web", namespace="default")
    assert (found["spec"], found["status"]) == ({"replicas": 2}, {"replicas": 2, "selector": "app=web"})
    await bench.change(REPLICATION_CONTROLLERS, "web", {"spec": {"replicas": 1}}, subresource="scale")
    await bench.until(lambda: has_available(bench, 1))


async def test_failed_creation_is_a_condition_until_it_succeeds(bench: Bench) -> None:
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "priorityClassName": "missing"}}
    await bench.make(REPLICATION_CONTROLLERS, "web", spec={"template": template, "replicas": 1})

    async def has_failed() -> bool:
        return bool((await status_of(bench)).get("conditions"))

    await bench.until(has_failed)
    (condition,) = (await status_of(bench))["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("ReplicaFailure", "True", "FailedCreate")
    assert "no PriorityClass with name missing was found" in condition["message"]


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_deletion_deletes_the_pods(bench: Bench, policy: str) -> None:
    await create(bench)
    await delete(bench, policy)

    async def is_gone() -> bool:
        return not await bench.all(PODS) and await bench.get(REPLICATION_CONTROLLERS, "web") is None

    await bench.until(is_gone)
    assert await is_gone()


async def test_orphaning_deletion_keeps_the_pods(bench: Bench) -> None:
    await create(bench)
    await delete(bench, "Orphan")

    async def is_gone() -> bool:
        return await bench.get(REPLICATION_CONTROLLERS, "web") is None

    await bench.until(is_gone)
    await asyncio.sleep(60)
    assert len(await bench.all(PODS)) == 2
    assert await owned(bench) == []
