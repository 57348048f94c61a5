"""Cases 6.24-64 to -70: registration, the node's status and conditions, its lease."""

import asyncio
import dataclasses
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from node_status_rig import MACHINE, SETTINGS, NodeWorld
from pykubelet.api import schema
from pykubelet.api.errors import AlreadyExists, ApiError, Conflict, Forbidden, InternalError
from pykubelet.api.generated.core import Node, NodeAddress, NodeCondition, NodeStatus
from pykubelet.api.serializer import to_document
from pykubelet.api.times import format_time
from pykubelet.kubelet.nodestatus.conditions import (
    NodePressures,
    NodeProblems,
    node_conditions,
    readiness_errors,
    ready_condition,
)
from pykubelet.kubelet.nodestatus.machine import MachineInfo
from pykubelet.kubelet.nodestatus.node_status import TRIES, TRY_SECONDS
from pykubelet.kubelet.nodestatus.register import (
    REPORT_SECONDS,
    is_report_due,
    report_delay_seconds,
    status_changed,
    try_to_register,
)
from pykubelet.kubelet.nodestatus.setters import ATTACH_DETACH, NodeStatusInputs, initial_node
from pykubelet.testing.virtual_time import EPOCH

CAPACITY = {"cpu": "2", "memory": "10G", "pods": "100", "ephemeral-storage": "5k"}
BEFORE = format_time(EPOCH - timedelta(seconds=1))
NOW = format_time(EPOCH)
PRESSURES = {
    "MemoryPressure": ("memory", "NodeHasInsufficientMemory", "NodeHasSufficientMemory"),
    "DiskPressure": ("disk", "NodeHasDiskPressure", "NodeHasNoDiskPressure"),
    "PIDPressure": ("pid", "NodeHasInsufficientPID", "NodeHasSufficientPID"),
}


@pytest.fixture
async def world() -> NodeWorld:
    return NodeWorld()


def wanted(*, attach: bool = True, machine: MachineInfo = MACHINE) -> Node:
    node, _ = initial_node(SETTINGS, NodeStatusInputs(now=EPOCH, machine=machine))
    return node if attach else replace(node, metadata=replace(node.metadata, annotations={}))


def existing(world: NodeWorld, node: Node) -> None:
    """Store a node in the API."""
    stored = replace(node, metadata=replace(node.metadata, uid="uid-1"))
    world.api.put(schema.NODES, to_document(stored))


@pytest.mark.case("6.24-64 a new node")
async def test_new_node_is_created_in_one_call(world: NodeWorld) -> None:
    node = await try_to_register(world.api, wanted())
    assert node is not None
    assert world.calls() == ["create"]
    assert world.shown().metadata.labels == wanted().metadata.labels


@pytest.mark.case("6.24-64 an existing node")
@pytest.mark.parametrize("refusal", [AlreadyExists(), Forbidden()], ids=["exists", "forbidden"])
@pytest.mark.parametrize(("had", "wants"), [(True, True), (True, False), (False, True)])
async def test_existing_node_is_put_right(world: NodeWorld, refusal: ApiError, had: bool, wants: bool) -> None:
    existing(world, wanted(attach=had))
    world.api.failures = {"create": [refusal]}
    assert await try_to_register(world.api, wanted(attach=wants)) is not None
    if had == wants:
        assert world.calls() == ["create", "get"]
    else:
        patch = world.api.calls[-1].body
        assert patch["metadata"] == {"annotations": {ATTACH_DETACH: "true"} if wants else None}
        assert world.calls() == ["create", "get", "patch"]


@pytest.mark.case("6.24-64 labels, extended resources, huge pages")
@pytest.mark.parametrize(
    ("there", "patch"),
    [
        pytest.param(
            replace(wanted(), metadata=replace(wanted().metadata, labels={"kubernetes.io/os": "plan9", "x": "y"})),
            {"metadata": {"labels": {k: v for k, v in wanted().metadata.labels.items() if k != "x"}}},
            id="labels",
        ),
        pytest.param(
            replace(
                wanted(),
                status=replace(
                    wanted().status,
                    capacity={**wanted().status.capacity, "example.com/gpu": "2"},
                    allocatable={**wanted().status.allocatable, "example.com/gpu": "1"},
                ),
            ),
            {"status": {"capacity": {"example.com/gpu": "0"}, "allocatable": {"example.com/gpu": "0"}}},
            id="extended resources",
        ),
        pytest.param(
            replace(
                wanted(),
                status=replace(
                    wanted().status,
                    capacity={**wanted().status.capacity, "hugepages-2Mi": "4Mi"},
                    allocatable={**wanted().status.allocatable, "hugepages-2Mi": "4Mi"},
                ),
            ),
            {"status": {"capacity": {"hugepages-2Mi": None}, "allocatable": {"hugepages-2Mi": None}}},
            id="huge pages gone",
        ),
    ],
)
async def test_registration_patches_what_it_owns(world: NodeWorld, there: Node, patch: object) -> None:
    existing(world, there)
    assert await try_to_register(world.api, wanted()) is not None
    assert world.api.calls[-1].body == patch
    assert world.calls() == ["create", "get", "patch"]


@pytest.mark.case("6.24-64 huge pages are new")
async def test_registration_adds_huge_pages(world: NodeWorld) -> None:
    existing(world, wanted())
    huge = dataclasses.replace(MACHINE, huge_pages={2**21: 2**22, 2**30: 0})
    assert await try_to_register(world.api, wanted(machine=huge)) is not None
    shown = world.shown().status
    for quantities in (shown.capacity, shown.allocatable):
        assert (quantities["hugepages-2Mi"], quantities["hugepages-1Gi"]) == ("4Mi", "0")


@pytest.mark.case("6.24-64 failures")
@pytest.mark.parametrize("verb", ["create", "get", "patch"])
async def test_failed_registration_is_not_done(world: NodeWorld, verb: str) -> None:
    existing(world, wanted(attach=False))
    world.api.failures = {verb: [Conflict()]}
    assert await try_to_register(world.api, wanted()) is None
    assert world.calls() == ["create", "get", "patch"][: ["create", "get", "patch"].index(verb) + 1]


CONDITIONS = (
    NodeCondition(type="Ready", status="True", last_heartbeat_time=BEFORE, last_transition_time=BEFORE),
    NodeCondition(type="DiskPressure", status="False", last_heartbeat_time=BEFORE, last_transition_time=BEFORE),
)
STATUS = NodeStatus(conditions=CONDITIONS, capacity={"memory": "1Gi"}, phase="Running")


@pytest.mark.case("6.24-65 status equality")
@pytest.mark.parametrize(
    ("other", "changed"),
    [
        pytest.param(STATUS, False, id="the same"),
        pytest.param(
            replace(STATUS, conditions=tuple(replace(one, last_heartbeat_time=NOW) for one in CONDITIONS)),
            False,
            id="heartbeats",
        ),
        pytest.param(replace(STATUS, conditions=CONDITIONS[::-1]), False, id="order"),
        pytest.param(replace(STATUS, capacity={"memory": "1024Mi"}), False, id="equal quantity"),
        pytest.param(replace(STATUS, capacity={"memory": "2Gi"}), True, id="quantity"),
        pytest.param(replace(STATUS, conditions=CONDITIONS[:1]), True, id="condition gone"),
        pytest.param(
            replace(STATUS, conditions=(replace(CONDITIONS[0], last_transition_time=NOW), CONDITIONS[1])),
            True,
            id="transition",
        ),
        pytest.param(replace(STATUS, phase="Pending"), True, id="another field"),
        pytest.param(replace(STATUS, addresses=(NodeAddress(type="Hostname", address="x"),)), True, id="address"),
    ],
)
def test_status_has_changed_or_not(other: NodeStatus, changed: bool) -> None:
    assert status_changed(STATUS, other) == status_changed(other, STATUS) == changed


def before(kind: str, status: str | None) -> tuple[NodeCondition, ...]:
    """The earlier condition, or none without a status."""
    if status is None:
        return ()
    return (NodeCondition(type=kind, status=status, last_heartbeat_time=BEFORE, last_transition_time=BEFORE),)


@pytest.mark.case("6.24-66 Ready and its message")
@pytest.mark.parametrize(
    ("problems", "capacity", "status", "message"),
    [
        (NodeProblems(), CAPACITY, "True", "kubelet is posting ready status"),
        (NodeProblems(warning="foo"), CAPACITY, "True", "kubelet is posting ready status. WARNING: foo"),
        (NodeProblems(storage=("some storage error",)), CAPACITY, "False", "some storage error"),
        (NodeProblems(shutdown=("node is shutting down",)), CAPACITY, "False", "node is shutting down"),
        (NodeProblems(runtime=("runtime",), network=("network",)), CAPACITY, "False", "[runtime, network]"),
        (NodeProblems(runtime=("same",), network=("same",)), CAPACITY, "False", "same"),
        (
            NodeProblems(),
            {},
            "False",
            "missing node capacity for resources: cpu, memory, pods, ephemeral-storage",
        ),
        (
            NodeProblems(network=("network",), warning="foo"),
            {"cpu": "1", "pods": "1", "ephemeral-storage": "1"},
            "False",
            "[network, missing node capacity for resources: memory]. WARNING: foo",
        ),
    ],
)
def test_ready_reports_what_is_wrong(
    problems: NodeProblems, capacity: dict[str, str], status: str, message: str
) -> None:
    condition = ready_condition(None, readiness_errors(problems, capacity), problems.warning, EPOCH)
    reason = "KubeletReady" if status == "True" else "KubeletNotReady"
    assert (condition.status, condition.reason, condition.message) == (status, reason, message)


@pytest.mark.case("6.24-66 Ready and its time and event")
@pytest.mark.parametrize("now_ready", [True, False])
@pytest.mark.parametrize("was", ["True", "False", None])
def test_ready_moves_with_its_status_only(was: str | None, now_ready: bool) -> None:
    errors = () if now_ready else ("broken",)
    conditions, events = node_conditions(before("Ready", was), NodePressures(), errors, "", EPOCH)
    ready = next(one for one in conditions if one.type == "Ready")
    status = "True" if now_ready else "False"
    assert ready.last_heartbeat_time == NOW
    assert ready.last_transition_time == (BEFORE if was == status else NOW)
    expected = ["NodeReady" if now_ready else "NodeNotReady"] if was not in {status, None} else []
    assert [event for event in events if event in {"NodeReady", "NodeNotReady"}] == expected


@pytest.mark.case("6.24-66 the last of the conditions")
def test_new_conditions_end_with_ready() -> None:
    foreign = NodeCondition(type="NetworkUnavailable", status="False")
    conditions, _ = node_conditions((foreign,), NodePressures(), (), "", EPOCH)
    kinds = [one.type for one in conditions]
    assert kinds == ["NetworkUnavailable", "MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
    assert conditions[0] is foreign


@pytest.mark.case("6.24-67 pressures")
@pytest.mark.parametrize("kind", PRESSURES)
@pytest.mark.parametrize("is_short", [True, False])
@pytest.mark.parametrize("was", ["True", "False", None])
def test_pressure_moves_with_its_status_and_emits_an_event(kind: str, was: str | None, is_short: bool) -> None:
    field, present, absent = PRESSURES[kind]
    conditions, events = node_conditions(before(kind, was), NodePressures(**{field: is_short}), (), "", EPOCH)
    condition = next(one for one in conditions if one.type == kind)
    status = "True" if is_short else "False"
    assert (condition.status, condition.last_heartbeat_time) == (status, NOW)
    assert condition.last_transition_time == (BEFORE if was == status else NOW)
    told = [event for event in events if event in {present, absent}]
    assert told == ([] if was == status else [present if is_short else absent])


@pytest.mark.case("6.24-68 failing updates")
async def test_status_is_tried_five_times_then_left_to_the_next_period(world: NodeWorld) -> None:
    await world.reporter.register()
    world.calls()
    world.api.failures = {"patch": [InternalError()] * TRIES}
    assert not await world.reporter.report()
    assert world.calls() == ["patch", *["get", "patch"] * (TRIES - 1)]
    assert await world.reporter.report()


@pytest.mark.case("6.24-68 a hanging server")
async def test_hanging_server_is_given_up_in_time(world: NodeWorld) -> None:
    await world.reporter.register()
    world.calls()
    world.api.hangs = True
    began = world.clock.monotonic()
    assert not await world.reporter.report()
    assert world.clock.monotonic() - began == pytest.approx(TRIES * TRY_SECONDS)
    assert len(world.calls()) == TRIES


@pytest.mark.case("6.24-69 create when missing")
async def test_lease_is_created_with_its_owner(world: NodeWorld) -> None:
    await world.reporter.register()
    assert await world.lease.renew()
    assert world.calls("leases") == ["get", "create"]
    (lease,) = world.api.documents(schema.LEASES)
    node = world.shown()
    assert lease["spec"] == {
        "holderIdentity": "node-1",
        "leaseDurationSeconds": 40,
        "renewTime": "2026-01-01T00:00:00.000000Z",
    }
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": node.metadata.uid}
    assert lease["metadata"]["ownerReferences"] == [owner]


@pytest.mark.case("6.24-69 update of the last object")
async def test_lease_is_renewed_from_what_was_last_seen(world: NodeWorld) -> None:
    await world.reporter.register()
    await world.lease.renew()
    world.calls()
    await asyncio.sleep(10.25)
    assert await world.lease.renew()
    assert world.calls("leases") == ["patch"]
    (lease,) = world.api.documents(schema.LEASES)
    assert lease["spec"]["renewTime"] == "2026-01-01T00:00:10.250000Z"


@pytest.mark.case("6.24-69 conflict")
async def test_lease_is_read_again_after_a_conflict(world: NodeWorld) -> None:
    await world.reporter.register()
    await world.lease.renew()
    world.api.put(schema.LEASES, world.api.documents(schema.LEASES)[0])
    world.calls()
    assert await world.lease.renew()
    assert world.calls("leases") == ["patch", "get", "patch"]


@pytest.mark.case("6.24-69 failures are retried at once, then the lease is ensured")
async def test_lease_is_tried_five_times_then_ensured(world: NodeWorld) -> None:
    await world.reporter.register()
    await world.lease.renew()
    world.calls()
    world.api.failures = {"patch": [InternalError()] * 5, "get": [InternalError()] * 2}
    began = world.clock.monotonic()
    assert await world.lease.renew()
    assert world.calls("leases") == [*["patch"] * 5, "get", "get", "get", "patch"]
    assert world.clock.monotonic() - began == pytest.approx(0.2 + 0.4)


@pytest.mark.case("6.24-69 owner reference")
@pytest.mark.parametrize("exists", [False, True], ids=["no lease", "lease without owner"])
async def test_lease_waits_for_its_node_at_each_renewal(world: NodeWorld, exists: bool) -> None:
    if exists:
        metadata = {"name": "node-1", "namespace": "kube-node-lease", "uid": "uid-lease"}
        world.api.put(schema.LEASES, {"metadata": metadata, "spec": {"holderIdentity": "node-1"}})
    for _ in range(2):
        assert not await world.lease.renew()
        assert {"create", "patch"} & set(world.calls("leases")) == set()
    await world.reporter.register()
    assert await world.lease.renew()
    (lease,) = world.api.documents(schema.LEASES)
    assert [owner["kind"] for owner in lease["metadata"]["ownerReferences"]] == ["Node"]


@pytest.mark.case("6.24-70 report period")
@given(st.floats(0, 1, exclude_max=True))
def test_report_is_due_after_the_period_and_its_delay(random: float) -> None:
    delay = report_delay_seconds(random)
    assert -REPORT_SECONDS / 2 <= delay < REPORT_SECONDS / 2
    assert is_report_due(None, delay)
    assert not is_report_due(0, delay)
    assert not is_report_due(REPORT_SECONDS + delay - 0.001, delay)
    assert is_report_due(REPORT_SECONDS + delay, delay)


@pytest.mark.case("6.24-70 unchanged status on virtual time")
async def test_unchanged_status_is_sent_after_the_delay_then_on_the_beat(world: NodeWorld) -> None:
    sent: list[float] = []
    async with world.running() as ready:
        await ready.wait()
        for _ in range(1000):
            if "patch" in world.calls():
                sent.append(world.clock.monotonic())
            await asyncio.sleep(1)
    # The random number is 0.5: no delay, and a period of 10.2 s.
    assert len(sent) == 4
    assert [later - earlier for earlier, later in pairwise(sent)] == pytest.approx([306] * 3, abs=1)
