"""The DaemonSet controller with the real PodControl creates a pod on every node that should run one."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api import serializer
from pykubelet.api.errors import ApiError, Forbidden, InternalError, NotFound
from pykubelet.api.generated.apps import ControllerRevision, DaemonSet, DaemonSetSpec, DaemonSetStatus
from pykubelet.api.generated.core import (
    Node,
    NodeSpec,
    ObjectReference,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    Taint,
)
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta
from pykubelet.api.scheme import CONTROLLER_REVISIONS, DAEMON_SETS, PODS
from pykubelet.api.times import format_time
from pykubelet.client.indexer import ObjectIndex, PodIndex
from pykubelet.client.interface import Client
from pykubelet.controllers.daemon.daemon_controller import DaemonSetController, DaemonSetInformers
from pykubelet.controllers.daemon.placement import BURST_DAEMONS, DaemonPodRevision, target_node, template_for
from pykubelet.controllers.framework.expectations import CountingExpectations
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.controllers.framework.pod_control import PodControl, PodControlInterface
from pykubelet.testing.fake_pod_control import FakePodControl
from pykubelet.testing.faults import CALL_FAULTS, Fault, FaultyClient
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import EPOCH, VirtualClock

KEY = "default/ds"
LABELS = {"app": "x"}


def daemon_set(*, min_ready: int = 0, selector: LabelSelector | None = None, **meta: Any) -> DaemonSet:
    template = PodTemplateSpec(metadata=ObjectMeta(labels=LABELS))
    selector = LabelSelector(match_labels=LABELS) if selector is None else selector
    return DaemonSet(
        metadata=ObjectMeta(**{"name": "ds", "namespace": "default", "uid": "ds-uid", "generation": 2, **meta}),
        spec=DaemonSetSpec(selector=selector, template=template, min_ready_seconds=min_ready),
        status=DaemonSetStatus(observed_generation=1),
    )


def node(name: str, *taints: Taint) -> Node:
    return Node(metadata=ObjectMeta(name=name), spec=NodeSpec(taints=taints))


def pod(name: str, node_name: str, phase: str = "Running") -> Pod:
    references = (new_controller_ref(daemon_set()),)
    meta = ObjectMeta(name=name, namespace="default", uid=name, labels=LABELS, owner_references=references)
    return Pod(metadata=meta, spec=PodSpec(node_name=node_name), status=PodStatus(phase=phase))


class World:
    """A controller between an API and the informer caches that a test fills."""

    def __init__(
        self,
        one: DaemonSet,
        *nodes: Node,
        client: Client | None = None,
        api: MemoryApi | None = None,
        control: PodControlInterface | None = None,
        burst: int = BURST_DAEMONS,
    ) -> None:
        self.api, self.pods, self.told = api or MemoryApi(VirtualClock()), PodIndex(), list[str]()
        self.sets: ObjectIndex[DaemonSet] = ObjectIndex()
        self.expectations = CountingExpectations()
        self.revisions: ObjectIndex[ControllerRevision] = ObjectIndex()
        self.api.put(DAEMON_SETS.resource, serializer.to_document(one))
        self.controller = DaemonSetController(
            client=client or self.api,
            pod_control=control or PodControl(client=client or self.api, recorder=self),
            recorder=self,
            view=DaemonSetInformers(self.sets, self.pods, ObjectIndex(nodes), self.revisions),
            expectations=self.expectations,
            clock=VirtualClock(),
            burst=burst,
        )
        self.show()

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        if not reason.startswith("Successful"):
            self.told.append(reason)

    def show(self) -> None:
        """Copy all objects from the API to the caches, and clear all expectations."""
        (document,) = self.api.documents(DAEMON_SETS.resource)
        self.sets.put(serializer.from_document(document, DaemonSet))
        for one in self.pods.of_owner(daemon_set(), with_orphans=True):
            self.pods.remove(one)
        for one in self.found():
            self.pods.put(one)
        for document in self.api.documents(CONTROLLER_REVISIONS.resource):
            self.revisions.put(serializer.from_document(document, ControllerRevision))
        self.expectations.forget(KEY)

    def found(self) -> list[Pod]:
        return [serializer.from_document(document, Pod) for document in self.api.documents(PODS.resource)]

    def status(self) -> DaemonSetStatus:
        (document,) = self.api.documents(DAEMON_SETS.resource)
        return serializer.from_document(document, DaemonSet).status

    async def settle(self) -> None:
        """Sync twelve times, removing deleted pods and refreshing the caches in between."""
        for _ in range(12):
            self.controller.queue.add(KEY)
            while len(self.controller.queue):
                await self.controller.process_next()
            for one in self.found():
                if one.metadata.deletion_timestamp is not None:
                    self.api.remove(PODS.resource, namespace="default", name=one.metadata.name)
            self.show()
            await asyncio.sleep(2)


@pytest.mark.parametrize("fault", CALL_FAULTS)
async def test_every_node_has_its_pod_in_the_end_whatever_fails(fault: Fault) -> None:
    """Injects one fault at each call in turn; pods on ineligible nodes are deleted."""
    at = 0
    while True:
        api = MemoryApi(VirtualClock())
        client = FaultyClient(api, fault, at=at)
        for one in (pod("a", "n0"), pod("b", "n0"), pod("c", "n1", "Failed"), pod("d", "n2", "Succeeded")):
            api.put(PODS.resource, serializer.to_document(one))
        api.put(PODS.resource, serializer.to_document(pod("e", "closed")))
        closed = node("closed", Taint(key="k", effect="NoExecute"))
        world = World(daemon_set(), *(node(f"n{n}") for n in range(4)), closed, client=client, api=api, burst=2)
        await world.settle()
        assert sorted(target_node(one) or "" for one in world.found()) == ["n0", "n1", "n2", "n3"]
        status = world.status()
        assert (status.desired_number_scheduled, status.current_number_scheduled) == (4, 4)
        assert (status.number_misscheduled, status.observed_generation) == (0, 2)
        if not client.injected:
            break
        at += 1
    assert at > 5
    assert set(world.told) == {"FailedDaemonPod", "SucceededDaemonPod"}


async def test_set_that_selects_everything_does_nothing() -> None:
    """It would otherwise adopt every pod."""
    world = World(daemon_set(selector=LabelSelector()), node("n1"))
    await world.controller.sync(KEY)
    assert world.told == ["SelectingAll"]
    assert world.api.calls == []


async def test_set_being_deleted_does_nothing() -> None:
    """Not even the status is written. A deleted set loses its expectations."""
    world = World(daemon_set(deletion_timestamp=format_time(EPOCH)), node("n1"))
    await world.controller.sync(KEY)
    assert world.api.calls == []
    world.expectations.set("default/gone", add=1, now_seconds=0)
    await world.controller.sync("default/gone")
    assert world.expectations.get("default/gone") is None


async def test_pod_that_was_never_seen_is_replaced_after_five_minutes() -> None:
    """It was created and deleted while the watch was down, so no event ends the wait for it."""
    world = World(daemon_set(), node("n1"))
    await world.controller.sync(KEY)
    (unseen,) = world.found()
    world.api.remove(PODS.resource, namespace="default", name=unseen.metadata.name)
    await asyncio.sleep(310)
    assert len(world.controller.queue) == 1
    await world.controller.process_next()
    assert len(world.found()) == 1


async def test_waiting_set_only_reports() -> None:
    """It has not acted on its generation, so observedGeneration stays old."""
    world = World(daemon_set(), node("n1"))
    world.expectations.set(KEY, add=1, now_seconds=0)
    await world.controller.sync(KEY)
    calls = [(call.verb, call.resource, call.subresource) for call in world.api.calls]
    assert calls == [("create", "controllerrevisions", ""), ("patch", "daemonsets", "status")]
    status = world.status()
    assert (status.desired_number_scheduled, status.observed_generation) == (1, 1)
    world.show()
    await world.controller.sync(KEY)
    assert world.status().observed_generation == 2
    world.show()
    await world.controller.sync(KEY)
    assert world.status().current_number_scheduled == 1
    world.show()
    before = len(world.api.calls)
    await world.controller.sync(KEY)
    assert len(world.api.calls) == before


async def test_bursts_limit_both_directions() -> None:
    """The limit holds for creations and for deletions, and for the expectations."""
    world = World(daemon_set(), *(node(f"n{n}") for n in range(9)), burst=2)
    for number in range(5):
        world.api.put(PODS.resource, serializer.to_document(pod(f"p{number}", "n0")))
    world.show()
    await world.controller.sync(KEY)
    verbs = [call.verb for call in world.api.calls if call.resource == "pods"]
    assert (verbs.count("create"), verbs.count("delete")) == (2, 2)
    found = world.expectations.get(KEY)
    assert found is not None
    assert (found.add, found.delete) == (2, 2)


async def test_one_sync_creates_at_most_250_pods() -> None:
    """Upstream's burst; the next sync creates the others."""
    world = World(daemon_set(), *(node(f"n{n}") for n in range(252)))
    await world.controller.sync(KEY)
    assert len(world.found()) == 250
    world.show()
    await world.controller.sync(KEY)
    assert len(world.found()) == 252


async def test_terminating_namespace_is_no_failure() -> None:
    """Any other error is raised, even if writing the status fails, too."""
    control = FakePodControl()
    control.error = Forbidden("no", details={"causes": [{"reason": "NamespaceTerminating"}]})
    world = World(daemon_set(), node("n1"), node("n2"), control=control)
    await world.controller.sync(KEY)
    assert len(control.templates) == 2

    control.error = InternalError("broken")
    world.expectations.forget(KEY)
    world.api.remove(DAEMON_SETS.resource, namespace="default", name="ds")
    with pytest.raises(Exception, match=r"^broken$"):
        await world.controller.sync(KEY)


async def test_set_is_requeued_after_min_ready_seconds() -> None:
    world = World(daemon_set(min_ready=30), node("n1"))
    one = pod("a", "n1")
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(EPOCH)}
    world.api.put(PODS.resource, {**serializer.to_document(one), "status": {"phase": "Running", "conditions": [ready]}})
    world.show()
    await asyncio.sleep(10)
    await world.controller.sync(KEY)
    assert (world.status().number_ready, world.status().number_available) == (1, 0)
    await asyncio.sleep(19)
    assert len(world.controller.queue) == 0
    await asyncio.sleep(1)
    assert len(world.controller.queue) == 1


async def test_adoption_that_fails_is_raised() -> None:
    """No pod is created next to an orphan that may belong to the set."""
    control = FakePodControl()
    control.error = InternalError("broken")
    world = World(daemon_set(), node("n1"), control=control)
    orphan = replace(pod("o", "n1"), metadata=replace(pod("o", "n1").metadata, owner_references=()))
    world.pods.put(orphan)
    with pytest.raises(Exception, match=r"^broken$"):
        await world.controller.sync(KEY)
    assert control.templates == []


@pytest.mark.parametrize("error", [InternalError("broken"), NotFound("gone")])
async def test_failed_deletions_are_not_awaited(error: ApiError) -> None:
    """A pod that is already gone is no failure."""
    control = FakePodControl()
    control.error = error
    world = World(daemon_set(), node("n1"), control=control)
    for name in "abc":
        world.pods.put(pod(name, "n1"))
    if isinstance(error, NotFound):
        await world.controller.sync(KEY)
    else:
        with pytest.raises(Exception, match=r"^broken$"):
            await world.controller.sync(KEY)
    assert sorted(control.deleted) == ["b", "c"]
    found = world.expectations.get(KEY)
    assert found is not None
    assert (found.add, found.delete) == (0, 0)


async def test_unscheduled_pod_for_a_lost_node_is_deleted() -> None:
    control = FakePodControl()
    world = World(daemon_set(), control=control)
    template = template_for(daemon_set(), "gone", DaemonPodRevision(""))
    world.pods.put(replace(pod("s", ""), spec=template.spec))
    await world.controller.sync(KEY)
    assert control.deleted == ["s"]
