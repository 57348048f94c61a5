"""PodControl, expectations, ordering and ownership: the cases of spec 5.10 up to 28."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from pykubelet.api.errors import ApiError, Forbidden, InternalError, NotFound
from pykubelet.api.generated.apps import ReplicaSet
from pykubelet.api.generated.core import (
    Container,
    ContainerStatus,
    ObjectReference,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
)
from pykubelet.api.generated.meta import ObjectMeta, OwnerReference
from pykubelet.api.labels import parse_selector
from pykubelet.api.schema import PODS as POD_NAMES
from pykubelet.api.scheme import PODS
from pykubelet.api.times import format_time
from pykubelet.client.indexer import PodIndex
from pykubelet.client.interface import Writer
from pykubelet.controllers.framework import active_pods, ownership
from pykubelet.controllers.framework.expectations import (
    EXPECTATIONS_TIMEOUT_SECONDS,
    CountingExpectations,
    UidTrackingExpectations,
)
from pykubelet.controllers.framework.ownership import ClaimedPods, PodControllerRefManager, new_controller_ref
from pykubelet.controllers.framework.pod_control import DeleteFailedError, PodControl, slow_start_batch, template_hash
from pykubelet.controllers.framework.work_queue import WorkQueue
from pykubelet.testing import build
from pykubelet.testing.fake_pod_control import FakePodControl
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEMPLATE = PodTemplateSpec(metadata=ObjectMeta(labels={"app": "x"}), spec=build.pod(node_name="").spec)


def owner(uid: str = "rs-uid", **meta: Any) -> ReplicaSet:
    return ReplicaSet(metadata=ObjectMeta(**{"name": "rs", "namespace": "default", "uid": uid, **meta}))


class Events:
    """Records the emitted events."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        assert involved.kind == "ReplicaSet"
        self.seen.append((event_type, reason, message))


class Refusing(MemoryApi):
    """Fails every create and delete with one error."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(VirtualClock())
        self.error = error

    async def create(self, *_: Any, **__: Any) -> Any:
        raise self.error

    async def delete(self, *_: Any, **__: Any) -> Any:
        raise self.error


def control(client: Writer | None = None) -> tuple[PodControl, MemoryApi, Events]:
    api, events = MemoryApi(VirtualClock()), Events()
    return PodControl(client=client or api, recorder=events), api, events


@pytest.mark.case("5.10-01 counted expectations")
def test_expectations_are_satisfied_below_zero() -> None:
    """More creations or deletions than expected may be observed."""
    expectations = CountingExpectations()
    expectations.set("ns/a", add=10, delete=30, now_seconds=0)
    for _ in range(11):
        expectations.creation_observed("ns/a")
    assert not expectations.satisfied("ns/a", now_seconds=0)
    for _ in range(31):
        expectations.deletion_observed("ns/a")
    found = expectations.get("ns/a")
    assert found is not None
    assert (found.add, found.delete) == (-1, -1)
    assert expectations.satisfied("ns/a", now_seconds=0)


@pytest.mark.case("5.10-02 expectations expire")
def test_expectations_expire_after_five_minutes() -> None:
    """A lost event therefore does not block a controller forever."""
    expectations = CountingExpectations()
    expectations.set("ns/a", add=1, delete=2, now_seconds=0)
    assert not expectations.satisfied("ns/a", now_seconds=300)
    assert expectations.satisfied("ns/a", now_seconds=300.1)


async def test_key_is_enqueued_for_when_its_pending_expectation_has_expired() -> None:
    """Nothing is enqueued for a key without one, a fulfilled one or an expired one."""
    expectations, queue = CountingExpectations(), WorkQueue()
    expectations.enqueue_on_expiry("ns/a", queue, now_seconds=0)
    expectations.set("ns/a", add=1, now_seconds=10)
    expectations.enqueue_on_expiry("ns/a", queue, now_seconds=10 + EXPECTATIONS_TIMEOUT_SECONDS + 1)
    expectations.creation_observed("ns/a")
    expectations.enqueue_on_expiry("ns/a", queue, now_seconds=20)
    assert "ns/a" not in queue
    expectations.set("ns/a", add=1, now_seconds=10)
    expectations.enqueue_on_expiry("ns/a", queue, now_seconds=20)
    await asyncio.sleep(EXPECTATIONS_TIMEOUT_SECONDS - 10)
    assert len(queue) == 0
    await asyncio.sleep(2)
    assert len(queue) == 1
    assert expectations.satisfied("ns/a", now_seconds=10 + EXPECTATIONS_TIMEOUT_SECONDS + 2)


@pytest.mark.parametrize("count", [pytest.param(n, id=f"5.10-03 {n} pods") for n in (0, 1, 2, 5)])
def test_deletions_are_awaited_pod_by_pod(count: int) -> None:
    """Expectations are satisfied only when each pod's deletion was observed; forgetting clears the set."""
    expectations, pods = UidTrackingExpectations(), [f"ns/p{n}" for n in range(count)]
    expectations.expect_deletions("ns/rs", pods, now_seconds=0)
    for pod in pods:
        assert not expectations.satisfied("ns/rs", now_seconds=0)
        expectations.deletion_observed("ns/rs", pod)
        expectations.deletion_observed("ns/rs", pod)
    assert expectations.satisfied("ns/rs", now_seconds=0)
    expectations.expect_deletions("ns/rs", pods, now_seconds=0)
    expectations.forget("ns/rs")
    assert expectations.awaited("ns/rs") == frozenset()
    assert expectations.get("ns/rs") is None


@pytest.mark.case("5.10-04 create from a template")
async def test_create_pods_posts_the_template() -> None:
    """Labels and spec come from the template, and generateName from the owner's name."""
    pods, api, events = control()
    await pods.create_pods("default", TEMPLATE, owner(), new_controller_ref(owner()))
    (call,) = api.calls
    assert (call.verb, call.resource, call.namespace) == ("create", "pods", "default")
    assert call.body["metadata"]["generateName"] == "rs-"
    assert call.body["metadata"]["labels"] == {"app": "x"}
    (made,) = api.documents(POD_NAMES)
    assert made["spec"] == call.body["spec"]
    assert events.seen == [("Normal", "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")]


@pytest.mark.case("5.10-05 create with a prefix of its own")
async def test_create_pods_takes_another_prefix() -> None:
    """generateName is the given prefix, and the pod has exactly one owner."""
    pods, api, _ = control()
    reference = new_controller_ref(owner())
    made = await pods.create_pods("default", TEMPLATE, owner(), reference, generate_name="hello-")
    assert made.metadata.generate_name == "hello-"
    assert made.metadata.owner_references == (reference,)
    assert len(api.calls) == 1


@pytest.mark.case("5.10-06 delete a missing pod")
async def test_delete_of_a_missing_pod_is_not_found() -> None:
    """The API's error is raised unchanged, and no event is emitted."""
    pods, _, events = control()
    with pytest.raises(NotFound):
        await pods.delete_pod("default", "gone", owner())
    assert events.seen == []


GOOD = new_controller_ref(owner())
BAD_REFERENCES = [
    (None, "controllerRef is nil"),
    (msgspec.structs.replace(GOOD, api_version=""), "controllerRef has empty APIVersion"),
    (msgspec.structs.replace(GOOD, kind=""), "controllerRef has empty Kind"),
    (msgspec.structs.replace(GOOD, controller=None), "controllerRef.Controller is not set to true"),
    (msgspec.structs.replace(GOOD, controller=False), "controllerRef.Controller is not set to true"),
    (msgspec.structs.replace(GOOD, block_owner_deletion=None), "controllerRef.BlockOwnerDeletion is not set"),
]


@pytest.mark.parametrize(
    ("reference", "message"), [pytest.param(*bad, id=f"5.10-07 {bad[1]} {n}") for n, bad in enumerate(BAD_REFERENCES)]
)
async def test_bad_controller_ref_sends_nothing(reference: OwnerReference | None, message: str) -> None:
    """All three methods that create pods check the reference first."""
    pods, api, _ = control()
    for call in (
        pods.create_pods("default", TEMPLATE, owner(), reference),
        pods.create_pods_with_controller_ref("default", TEMPLATE, owner(), reference),
        pods.create_pods_on_node("n1", "default", TEMPLATE, owner(), reference),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            await call
    assert api.calls == []


@pytest.mark.case("5.10-08 template without labels")
async def test_template_without_labels_is_refused() -> None:
    """The owner could not find such a pod again."""
    pods, api, events = control()
    with pytest.raises(ValueError, match=r"^unable to create pods, no labels$"):
        await pods.create_pods("default", PodTemplateSpec(), owner(), GOOD)
    assert api.calls == []
    assert events.seen == []


@pytest.mark.parametrize(
    ("error", "events"),
    [
        pytest.param(
            Forbidden("no", details={"causes": [{"reason": "NamespaceTerminating"}]}), [], id="5.10-09 terminating"
        ),
        pytest.param(Forbidden("no"), [("Warning", "FailedCreate", "Error creating: no")], id="5.10-09 other"),
    ],
)
async def test_failed_create_emits_an_event_unless_the_namespace_is_terminating(
    error: ApiError, events: list[Any]
) -> None:
    """The API's error is raised unchanged."""
    pods, _, seen = control(Refusing(error))
    with pytest.raises(Forbidden) as caught:
        await pods.create_pods("default", TEMPLATE, owner(), GOOD)
    assert caught.value is error
    assert seen.seen == events


async def test_failed_delete_emits_an_event_and_chains_the_error() -> None:
    """It raises DeleteFailedError with the API's error as its cause."""
    error = InternalError("disk")
    pods, _, events = control(Refusing(error))
    with pytest.raises(DeleteFailedError, match=r"^unable to delete pods: disk$") as caught:
        await pods.delete_pod("default", "p", owner())
    assert caught.value.__cause__ is error
    assert events.seen == [("Warning", "FailedDelete", "Error deleting: disk")]


async def test_pods_created_on_a_node_bypass_the_scheduler() -> None:
    """Patches and deletions of such pods go through the API as usual."""
    pods, api, events = control()
    made = await pods.create_pods_on_node("n7", "default", TEMPLATE, owner(), GOOD)
    assert made.spec.node_name == "n7"
    await pods.patch_pod("default", made.metadata.name, {"metadata": {"labels": {"a": "b"}}})
    assert (await api.get(PODS, made.metadata.name, namespace="default")).metadata.labels == {"app": "x", "a": "b"}
    await pods.delete_pod("default", made.metadata.name, owner())
    assert events.seen[-1] == ("Normal", "SuccessfulDelete", f"Deleted pod: {made.metadata.name}")


def pod(name: str = "p", phase: str = "Running", **fields: Any) -> Pod:
    """A pod with the fields that decide the order."""
    times = {key: format_time(NOW - fields.pop(key)) for key in ("created", "ready_since") if key in fields}
    ready = fields.pop("ready", bool("ready_since" in times))
    conditions = (PodCondition(type="Ready", status="True", last_transition_time=times.get("ready_since")),)
    inits = (Container(name="side", restart_policy="Always"), Container(name="init"))
    return Pod(
        metadata=ObjectMeta(
            name=name,
            uid=fields.pop("uid", name),
            creation_timestamp=times.get("created"),
            deletion_timestamp=fields.pop("deleted", None),
            annotations={active_pods.DELETION_COST: fields.pop("cost")} if "cost" in fields else {},
        ),
        spec=PodSpec(node_name=fields.pop("node", "n1"), init_containers=inits),
        status=PodStatus(
            phase=phase,
            conditions=conditions if ready else (),
            container_statuses=(ContainerStatus(name="c", restart_count=fields.pop("restarts", 0)),),
            init_container_statuses=(ContainerStatus(name="side", restart_count=fields.pop("side", 0)),),
        ),
    )


@pytest.mark.case("5.10-10 terminating pods")
def test_terminating_pods_are_deleted_but_not_finished() -> None:
    """Two of the seven pods are terminating."""
    at = "2026-01-01T00:00:00Z"
    pods = [
        pod(phase="Succeeded"),
        pod(phase="Failed"),
        pod(phase="Pending", deleted=at),
        pod(deleted=at),
        *(pod() for _ in range(3)),
    ]
    assert sum(map(active_pods.is_pod_terminating, pods)) == 2


@pytest.mark.case("5.10-11 claimed pods")
def test_claimed_pods_have_our_controller_ref_and_labels() -> None:
    """Other UIDs, non-controllers and other labels do not match; further owners do not matter."""
    ours, other = GOOD, msgspec.structs.replace(GOOD, uid="other")
    extra = msgspec.structs.replace(other, controller=None)

    def owned(*references: OwnerReference, app: str = "x") -> Pod:
        return Pod(metadata=ObjectMeta(labels={"app": app}, owner_references=references))

    selector = parse_selector("app=x")
    claimed = [owned(ours), owned(extra, ours)]
    not_claimed = [
        owned(),
        owned(other),
        owned(msgspec.structs.replace(ours, controller=None)),
        owned(msgspec.structs.replace(ours, controller=False)),
        owned(ours, app="y"),
    ]
    assert [active_pods.is_claimed(p, "rs-uid", selector) for p in claimed + not_claimed] == [True] * 2 + [False] * 5


@pytest.mark.case("5.10-12 active pods")
def test_active_pods_are_not_finished() -> None:
    """A pod without a phase is active."""
    phases = ("Succeeded", "Failed", "", "Pending", "Running", "Unknown")
    assert [active_pods.is_pod_active(pod(phase=phase)) for phase in phases] == [False, False, True, True, True, True]


HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NONE = timedelta(0)
PLAIN_ORDER = [
    pod("unscheduled", "Pending", node=""),
    pod("scheduled", "Pending"),
    pod("unknown", "Unknown"),
    pod("not-ready"),
    pod("ready-no-time", ready=True),
    pod("ready-now", ready_since=NONE),
    pod("ready-month", ready_since=30 * DAY, restarts=5, side=3),
    pod("sidecar-restarts", ready_since=30 * DAY, restarts=5, side=1),
    pod("restarts", ready_since=30 * DAY, restarts=3),
    pod("newer", ready_since=30 * DAY, created=HOUR),
    pod("oldest", ready_since=30 * DAY, created=DAY),
]


@pytest.mark.case("5.10-13 plain deletion order")
def test_deletion_order_is_the_same_from_any_start() -> None:
    """Twenty rotations and reversals give one order; the order for logs reverses criteria 1 to 4."""
    names = [p.metadata.name for p in PLAIN_ORDER]
    for turn in range(10):
        for pods in (PLAIN_ORDER[turn:] + PLAIN_ORDER[:turn], PLAIN_ORDER[turn::-1] + PLAIN_ORDER[:turn:-1]):
            assert [p.metadata.name for p in active_pods.deletion_order(pods)] == names
    logs = [p.metadata.name for p in active_pods.log_order(PLAIN_ORDER)]
    assert logs[:5] == ["ready-month", "sidecar-restarts", "restarts", "oldest", "newer"]
    assert logs[5:] == names[5::-1]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(pod(), pod(), id="5.10-14 same"),
        pytest.param(
            pod("a", "Pending", node="", created=5 * HOUR, uid="u"),
            pod("b", "Pending", node="", created=8 * HOUR, uid="u"),
            id="5.10-14 unscheduled 5 h and 8 h",
        ),
        pytest.param(
            pod("a", ready_since=5 * HOUR, uid="u"), pod("b", ready_since=8 * HOUR, uid="u"), id="5.10-14 ready"
        ),
    ],
)
def test_ranked_order_treats_pods_of_similar_age_as_equal(left: Pod, right: Pod) -> None:
    """Ages are compared as powers of two, and then UIDs."""
    assert active_pods.compare_ranked((left, 1), (right, 1), NOW) == 0
    assert active_pods.compare_ranked((right, 1), (left, 1), NOW) == 0


RANKED = [
    ((pod(phase="Pending", node=""), 1), (pod(phase="Pending"), 2), "unscheduled"),
    ((pod(phase="Pending"), 1), (pod(phase="Unknown"), 2), "pending"),
    ((pod(phase="Unknown"), 1), (pod(), 2), "unknown"),
    ((pod(), 1), (pod(ready=True), 1), "not ready"),
    ((pod(ready=True), 1), (pod(ready_since=NONE), 1), "no ready time"),
    ((pod(ready_since=NONE), 2), (pod(ready=True), 1), "rank before ready time"),
    ((pod(ready_since=NONE), 1), (pod(ready_since=30 * DAY), 1), "ready now"),
    ((pod(ready_since=HOUR, restarts=9001), 1), (pod(ready_since=HOUR), 1), "restarts"),
    ((pod(restarts=9001, side=9001), 1), (pod(restarts=9001), 1), "sidecar restarts"),
    ((pod(ready_since=HOUR), 2), (pod(ready_since=HOUR, restarts=9001), 1), "rank before restarts"),
    ((pod(ready_since=HOUR, created=NONE), 1), (pod(ready_since=HOUR, created=DAY), 1), "newer"),
    ((pod(ready_since=HOUR, cost="10"), 2), (pod(ready_since=HOUR, cost="100"), 1), "lower cost"),
    ((pod(ready_since=HOUR, cost="+100"), 2), (pod(ready_since=HOUR, cost="007"), 1), "costs that count as none"),
    ((pod(ready_since=2 * HOUR), 1), (pod(ready_since=5 * HOUR), 1), "ready 2 h and 5 h"),
]


@pytest.mark.parametrize(("left", "right"), [pytest.param(a, b, id=f"5.10-15 {name}") for a, b, name in RANKED])
def test_ranked_order_deletes_the_first_before_the_second(left: tuple[Pod, int], right: tuple[Pod, int]) -> None:
    """The comparison gives the opposite result for swapped arguments."""
    assert active_pods.compare_ranked(left, right, NOW) < 0
    assert active_pods.compare_ranked(right, left, NOW) > 0


@pytest.mark.parametrize(
    ("one", "seconds", "expected"),
    [
        pytest.param(pod(), 10, None, id="5.10-16 not ready"),
        pytest.param(pod(ready_since=NONE), 0, None, id="5.10-16 no minimum"),
        pytest.param(pod(ready=True), 1, None, id="5.10-16 no time"),
        pytest.param(pod(ready_since=NONE), 1, 1, id="5.10-16 just ready"),
        pytest.param(pod(ready_since=timedelta(seconds=20)), 30, 10, id="5.10-16 ready for 20 s"),
        pytest.param(pod(ready_since=timedelta(seconds=20)), 10, None, id="5.10-16 past"),
    ],
)
def test_next_availability(one: Pod, seconds: int, expected: float | None) -> None:
    """The result is the time until the pod is available, and the pod is available then."""
    assert active_pods.next_availability_seconds(one, seconds, NOW) == expected
    if expected:
        assert not active_pods.is_pod_available(one, seconds, NOW)
        assert active_pods.is_pod_available(one, seconds, NOW + timedelta(seconds=expected))


@pytest.mark.case("5.10-17 earliest availability")
def test_earliest_availability_shrinks_with_time() -> None:
    """The pod that is available first counts; the result is measured from the later time and never negative."""
    pods = [pod(ready_since=timedelta(seconds=s)) for s in (10, 20, 15)]

    def left(later: float) -> float | None:
        return active_pods.earliest_availability_seconds(pods, 30, NOW, NOW + timedelta(seconds=later))

    assert (left(0), left(4), left(11)) == (10, 6, 0)
    assert active_pods.earliest_availability_seconds(pods, 5, NOW, NOW) is None


@pytest.mark.case("5.10-18 pods by owner")
def test_index_gives_the_pods_of_an_owner() -> None:
    """It returns the owner's pods and, on request, orphans of the namespace; a similar reference does not match."""
    index, ours = PodIndex(), new_controller_ref(owner())

    def put(name: str, reference: OwnerReference | None, namespace: str = "default") -> None:
        references = (reference,) if reference else ()
        index.put(Pod(metadata=ObjectMeta(name=name, namespace=namespace, owner_references=references)))

    put("own", ours)
    put("orphan", None)
    put("elsewhere", ours, "ns2")
    put("elsewhere-orphan", None, "ns2")
    for field, value in (("uid", "x"), ("kind", "Job"), ("name", "other"), ("controller", False)):
        put(f"not-{field}", msgspec.structs.replace(ours, **{field: value}))

    assert {p.metadata.name for p in index.of_owner(owner())} == {"own"}
    assert {p.metadata.name for p in index.of_owner(owner(), with_orphans=True)} == {
        "own",
        "orphan",
        "not-controller",
    }
    for meta in ({"namespace": ""}, {"name": ""}, {"uid": ""}):
        with pytest.raises(ValueError, match=f"no owner {next(iter(meta))} provided"):
            index.of_owner(owner(**meta))


def candidate(name: str, *references: OwnerReference, app: str = "x", **meta: Any) -> Pod:
    fields = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": app}, **meta}
    return Pod(metadata=ObjectMeta(owner_references=references, **fields))


async def claim(
    by: ReplicaSet, *pods: Pod, finalizers: tuple[str, ...] = ()
) -> tuple[ClaimedPods, list[tuple[str, Any]]]:
    patches = FakePodControl()

    async def can_adopt() -> None:
        return None

    owning = PodControllerRefManager(
        pod_control=patches,
        owner=by,
        selector=parse_selector("app=x"),
        can_adopt=can_adopt,
        finalizers=finalizers,
    )
    return await owning.claim_pods(pods), patches.patches


AT = "2026-01-01T00:00:00Z"
LEAVING = owner(deletion_timestamp=AT)
OTHER = msgspec.structs.replace(GOOD, uid="other")
CLAIMS: list[tuple[int, str, ReplicaSet, list[Pod], list[str], list[str]]] = [
    (19, "orphan adopted", owner(), [candidate("a"), candidate("b", app="y")], ["a"], ["a"]),
    (20, "owner leaves", LEAVING, [candidate("a"), candidate("b", GOOD), candidate("c", GOOD, app="y")], ["b"], []),
    (21, "other controller", owner(), [candidate("a", GOOD), candidate("b", OTHER)], ["a"], []),
    (22, "released", owner(), [candidate("a", GOOD), candidate("b", GOOD, app="y")], ["a"], ["b"]),
    (
        23,
        "being deleted",
        owner(),
        [candidate("a", GOOD, deletion_timestamp=AT), candidate("b", deletion_timestamp=AT)],
        ["a"],
        [],
    ),
    (25, "other namespace", owner(), [candidate("a"), candidate("b", namespace="ns2")], ["a"], ["a"]),
    (
        25,
        "cluster-scoped owner",
        owner(namespace=""),
        [candidate("a"), candidate("b", namespace="ns2")],
        ["a", "b"],
        ["a", "b"],
    ),
]


@pytest.mark.parametrize(
    ("by", "pods", "claimed", "patched"), [pytest.param(*row[2:], id=f"5.10-{row[0]} {row[1]}") for row in CLAIMS]
)
async def test_claim(by: ReplicaSet, pods: list[Pod], claimed: list[str], patched: list[str]) -> None:
    """`claimed` are the pods that result, and `patched` those that are adopted or released."""
    result, patches = await claim(by, *pods)
    assert [p.metadata.name for p in result.pods] == claimed
    assert [name for name, _ in patches] == patched
    assert result.error is None


@pytest.mark.case("5.10-24 claim with finalizers")
async def test_finalizers_ride_on_both_patches() -> None:
    """Adoption adds the finalizers, and release removes them."""
    _, patches = await claim(owner(), candidate("a"), candidate("b", GOOD, app="y"), finalizers=("foo", "bar"))
    adopt, release = (patch["metadata"] for _, patch in patches)
    assert adopt["ownerReferences"][0]["uid"] == release["ownerReferences"][0]["uid"] == "rs-uid"
    assert adopt["finalizers"] == release["$deleteFromPrimitiveList/finalizers"] == ["foo", "bar"]


@pytest.mark.parametrize(
    ("uid", "owners", "finalizers"),
    [
        pytest.param("ss2", ["ss1"], (), id="5.10-26 one owner"),
        pytest.param("ss2", ["ss1", "ss2"], (), id="5.10-26 two owners"),
        pytest.param("ss2", ["ss1"], ("f1",), id="5.10-26 finalizer"),
        pytest.param('s"s2', ['s"s1'], (), id="5.10-26 quotes"),
    ],
)
def test_release_patch(uid: str, owners: list[str], finalizers: tuple[str, ...]) -> None:
    """The patch is built as a document, so quotes in names are safe."""
    expected: dict[str, Any] = {"uid": uid, "ownerReferences": [{"$patch": "delete", "uid": one} for one in owners]}
    if finalizers:
        expected["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    patch = ownership.release_patch(uid, owners, finalizers)
    assert patch == {"metadata": expected}
    assert msgspec.json.decode(msgspec.json.encode(patch)) == patch


@pytest.mark.parametrize(
    ("limit", "successes", "calls"),
    [
        pytest.param(0, 0, 1, id="5.10-27 none succeeds"),
        pytest.param(10, 10, 10, id="5.10-27 all succeed"),
        pytest.param(5, 5, 7, id="5.10-27 five succeed"),
    ],
)
async def test_slow_start(limit: int, successes: int, calls: int) -> None:
    """The first batch with a failure is finished, and no further batch starts."""
    numbers, made = itertools.count(1), []

    async def call() -> None:
        made.append(number := next(numbers))
        await asyncio.sleep(0)
        if number > limit:
            raise RuntimeError("limit")

    done, error = await slow_start_batch(10, call)
    assert (done, len(made), error is None) == (successes, calls, successes == 10)


@pytest.mark.parametrize(
    ("one", "two"),
    [pytest.param(1, 2, id="5.10-28 1 and 2"), pytest.param(None, 2**31 - 1, id="5.10-28 none and most")],
)
def test_template_hash_differs_with_the_collision_count(one: int | None, two: int | None) -> None:
    """The collision count changes the hash; the same input gives the same hash."""
    assert template_hash(TEMPLATE, one) != template_hash(TEMPLATE, two)
    assert template_hash(TEMPLATE, one) == template_hash(TEMPLATE, one)
    assert template_hash(TEMPLATE).isalnum()


def test_template_hash_is_the_same_in_every_version() -> None:
    """A hash that an upgrade changes would replace every pod of every workload."""
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"app": "x"}), spec=PodSpec(containers=(Container(name="c", image="i"),))
    )
    assert (template_hash(template), template_hash(template, 1)) == ("5b4dfbf6b", "c97484b7")
