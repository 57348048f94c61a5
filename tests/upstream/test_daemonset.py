"""The DaemonSet controller: the cases of spec 5.10 from 47 to 51."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api import serializer
from pykubelet.api.generated.apps import DaemonSet, DaemonSetSpec, DaemonSetStatus
from pykubelet.api.generated.core import (
    Affinity,
    Container,
    ContainerPort,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    ObjectReference,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    ResourceRequirements,
    Taint,
    Toleration,
)
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta, OwnerReference
from pykubelet.api.scheduling import NodeFit
from pykubelet.api.scheme import DAEMON_SETS, ApiObject
from pykubelet.client.indexer import ObjectIndex, PodIndex
from pykubelet.controllers.daemon.daemon_controller import DaemonSetController, DaemonSetInformers
from pykubelet.controllers.daemon.placement import node_should_run_daemon_pod, target_node
from pykubelet.controllers.framework.expectations import CountingExpectations
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.testing.fake_pod_control import FakePodControl
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

KEY = "default/foo"
LABELS = {"name": "simple-daemon", "type": "production"}


def daemon_set(**spec: Any) -> DaemonSet:
    """A DaemonSet whose template has a PodSpec with the fields `spec`."""
    template = PodTemplateSpec(metadata=ObjectMeta(labels=LABELS), spec=PodSpec(**spec))
    return DaemonSet(
        metadata=ObjectMeta(name="foo", namespace="default", uid="ds-uid", generation=1),
        spec=DaemonSetSpec(selector=LabelSelector(match_labels=LABELS), template=template),
    )


def node(name: str = "node-0", *taints: Taint, **spec: Any) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=LABELS), spec=NodeSpec(taints=taints, **spec))


def pod(name: str, phase: str = "Running", *, node_name: str = "node-0") -> Pod:
    references = (new_controller_ref(daemon_set()),)
    meta = ObjectMeta(name=name, namespace="default", uid=name, labels=LABELS, owner_references=references)
    return Pod(metadata=meta, spec=PodSpec(node_name=node_name), status=PodStatus(phase=phase))


class Events:
    """Records the emitted events."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        assert (involved.kind, involved.name) == ("DaemonSet", "foo")
        self.seen.append((event_type, reason, message))


class StoringPodControl(FakePodControl):
    """Creates pods in the index too, so that the controller sees them at once."""

    def __init__(self, pods: PodIndex, create_limit: int) -> None:
        super().__init__(create_limit=create_limit)
        self.pods = pods

    async def create_pods(
        self,
        namespace: str,
        template: PodTemplateSpec,
        owner: ApiObject,
        controller_ref: OwnerReference | None,
        *,
        generate_name: str = "",
    ) -> Pod:
        made = await super().create_pods(namespace, template, owner, controller_ref, generate_name=generate_name)
        name = f"foo-{self.create_calls}"
        made = replace(made, metadata=replace(made.metadata, name=name, namespace=namespace, uid=name))
        self.pods.put(made)
        return made


class World:
    """A controller with one DaemonSet, which is in the API and in the controller's index."""

    def __init__(self, one: DaemonSet, node_count: int, *pods: Pod, create_limit: int = 0) -> None:
        self.api, self.events, self.expectations = MemoryApi(VirtualClock()), Events(), CountingExpectations()
        self.pods = PodIndex()
        for each in pods:
            self.pods.put(each)
        self.control = StoringPodControl(self.pods, create_limit)
        stored = serializer.from_document(self.api.put(DAEMON_SETS.resource, serializer.to_document(one)), DaemonSet)
        names = [f"node-{n}" for n in range(node_count)]
        nodes: ObjectIndex[Node] = ObjectIndex(node(name) for name in names)
        view = DaemonSetInformers(ObjectIndex([stored]), self.pods, nodes, ObjectIndex())
        self.controller = DaemonSetController(
            client=self.api,
            pod_control=self.control,
            recorder=self.events,
            view=view,
            expectations=self.expectations,
            clock=VirtualClock(),
        )

    def status(self) -> DaemonSetStatus:
        (document,) = self.api.documents(DAEMON_SETS.resource)
        return serializer.from_document(document, DaemonSet).status

    async def sync(self) -> tuple[int, int, int]:
        """Sync, and return the creations, deletions and events since the last sync."""
        self.control.clear()
        self.events.seen.clear()
        await self.controller.sync(KEY)
        created, deleted, _ = self.control.counts
        return created, deleted, len(self.events.seen)


@pytest.mark.case("5.10-47 creations run into a limit")
async def test_set_stops_creating_when_creations_fail() -> None:
    """With 100 nodes and room for 10 pods, at most 15 creations are tried, and failed ones are not expected."""
    world = World(daemon_set(), 100, create_limit=10)
    with pytest.raises(Exception, match="limit 10 already reached"):
        await world.controller.sync(KEY)
    assert len(world.control.templates) == 10
    assert world.control.create_calls <= 15
    status = world.status()
    assert (status.desired_number_scheduled, status.current_number_scheduled) == (100, 10)
    assert status.updated_number_scheduled == 10
    for _ in range(10):
        world.expectations.creation_observed(KEY)
    found = world.expectations.get(KEY)
    assert found is not None
    assert (found.add, found.delete) == (0, 0)
    assert world.expectations.satisfied(KEY, now_seconds=0)


@pytest.mark.case("5.10-48 status in the same sync")
async def test_status_counts_the_pods_created_in_the_same_sync() -> None:
    """Five nodes get five pods, each of which targets its own node."""
    world = World(daemon_set(), 5)
    assert await world.sync() == (5, 0, 0)
    status = world.status()
    assert (status.desired_number_scheduled, status.current_number_scheduled) == (5, 5)
    assert (status.number_unavailable, status.observed_generation) == (5, 1)
    made = world.pods.of_owner(daemon_set())
    assert sorted(target_node(one) or "" for one in made) == [f"node-{n}" for n in range(5)]
    assert not any(one.spec.node_name for one in made)


@pytest.mark.parametrize(
    ("failed", "normal", "expected"),
    [
        pytest.param(0, 1, (0, 0, 0), id="5.10-49 one normal"),
        pytest.param(0, 0, (1, 0, 0), id="5.10-49 none"),
        pytest.param(1, 0, (0, 1, 1), id="5.10-49 one failed"),
        pytest.param(1, 3, (0, 3, 1), id="5.10-49 one failed, three normal"),
    ],
)
async def test_failed_daemon_pods_are_deleted(failed: int, normal: int, expected: tuple[int, int, int]) -> None:
    """`expected` counts creations, deletions and events; a later sync creates the replacement."""
    pods = [pod(f"failed-{n}", "Failed") for n in range(failed)] + [pod(f"normal-{n}") for n in range(normal)]
    world = World(daemon_set(), 1, *pods)
    assert await world.sync() == expected
    message = "Found failed daemon pod default/failed-0 on node node-0, will try to kill it"
    assert world.events.seen == [("Warning", "FailedDaemonPod", message)][:failed]
    if normal == 3:
        assert sorted(world.control.deleted) == ["failed-0", "normal-1", "normal-2"]


@pytest.mark.case("5.10-50 failed pods back off")
async def test_failed_daemon_pods_back_off() -> None:
    """The first failed pod is deleted at once, the next after exactly the delay; more syncs do not extend the delay."""
    world = World(daemon_set(), 1, pod("failed", "Failed"))
    where, backoff = "ds-uid/0/node-0", world.controller.failed_pods
    assert await world.sync() == (0, 1, 1)
    assert backoff.delay_seconds(where) == 1

    world.expectations.forget(KEY)
    assert await world.sync() == (0, 0, 0)
    assert backoff.delay_seconds(where) == 1

    await asyncio.sleep(0.999)
    assert len(world.controller.queue) == 0
    assert await world.sync() == (0, 0, 0)
    await asyncio.sleep(0.001)
    assert len(world.controller.queue) == 1
    assert await world.sync() == (0, 1, 1)
    assert backoff.delay_seconds(where) == 2


def affinity(key: str, *values: str, operator: str = "In", field: bool = False) -> Affinity:
    wanted = (NodeSelectorRequirement(key=key, operator=operator, values=values),)
    term = NodeSelectorTerm(match_fields=wanted) if field else NodeSelectorTerm(match_expressions=wanted)
    selector = NodeSelector(node_selector_terms=(term,))
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=selector))


BIG = Container(name="c", resources=ResourceRequirements(requests={"memory": "200M", "cpu": "0.5"}))
PORT = Container(name="c", ports=(ContainerPort(host_port=666),))
YES, NO, STAY = NodeFit(True, True), NodeFit(False, False), NodeFit(False, True)
PLAIN = node("test-node")
NO_SCHEDULE, NO_EXECUTE = (Taint(key="dedicated", value="x", effect=effect) for effect in ("NoSchedule", "NoExecute"))
DEDICATED = Toleration(key="dedicated", value="x")


def taint(name: str, effect: str = "NoSchedule") -> Taint:
    return Taint(key=f"node.kubernetes.io/{name}", effect=effect)


FITS: list[tuple[str, dict[str, Any], Node, NodeFit]] = [
    ("plain", {}, PLAIN, YES),
    ("resource shortage", {"containers": (BIG,)}, PLAIN, YES),
    ("port conflict", {"containers": (PORT,)}, PLAIN, YES),
    ("other node name", {"node_name": "other-node"}, PLAIN, NO),
    ("its node name", {"node_name": "test-node"}, PLAIN, YES),
    ("selector matches", {"node_selector": LABELS}, PLAIN, YES),
    ("selector does not match", {"node_selector": {"type": "test"}}, PLAIN, NO),
    ("affinity matches", {"affinity": affinity("type", "production")}, PLAIN, YES),
    ("affinity does not match", {"affinity": affinity("type", "test")}, PLAIN, NO),
    ("affinity to the name", {"affinity": affinity("metadata.name", "test-node", field=True)}, PLAIN, YES),
    ("affinity to another name", {"affinity": affinity("metadata.name", "n", field=True)}, PLAIN, NO),
    ("affinity without terms", {"affinity": affinity("type", operator="Wrong")}, PLAIN, NO),
    ("unschedulable node", {}, node("test-node", taint("unschedulable"), unschedulable=True), YES),
    ("no schedule", {}, node("test-node", NO_SCHEDULE), STAY),
    ("no execute", {}, node("test-node", NO_EXECUTE), NO),
    ("tolerated", {"tolerations": (DEDICATED,)}, node("test-node", NO_SCHEDULE, NO_EXECUTE), YES),
    ("not ready", {}, node("test-node", taint("not-ready", "NoExecute")), YES),
    ("unreachable", {}, node("test-node", taint("unreachable", "NoExecute")), YES),
    ("pressure", {}, node("test-node", *map(taint, ("disk-pressure", "memory-pressure", "pid-pressure"))), YES),
    ("no network", {}, node("test-node", taint("network-unavailable")), STAY),
    ("no network needed", {"host_network": True}, node("test-node", taint("network-unavailable")), YES),
    ("preference only", {}, node("test-node", taint("x", "PreferNoSchedule")), YES),
]


@pytest.mark.parametrize(("spec", "where", "fit"), [pytest.param(*row[1:], id=f"5.10-51 {row[0]}") for row in FITS])
def test_node_fit(spec: dict[str, Any], where: Node, fit: NodeFit) -> None:
    """`fit` is whether a daemon pod should start on the node, and whether a running one may stay."""
    assert node_should_run_daemon_pod(daemon_set(**spec), where) == fit
