"""The ReplicaSet controller with the real PodControl reaches its size, whichever request fails."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api import serializer
from pykubelet.api.errors import Forbidden
from pykubelet.api.generated.apps import ReplicaSet, ReplicaSetSpec, ReplicaSetStatus
from pykubelet.api.generated.core import ObjectReference, Pod, PodCondition, PodSpec, PodStatus, PodTemplateSpec
from pykubelet.api.generated.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference
from pykubelet.api.scheme import PODS, REPLICA_SETS
from pykubelet.api.times import format_time
from pykubelet.client.indexer import ObjectIndex, PodIndex, controller_of
from pykubelet.client.interface import Client
from pykubelet.controllers.framework.active_pods import is_pod_active
from pykubelet.controllers.framework.expectations import UidTrackingExpectations
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.controllers.framework.pod_control import PodControl
from pykubelet.controllers.replicaset.replica_set import ReplicaSetController
from pykubelet.testing.fake_pod_control import FakePodControl, PodFeed
from pykubelet.testing.faults import CALL_FAULTS, Fault, FaultyClient
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import EPOCH, VirtualClock

KEY = "default/rs"
LABELS = {"app": "x"}
DEPLOYMENT = OwnerReference(api_version="apps/v1", kind="Deployment", name="d", uid="d-uid", controller=True)


def replica_set(wanted: int = 1, *, name: str = "rs", min_ready: int = 0, **meta: Any) -> ReplicaSet:
    template = PodTemplateSpec(metadata=ObjectMeta(labels=LABELS), spec=PodSpec(node_name="n1"))
    selector = LabelSelector(match_labels=LABELS)
    return ReplicaSet(
        metadata=ObjectMeta(**{"name": name, "namespace": "default", "uid": f"{name}-uid", **meta}),
        spec=ReplicaSetSpec(replicas=wanted, selector=selector, template=template, min_ready_seconds=min_ready),
    )


OWNED = (new_controller_ref(replica_set()),)


def pod(
    name: str = "p", phase: str = "Running", *, ready_since: str | None = None, node: str = "n1", **meta: Any
) -> Pod:
    fields = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": LABELS, **meta}
    ready = PodCondition(type="Ready", status="True", last_transition_time=ready_since)
    return Pod(
        metadata=ObjectMeta(**{"owner_references": OWNED, **fields}),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase, conditions=(ready,) if ready_since else ()),
    )


class Silent:
    """An event recorder that discards all events."""

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        return None


class World:
    """A controller between an API and the informer caches that a test fills."""

    def __init__(self, one: ReplicaSet, client: Client | None = None, *, api: MemoryApi, burst: int = 500) -> None:
        self.api, self.pods = api, PodIndex()
        self.sets: ObjectIndex[ReplicaSet] = ObjectIndex()
        api.put(REPLICA_SETS.resource, serializer.to_document(one))
        self.controller = ReplicaSetController(
            client=client or api,
            pod_control=PodControl(client=client or api, recorder=Silent()),
            pods=self.pods,
            sets=self.sets,
            expectations=UidTrackingExpectations(),
            clock=VirtualClock(),
            burst=burst,
        )
        self.feed = PodFeed(api, self.pods, self.controller)

    def show_sets(self) -> None:
        for document in self.api.documents(REPLICA_SETS.resource):
            new = serializer.from_document(document, ReplicaSet)
            old = self.sets.put(new)
            if old is None:
                self.controller.set_added(new)
            elif old != new:
                self.controller.set_updated(old, new)

    async def settle(self) -> ReplicaSetStatus:
        """Copy objects to the caches, sync, and remove deleted pods until nothing changes."""
        quiet = 0
        while quiet < 3:
            self.show_sets()
            moved = self.feed.show()
            while len(self.controller.queue):
                await self.controller.process_next()
                moved += 1
            moved += self.feed.show()
            for one in self.found():
                if one.metadata.deletion_timestamp is not None:
                    self.api.remove(PODS.resource, namespace="default", name=one.metadata.name)
            quiet = 0 if moved else quiet + 1
            await asyncio.sleep(1)
        found = self.sets.get(KEY)
        assert found is not None
        return found.status

    def found(self) -> list[Pod]:
        return [serializer.from_document(document, Pod) for document in self.api.documents(PODS.resource)]

    def active(self) -> list[Pod]:
        ours = [one for one in self.found() if (manager := controller_of(one)) and manager.uid == "rs-uid"]
        return [one for one in ours if is_pod_active(one)]


START = st.lists(
    st.sampled_from(["Running", "Pending", "Failed", "Succeeded", "deleted", "orphan", "released", "foreign"]),
    max_size=8,
)


def start(kind: str, name: str) -> Pod:
    match kind:
        case "deleted":
            return pod(name, deletion_timestamp=format_time(EPOCH), deletion_grace_period_seconds=30)
        case "orphan":
            return pod(name, owner_references=())
        case "released":
            return pod(name, labels={"app": "y"})
        case "foreign":
            return pod(name, owner_references=(replace(OWNED[0], uid="other"),))
        case _:
            return pod(name, kind)


@settings(deadline=None, max_examples=60)
@given(kinds=START, wanted=st.integers(0, 9), burst=st.integers(1, 4))
async def test_set_has_what_it_wants_in_the_end_from_any_start(kinds: list[str], wanted: int, burst: int) -> None:
    """Orphans are adopted, foreign pods ignored, relabelled pods released, and the rest created or deleted."""
    api = MemoryApi(VirtualClock())
    for number, kind in enumerate(kinds):
        api.put(PODS.resource, serializer.to_document(start(kind, f"p{number}")))
    world = World(replica_set(wanted), api=api, burst=burst)
    status = await world.settle()
    assert len(world.active()) == wanted == status.replicas
    creations = sum(call.verb == "create" for call in api.calls)
    usable = sum(kind in ("Running", "Pending", "orphan") for kind in kinds)
    deletions = sum(call.verb == "delete" for call in api.calls)
    assert (creations, deletions) == (max(0, wanted - usable), max(0, usable - wanted))


@pytest.mark.parametrize("fault", CALL_FAULTS)
@pytest.mark.parametrize("wanted", [0, 5])
async def test_set_has_what_it_wants_in_the_end_whatever_fails(fault: Fault, wanted: int) -> None:
    """Injects one fault at each call in turn."""
    at = 0
    while True:
        api = MemoryApi(VirtualClock())
        for name in ("a", "b"):
            api.put(PODS.resource, serializer.to_document(pod(name)))
        client = FaultyClient(api, fault, at=at)
        world = World(replica_set(wanted), client, api=api, burst=3)
        status = await world.settle()
        assert len(world.active()) == wanted == status.replicas
        assert status.conditions == ()
        if not client.injected:
            break
        at += 1
    assert at > 3


async def test_pod_that_was_never_seen_is_replaced_after_five_minutes() -> None:
    """It was created and deleted while the watch was down, so no event ends the wait for it."""
    world = World(replica_set(), api=MemoryApi(VirtualClock()))
    world.show_sets()
    await world.controller.process_next()
    (unseen,) = world.found()
    world.api.remove(PODS.resource, namespace="default", name=unseen.metadata.name)
    await asyncio.sleep(310)
    assert len(world.controller.queue) == 1
    await world.controller.process_next()
    assert len(world.found()) == 1


def seeing(*sets: ReplicaSet) -> ReplicaSetController:
    api = MemoryApi(VirtualClock())
    return ReplicaSetController(
        client=api,
        pod_control=FakePodControl(),
        pods=PodIndex(),
        sets=ObjectIndex(sets),
        expectations=UidTrackingExpectations(),
        clock=VirtualClock(),
    )


BOTH = {"default/rs", "default/other"}
SETS = (replica_set(), replica_set(name="other"))
ORPHAN: dict[str, Any] = {"owner_references": ()}
EMPTY = replace(replica_set(name="empty"), spec=ReplicaSetSpec(selector=LabelSelector()))
BAD_EXPRESSION = LabelSelectorRequirement(key="a", operator="Wrong")
INVALID = replace(
    replica_set(name="invalid"), spec=ReplicaSetSpec(selector=LabelSelector(match_expressions=(BAD_EXPRESSION,)))
)


@pytest.mark.parametrize(
    ("old", "new", "woken"),
    [
        pytest.param(None, {}, {KEY}, id="new pod"),
        pytest.param(None, ORPHAN, BOTH, id="new orphan"),
        pytest.param(None, {**ORPHAN, "labels": {}}, set(), id="orphan without labels"),
        pytest.param(None, {"owner_references": (DEPLOYMENT,)}, set(), id="pod of another kind"),
        pytest.param({}, {}, set(), id="nothing new"),
        pytest.param({}, {"resource_version": "2"}, {KEY}, id="updated"),
        pytest.param({}, {"resource_version": "2", **ORPHAN}, BOTH, id="lost its owner"),
        pytest.param(ORPHAN, {**ORPHAN, "resource_version": "2"}, set(), id="orphan as before"),
        pytest.param({**ORPHAN, "labels": {}}, {**ORPHAN, "resource_version": "2"}, BOTH, id="orphan that now matches"),
        pytest.param(
            {},
            {"resource_version": "2", "owner_references": (new_controller_ref(SETS[1]),)},
            BOTH,
            id="changed hands",
        ),
        pytest.param(
            {}, {"resource_version": "2", "owner_references": (DEPLOYMENT,)}, {KEY}, id="changed hands to a stranger"
        ),
        pytest.param({}, {"resource_version": "2", "deletion_timestamp": "t"}, {KEY}, id="is being deleted"),
        pytest.param(
            {"owner_references": (new_controller_ref(SETS[1]),)},
            {"resource_version": "2", "deletion_timestamp": "t", "labels": {"app": "y"}},
            BOTH,
            id="is being deleted with other labels",
        ),
        pytest.param(
            {"owner_references": (new_controller_ref(SETS[1]),)},
            {"resource_version": "2", "deletion_timestamp": "t"},
            {KEY},
            id="is being deleted with the same labels",
        ),
    ],
)
async def test_pod_changes_wake_the_right_sets(
    old: dict[str, Any] | None, new: dict[str, Any], woken: set[str]
) -> None:
    """Orphans never enqueue sets with an empty or invalid selector."""
    controller = seeing(*SETS, EMPTY, INVALID)
    if old is None:
        controller.pod_added(pod(**new))
    else:
        controller.pod_updated(pod(**old), pod(**new))
    assert {key for key in (*BOTH, "default/empty", "default/invalid") if key in controller.queue} == woken


async def test_set_is_synced_when_a_pod_becomes_available() -> None:
    """The sync comes exactly after minReadySeconds."""
    api = MemoryApi(VirtualClock())
    world = World(replica_set(1, min_ready=30), api=api)
    api.put(PODS.resource, serializer.to_document(pod("a", ready_since=format_time(EPOCH))))
    await asyncio.sleep(10)
    world.show_sets()
    world.feed.show()
    await world.controller.process_next()
    world.show_sets()
    await world.controller.process_next()
    assert len(world.controller.queue) == 0
    loop = asyncio.get_running_loop()
    await world.controller.process_next()
    assert loop.time() == 30
    world.show_sets()
    found = world.sets.get(KEY)
    assert found is not None
    assert found.status.available_replicas == 1


async def test_pod_that_becomes_ready_wakes_its_set_now_and_later() -> None:
    """The second sync comes after minReadySeconds, when the pod is available."""
    controller = seeing(replica_set(1, min_ready=30))
    controller.pod_updated(pod(), pod(ready_since=format_time(EPOCH), resource_version="2"))
    await controller.queue.process_next(nothing)
    assert KEY in controller.queue
    assert len(controller.queue) == 0
    await asyncio.sleep(30)
    assert len(controller.queue) == 1


async def nothing(_: str) -> None:
    return None


async def test_crowded_nodes_are_relieved_first() -> None:
    """Pods of other ReplicaSets of the same Deployment count."""
    api = MemoryApi(VirtualClock())
    owners: dict[str, Any] = {"owner_references": (DEPLOYMENT,)}
    world = World(replica_set(1, **owners), api=api)
    other = replica_set(1, name="old", **owners)
    world.sets.put(other)
    world.sets.put(replace(INVALID, metadata=replace(INVALID.metadata, owner_references=(DEPLOYMENT,))))
    ready = format_time(EPOCH)
    for one in (
        pod("a", ready_since=ready, node="n1"),
        pod("b", ready_since=ready, node="n2"),
        pod("c", node="n2", owner_references=(new_controller_ref(other),)),
    ):
        api.put(PODS.resource, serializer.to_document(one))
    world.show_sets()
    world.feed.show()
    await world.controller.sync(KEY)
    assert [call.name for call in api.calls if call.verb == "delete"] == ["b"]


async def test_terminating_namespace_is_no_failure() -> None:
    """A set with an invalid selector is ignored as well."""
    controller = seeing(replica_set(3), INVALID)
    control = controller._pod_control
    assert isinstance(control, FakePodControl)
    control.error = Forbidden("no", details={"causes": [{"reason": "NamespaceTerminating"}]})
    api = controller._client
    assert isinstance(api, MemoryApi)
    api.put(REPLICA_SETS.resource, serializer.to_document(replica_set(3)))
    await controller.sync(KEY)
    assert control.counts == (3, 0, 0)
    await controller.sync("default/invalid")
    await controller.sync("default/gone")
    assert control.counts == (3, 0, 0)
