"""PodDisruptionBudgets on a whole API server and virtual time: allowed disruptions and evictions."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controller_rig import Bench
from pykubelet.api import scheme
from pykubelet.api.errors import TooManyRequests
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.generated.policy import Eviction
from pykubelet.api.schema import DEPLOYMENTS, JOBS, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, Resource
from pykubelet.api.serializer import Document
from pykubelet.client.informers import PodsByLabel
from pykubelet.client.interface import NOW, ControllerClient
from pykubelet.controllers.disruption.budget import ScaleFinder
from pykubelet.controllers.disruption.disruption import DisruptionController, StaleDisruptionController
from pykubelet.testing.faults import Fault, FaultyClient
from pykubelet.testing.local_api import local_api

LABELS = {"app": "web"}
CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
TEMPLATE: Document = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


class Budgets(Bench):
    """Budgets, pods, their owners, and the disruption controllers."""

    def __init__(self, client: Any, api: ControllerClient) -> None:
        super().__init__(client, plain=api)
        self.api = api

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        objects = self.informers.objects
        scales = ScaleFinder(
            client=self.api,
            deployments=objects(scheme.DEPLOYMENTS),
            replica_sets=objects(scheme.REPLICA_SETS),
            stateful_sets=objects(scheme.STATEFUL_SETS),
        )
        pods = PodsByLabel()
        pods.listen(self.informers)
        controller = DisruptionController(
            client=self.client,
            recorder=self.recorder,
            clock=self.clock,
            budgets=objects(scheme.POD_DISRUPTION_BUDGETS),
            pods=pods,
            scales=scales,
        )
        stale = StaleDisruptionController(client=self.client, pods=self.informers.pods, clock=self.clock)
        async with self.running(controller, stale):
            yield

    async def budget(self, name: str = "web", **spec: Any) -> None:
        await self.make(POD_DISRUPTION_BUDGETS, name, spec={"selector": {"matchLabels": LABELS}, **spec})

    async def pod(self, name: str, owner: Document | None = None) -> None:
        metadata: Document = {"labels": LABELS}
        if owner is not None:
            reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
            reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
            metadata["ownerReferences"] = [reference]
        await self.make(PODS, name, metadata=metadata, spec={**TEMPLATE["spec"], "nodeName": "node-1"})
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.change(PODS, name, {"status": status}, subresource="status")

    async def owner(self, resource: Resource, replicas: int, **metadata: Any) -> Document:
        selector: Any = LABELS if resource is CONTROLLERS else {"matchLabels": LABELS}
        spec = {"replicas": replicas, "selector": selector, "template": TEMPLATE}
        return await self.make(resource, "owner", metadata=metadata, spec=spec)

    async def counts(self, name: str = "web") -> tuple[int, int, int, int]:
        """The healthy, desired, expected and allowed pods of a budget's status."""
        status = (await self.get(POD_DISRUPTION_BUDGETS, name) or {})["status"]
        return tuple(status[key] for key in ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"))

    async def evict(self, name: str) -> None:
        eviction = Eviction(metadata=ObjectMeta(name=name, namespace="default"))
        await self.plain.create(scheme.POD_EVICTIONS, eviction, namespace="default", name=name)


@pytest.fixture
async def budgets(tmp_path: Path) -> AsyncIterator[Budgets]:
    async with local_api(tmp_path) as api:
        yield Budgets(api.client, api.client)


async def test_number_of_pods_that_must_stay_is_kept(budgets: Budgets) -> None:
    """An absolute minAvailable needs no pod owner. The counts follow pods, labels and the budget."""
    await budgets.budget(minAvailable=2)
    async with budgets.at_work():
        await asyncio.sleep(1)
        assert await budgets.counts() == (0, 2, 0, 0)
        assert await budgets.events("NoPods") == ["No matching pods found"]
        for name in "abc":
            await budgets.pod(name)
        await asyncio.sleep(1)
        assert await budgets.counts() == (3, 2, 3, 1)
        found = await budgets.get(POD_DISRUPTION_BUDGETS, "web")
        assert found is not None
        (condition,) = found["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("DisruptionAllowed", "True")
        assert condition["reason"] == "SufficientPods"
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        await budgets.change(POD_DISRUPTION_BUDGETS, "web", {"spec": {"minAvailable": 3}})
        await asyncio.sleep(1)
        assert await budgets.counts() == (3, 3, 3, 0)
        await budgets.change(PODS, "a", {"metadata": {"labels": {"app": "other"}}})
        await asyncio.sleep(1)
        assert await budgets.counts() == (2, 3, 2, 0)
        await budgets.plain.delete(scheme.PODS, "b", namespace="default", options=NOW)
        await asyncio.sleep(1)
        assert await budgets.counts() == (1, 3, 1, 0)


@pytest.mark.parametrize(
    ("resource", "spec", "expected"),
    [
        (REPLICA_SETS, {"maxUnavailable": 1}, (2, 3, 4, 0)),
        (REPLICA_SETS, {"minAvailable": "26%"}, (2, 2, 4, 0)),
        (REPLICA_SETS, {"maxUnavailable": "75%"}, (2, 1, 4, 1)),
        (CONTROLLERS, {"maxUnavailable": "75%"}, (2, 1, 4, 1)),
    ],
    ids=["at most one", "a share that must stay", "a share that may go", "by the scale of the owner"],
)
async def test_share_is_of_what_the_owner_wants(
    budgets: Budgets, resource: Resource, spec: Document, expected: tuple[int, ...]
) -> None:
    """The existing pods do not matter; percentages are rounded up."""
    owner = await budgets.owner(resource, 4)
    await budgets.budget(**spec)
    for name in "ab":
        await budgets.pod(name, owner)
    async with budgets.at_work():
        await asyncio.sleep(1)
        assert await budgets.counts() == expected


async def test_deployment_decides_for_its_sets(budgets: Budgets) -> None:
    """During a rollout the pods belong to several ReplicaSets, so the Deployment's replicas count."""
    deployment = await budgets.owner(DEPLOYMENTS, 10)
    meta = deployment["metadata"]
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": meta["name"], "uid": meta["uid"]}
    owner = await budgets.owner(REPLICA_SETS, 3, ownerReferences=[{**reference, "controller": True}])
    await budgets.budget(maxUnavailable="30%")
    await budgets.pod("a", owner)
    async with budgets.at_work():
        await asyncio.sleep(1)
        assert await budgets.counts() == (1, 7, 10, 0)


async def test_owner_without_a_scale_allows_no_disruption(budgets: Budgets) -> None:
    """The condition and an event give the reason."""
    owner = await budgets.make(
        JOBS, "owner", spec={"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}
    )
    await budgets.budget(maxUnavailable=1)
    await budgets.pod("a", owner)
    async with budgets.at_work():
        await asyncio.sleep(60)
        found = await budgets.get(POD_DISRUPTION_BUDGETS, "web")
        assert found is not None
        (condition,) = found["status"]["conditions"]
        why = "jobs.batch does not implement the scale subresource"
        assert (condition["reason"], condition["message"]) == ("SyncFailed", why)
        assert found["status"]["disruptionsAllowed"] == 0
        told = f"Failed to calculate the number of expected pods: {why}"
        assert await budgets.events("CalculateExpectedPodCountFailed") == [told]


async def test_evicted_pod_is_counted_as_gone_until_it_is_or_its_time_is_over(budgets: Budgets) -> None:
    """The eviction API decrements the budget itself, so a second eviction is rejected.

    A pod that is not deleted within two minutes counts again.
    """
    await budgets.budget(minAvailable=1)
    for name in "ab":
        await budgets.pod(name)
    async with budgets.at_work():
        await asyncio.sleep(1)
        await budgets.evict("a")
        with pytest.raises(TooManyRequests):
            await budgets.evict("b")
        await asyncio.sleep(1)
        assert await budgets.counts() == (1, 1, 2, 0)
        await budgets.plain.delete(scheme.PODS, "a", namespace="default", options=NOW)
        await budgets.pod("c")
        await asyncio.sleep(1)
        assert await budgets.counts() == (2, 1, 2, 1)
        status = {"disruptedPods": {"c": "2026-01-01T00:00:03Z"}, "disruptionsAllowed": 0}
        await budgets.change(POD_DISRUPTION_BUDGETS, "web", {"status": status}, subresource="status")
        await asyncio.sleep(1)
        assert await budgets.counts() == (1, 1, 2, 0)
        await asyncio.sleep(180)
        assert await budgets.counts() == (2, 1, 2, 1)
        assert "disruptedPods" not in (await budgets.get(POD_DISRUPTION_BUDGETS, "web") or {})["status"]
        (message,) = await budgets.events("NotDeleted")
        assert message == "Pod was expected by PDB default/web to be deleted but it wasn't"


async def test_stale_disruption_target_is_reset_after_two_minutes(budgets: Budgets) -> None:
    """The condition becomes False without a reason. A condition set by the kubelet stays."""
    for name, reason in (("a", "EvictionByEvictionAPI"), ("b", "TerminationByKubelet")):
        await budgets.pod(name)
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "x"}
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        ready = {"type": "Ready", "status": "True"}
        await budgets.change(PODS, name, {"status": {"conditions": [ready, condition]}}, subresource="status")
    async with budgets.at_work():
        await asyncio.sleep(60)
        found = [(await budgets.get(PODS, name) or {})["status"]["conditions"][1]["status"] for name in "ab"]
        assert found == ["True", "True"]
        await asyncio.sleep(70)
        first, second = [(await budgets.get(PODS, name) or {})["status"]["conditions"][1] for name in "ab"]
        assert (first["status"], "reason" in first, second["status"]) == ("False", False, "True")


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.ANSWER_LOST, Fault.FAILED], ids=lambda fault: str(fault.name))
async def test_one_fault_anywhere_changes_nothing_in_the_end(fault: Fault, budgets: Budgets) -> None:
    """The status is correct half a minute later, whichever call fails."""
    api = budgets.api
    for at in itertools.count():
        faulty = FaultyClient(api, fault, at=at)
        bench = Budgets(faulty, api)
        await bench.budget(minAvailable=1)
        async with bench.at_work():
            for name in "ab":
                await bench.pod(name)
            await asyncio.sleep(30)
            assert await bench.counts() == (2, 1, 2, 1)
        for name in "ab":
            await api.delete(scheme.PODS, name, namespace="default", options=NOW)
        await bench.delete(POD_DISRUPTION_BUDGETS, "web")
        if not faulty.injected:
            break
    assert at >= 3
