"""Workload controllers subscribe to additions, updates and deletions of their own kind."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.scheme import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, TypedKind
from pykubelet.client.informers import Informers
from pykubelet.controllers.deployment.deployment_controller import DeploymentController
from pykubelet.controllers.statefulset.stateful_set import StatefulSetController, stateful_set_informers
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

Controller = DeploymentController | StatefulSetController


class NoRecorder:
    """Fails on every event, because nothing is synced here."""

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        raise AssertionError(message)


def deployments(api: MemoryApi, informers: Informers) -> Controller:
    return DeploymentController(
        client=api,
        recorder=NoRecorder(),
        clock=VirtualClock(),
        deployments=informers.objects(DEPLOYMENTS),
        sets=informers.objects(REPLICA_SETS),
        pods=informers.pods,
    )


def stateful_sets(api: MemoryApi, informers: Informers) -> Controller:
    view = stateful_set_informers(informers)
    return StatefulSetController(client=api, recorder=NoRecorder(), view=view, clock=VirtualClock())


@pytest.mark.parametrize(
    ("kind", "new_controller"),
    [(DEPLOYMENTS, deployments), (STATEFUL_SETS, stateful_sets)],
    ids=["deployments", "statefulsets"],
)
async def test_added_updated_and_deleted_workloads_are_enqueued(
    kind: TypedKind[Any], new_controller: Callable[[MemoryApi, Informers], Controller]
) -> None:
    """Each of the three events enqueues the key once."""
    api = MemoryApi(VirtualClock())
    informers = Informers(client=api, clock=VirtualClock())
    controller, keys, ready = new_controller(api, informers), list[str](), asyncio.Event()
    controller.listen(informers)

    async def take(key: str) -> None:
        keys.append(key)

    async def taken() -> list[str]:
        await asyncio.sleep(1)
        keys.clear()
        while len(controller.queue):
            await controller.queue.process_next(take)
        return keys

    document = {"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": {"replicas": 1}}
    async with asyncio.TaskGroup() as group:
        task = start_supervised(group, "informers", lambda: informers.run(ready))
        await ready.wait()
        api.put(kind.resource, document)
        assert await taken() == ["default/web"]
        api.put(kind.resource, {**document, "spec": {"replicas": 2}})
        assert await taken() == ["default/web"]
        api.remove(kind.resource, namespace="default", name="web")
        assert await taken() == ["default/web"]
        task.cancel()
