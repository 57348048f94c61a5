"""The ReplicaSet controller: the cases of spec 5.10 from 29 to 38, and 40 in a sync."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api import serializer
from pykubelet.api.errors import InternalError
from pykubelet.api.generated.apps import ReplicaSet, ReplicaSetSpec, ReplicaSetStatus
from pykubelet.api.generated.core import Pod, PodCondition, PodStatus, PodTemplateSpec
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta, OwnerReference
from pykubelet.api.scheme import REPLICA_SETS
from pykubelet.client.indexer import ObjectIndex, PodIndex
from pykubelet.controllers.framework.expectations import UidTrackingExpectations
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.controllers.replicaset.replica_set import ReplicaSetController
from pykubelet.testing.fake_pod_control import FakePodControl
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

AT = "2026-01-01T00:00:00Z"
KEY = "default/foobar"
LABELS = {"foo": "bar"}


def replica_set(wanted: int, *, status: ReplicaSetStatus | None = None, **meta: Any) -> ReplicaSet:
    """A ReplicaSet with the selector `foo=bar`, whose template has one more label."""
    template = PodTemplateSpec(metadata=ObjectMeta(labels={**LABELS, "type": "production"}))
    return ReplicaSet(
        metadata=ObjectMeta(**{"name": "foobar", "namespace": "default", "uid": "rs-uid", **meta}),
        spec=ReplicaSetSpec(replicas=wanted, selector=LabelSelector(match_labels=LABELS), template=template),
        status=status or ReplicaSetStatus(),
    )


OWNED = (new_controller_ref(replica_set(0)),)


def pod(name: str, phase: str = "Running", *, owners: Sequence[OwnerReference] = OWNED, **meta: Any) -> Pod:
    """A pod of the set; a running one is ready."""
    ready = PodCondition(type="Ready", status="True") if phase == "Running" else None
    fields = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": LABELS, **meta}
    return Pod(
        metadata=ObjectMeta(owner_references=tuple(owners), **fields),
        status=PodStatus(phase=phase, conditions=(ready,) if ready else ()),
    )


class Broken(MemoryApi):
    """Records every patch, and fails it."""

    async def patch(self, *args: Any, **fields: Any) -> Any:
        await super().patch(*args, **fields)
        raise InternalError("fake error")


class Expectations(UidTrackingExpectations):
    """Runs a callback at the moment that expectations are checked."""

    when_asked: Callable[[], object] | None = None

    def satisfied(self, key: str, *, now_seconds: float) -> bool:
        if self.when_asked is not None:
            self.when_asked()
        return super().satisfied(key, now_seconds=now_seconds)


class World:
    """A controller with one ReplicaSet, which is in the API and in the controller's index."""

    def __init__(self, one: ReplicaSet, *pods: Pod, burst: int = 500, api: MemoryApi | None = None) -> None:
        self.api = api or MemoryApi(VirtualClock())
        self.control, self.pods = FakePodControl(), PodIndex()
        self.sets: ObjectIndex[ReplicaSet] = ObjectIndex()
        self.expectations = Expectations()
        self.api.put(REPLICA_SETS.resource, serializer.to_document(one))
        self.show(one)
        for each in pods:
            self.pods.put(each)
        self.controller = ReplicaSetController(
            client=self.api,
            pod_control=self.control,
            pods=self.pods,
            sets=self.sets,
            expectations=self.expectations,
            clock=VirtualClock(),
            burst=burst,
        )

    def show(self, one: ReplicaSet) -> ReplicaSet:
        """Show the controller this set with the resourceVersion that the API has now."""
        (document,) = self.api.documents(REPLICA_SETS.resource)
        version = document["metadata"]["resourceVersion"]
        shown = replace(one, metadata=replace(one.metadata, resource_version=version))
        self.sets.put(shown)
        return shown

    async def sync(self) -> tuple[int, int, int]:
        """Sync, and return the creations, deletions and patches of pods since the last sync."""
        self.control.clear()
        await self.controller.sync(KEY)
        return self.control.counts

    @property
    def status_writes(self) -> list[Any]:
        return [call.body["status"] for call in self.api.calls if call.subresource == "status"]

    def expected(self) -> tuple[int, int]:
        found = self.expectations.get(KEY)
        assert found is not None
        return found.add, found.delete


@pytest.mark.case("5.10-29 as many as wanted")
async def test_sync_does_nothing_when_all_is_well() -> None:
    """Two replicas are wanted, and two pods run."""
    world = World(replica_set(2), pod("a"), pod("b"))
    assert await world.sync() == (0, 0, 0)


@pytest.mark.case("5.10-30 dormancy")
async def test_set_creates_no_more_pods_until_its_creations_are_observed() -> None:
    """Meanwhile the status is kept current; it is written twice in all."""
    right = ReplicaSetStatus(replicas=1, ready_replicas=1, available_replicas=1)
    one = replica_set(2, status=right)
    world = World(one, pod("a"))
    assert await world.sync() == (1, 0, 0)
    assert world.expected() == (1, 0)

    world.show(replace(one, status=ReplicaSetStatus()))
    assert await world.sync() == (0, 0, 0)
    assert len(world.status_writes) == 1

    world.expectations.creation_observed(KEY)
    world.show(one)
    world.control.error = InternalError("fake error")
    with pytest.raises(InternalError, match="fake error"):
        await world.sync()
    assert world.control.counts == (1, 0, 0)
    assert world.expected() == (0, 0)
    assert world.status_writes[-1]["conditions"][0]["message"] == "fake error"

    world.control.error = None
    world.show(one)
    assert await world.sync() == (1, 0, 0)
    assert len(world.status_writes) == 2


@pytest.mark.parametrize(
    ("burst", "wanted"),
    [
        pytest.param(5, 30, id="5.10-31 burst 5 of 30"),
        pytest.param(5, 12, id="5.10-31 burst 5 of 12"),
        pytest.param(3, 2, id="5.10-31 burst 3 of 2"),
    ],
)
async def test_set_acts_in_bursts_and_waits_for_the_last_of_each(burst: int, wanted: int) -> None:
    """When scaling up and then down to zero, each burst is observed to its last pod before the next one."""
    world = World(replica_set(wanted), burst=burst)
    made = 0
    while made < wanted:
        batch = min(burst, wanted - made)
        assert await world.sync() == (batch, 0, 0)
        new = [pod(f"p{made + n}", "Pending") for n in range(batch)]
        for each in new[:-1]:
            see(world, each)
        assert world.expected() == (1, 0)
        assert await world.sync() == (0, 0, 0)
        see(world, new[-1])
        made += batch
    assert len(world.pods) == wanted

    world.show(replica_set(0))
    while len(world.pods):
        batch = min(burst, len(world.pods))
        assert await world.sync() == (0, batch, 0)
        awaited = sorted(world.expectations.awaited(KEY))
        assert awaited == sorted(f"default/{name}" for name in world.control.deleted)
        for name in awaited[1:]:
            lose(world, name)
        assert world.expected() == (0, 1)
        assert await world.sync() == (0, 0, 0)
        lose(world, awaited[0])


def see(world: World, new: Pod) -> None:
    world.pods.put(new)
    world.controller.pod_added(new)


def lose(world: World, name: str) -> None:
    gone = world.pods.get(name)
    assert gone is not None
    world.pods.remove(gone)
    world.controller.pod_deleted(gone)


@pytest.mark.case("5.10-32 a pod between check and listing")
async def test_pod_that_comes_between_check_and_listing_is_not_made_twice() -> None:
    """Expectations are checked before pods are listed."""
    world = World(replica_set(2), pod("a", "Pending"))
    world.expectations.when_asked = lambda: world.pods.put(pod("b", "Pending"))
    assert await world.sync() == (0, 0, 0)
    assert len(world.pods) == 2


@pytest.mark.case("5.10-33 graceful deletion counts once")
async def test_graceful_deletion_counts_once() -> None:
    """A pod counts once, whether it is added while terminating, becomes terminating or is deleted."""
    world = World(replica_set(1))
    handlers, key = world.controller, KEY
    before = pod("a", "Pending", resource_version="1")
    leaving = pod("a", "Pending", resource_version="2", deletion_timestamp=AT)

    def expect(name: str) -> None:
        world.expectations.expect_deletions(key, [f"default/{name}"], now_seconds=0)
        assert world.expected() == (0, 1)

    expect("a")
    handlers.pod_added(leaving)
    assert world.expected() == (0, 0)
    assert key in handlers.queue

    expect("a")
    handlers.pod_updated(before, leaving)
    assert world.expected() == (0, 0)

    expect("b")
    handlers.pod_updated(leaving, replace(leaving, metadata=replace(leaving.metadata, resource_version="3")))
    handlers.pod_deleted(leaving)
    assert world.expected() == (0, 1)
    handlers.pod_deleted(pod("b"))
    assert world.expected() == (0, 0)


@pytest.mark.case("5.10-34 pod of another controller")
async def test_pod_of_another_controller_is_left_alone() -> None:
    """The labels of the pod match, but its controller is another one."""
    other = OwnerReference(api_version="v1beta1", kind="ReplicaSet", name="other", uid="other", controller=True)
    world = World(replica_set(2), pod("a", owners=[other]))
    assert await world.sync() == (2, 0, 0)


@pytest.mark.case("5.10-35 adoption fails")
async def test_failed_adoption_is_tried_again() -> None:
    """Adoption of both orphans is tried, nothing is created, and the key is requeued."""
    world = World(replica_set(2), pod("a", owners=()), pod("b", owners=()))
    world.control.error = InternalError("fake error")
    with pytest.raises(Exception, match="fake error"):
        await world.sync()
    assert world.control.counts == (0, 0, 2)
    world.controller.queue.add(KEY)
    await world.controller.process_next()
    assert KEY in world.controller.queue
    world.control.error = None
    await world.controller.process_next()
    assert KEY not in world.controller.queue


@pytest.mark.case("5.10-36 set being deleted")
async def test_set_being_deleted_adopts_and_creates_nothing() -> None:
    """A terminating set no longer manages pods."""
    world = World(replica_set(2, deletion_timestamp=AT), pod("a", owners=()))
    assert await world.sync() == (0, 0, 0)


@pytest.mark.case("5.10-36 live object being deleted")
async def test_get_before_adoption_finds_a_terminating_set() -> None:
    """The index shows a live set and the API a terminating one: nothing is changed, and the error names the reason."""
    world = World(replica_set(2, deletion_timestamp=AT), pod("a", owners=()))
    world.show(replica_set(2))
    with pytest.raises(Exception, match=rf"can't adopt Pod default/a \(uid-a\): {KEY} has just been deleted at"):
        await world.sync()
    assert world.control.counts == (0, 0, 0)


@pytest.mark.case("5.10-37 recreated set")
async def test_recreated_set_starts_clean() -> None:
    """The old set's expectations do not hold back the new one."""
    old = replica_set(1)
    world = World(old)
    handlers = world.controller
    handlers.set_added(old)
    await handlers.process_next()
    assert world.control.counts == (1, 0, 0)
    assert world.expected() == (1, 0)

    world.sets.remove(old)
    handlers.set_deleted(old)
    assert world.expectations.get(KEY) is None
    await handlers.queue.process_next(_nothing)

    for again in (handlers.set_added, lambda new: handlers.set_updated(old, new)):
        new = replica_set(1, uid="new-uid")
        world.api.put(REPLICA_SETS.resource, serializer.to_document(new))
        world.control.clear()
        again(world.show(new))
        await handlers.process_next()
        assert world.control.counts == (1, 0, 0)
        assert world.expected() == (1, 0)


async def _nothing(_: str) -> None:
    return None


@pytest.mark.case("5.10-38 status never written")
async def test_status_write_is_tried_twice_with_one_get_between() -> None:
    """Both writes (patches here) have the same intended value."""
    pods = [pod(f"p{n}") for n in range(10)]
    world = World(replica_set(10), *pods, api=Broken(VirtualClock()))
    with pytest.raises(InternalError, match="fake error"):
        await world.sync()
    verbs = [(call.verb, call.subresource) for call in world.api.calls if call.resource == "replicasets"]
    assert verbs == [("patch", "status"), ("get", ""), ("patch", "status")]
    assert [status["replicas"] for status in world.status_writes] == [10, 10]


@pytest.mark.case("5.10-40 terminating pods in a sync")
async def test_terminating_pods_are_counted_if_the_gate_is_on() -> None:
    """Only the set's own pods count; 1.34 does not count terminating pods by default."""
    leaving = pod("b", deletion_timestamp=AT)
    orphan = pod("c", owners=(), deletion_timestamp=AT)
    world = World(replica_set(1), pod("a"), leaving, orphan)
    await world.sync()
    assert world.status_writes[-1]["terminatingReplicas"] is None
    counting = ReplicaSetController(
        client=world.api,
        pod_control=world.control,
        pods=world.pods,
        sets=world.sets,
        expectations=world.expectations,
        clock=VirtualClock(),
        count_terminating=True,
    )
    await counting.sync(KEY)
    assert world.status_writes[-1]["terminatingReplicas"] == 1
