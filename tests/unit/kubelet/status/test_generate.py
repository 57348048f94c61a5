"""Generating a pod status: phase, conditions, addresses and deadline."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields

from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    Pod,
    PodCondition,
    PodIP,
    PodStatus,
    ResourceRequirements,
)
from pykubelet.api.pods import OWNED_CONDITIONS, PodUid, is_terminal
from pykubelet.api.times import format_time
from pykubelet.kubelet.status.container_statuses import ContainerObservations, StartFailure, regular_statuses
from pykubelet.kubelet.status.generate import (
    DEADLINE_EXCEEDED,
    StatusInputs,
    deadline_at,
    deadline_exceeded,
    generate_status,
    pod_phase,
)
from pykubelet.runtimes.protocol import ContainerState as RuntimeState
from pykubelet.runtimes.protocol import RuntimeContainer, RuntimePod, Sandbox
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import EPOCH

UID = PodUid("uid-default-web")
SANDBOX = Sandbox(id="s", created_at=EPOCH, ips=("10.0.0.1", "fd00::1"))
MAIN = RuntimeContainer(
    id="main", name="main", state=RuntimeState.RUNNING, sandbox_id="s", created_at=EPOCH, started_at=EPOCH
)
RUNNING = RuntimePod(uid=UID, namespace="default", name="web", sandboxes=(SANDBOX,), containers=(MAIN,))
NOTHING = RuntimePod(uid=UID, namespace="default", name="web")
phases = st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed"])


def known(runtime: RuntimePod = RUNNING, **fields: Any) -> StatusInputs:
    """The inputs of a status; by default the pod runs and has no reported status."""
    fields.setdefault("reported", PodStatus())
    return StatusInputs(seen=ContainerObservations(runtime=runtime, runtime_name="sim"), **fields)


def all_ready(_: Pod, status: PodStatus) -> PodStatus:
    """Probe results that make every container ready."""
    ready = tuple(with_fields(one, ready=True, started=True) for one in status.container_statuses)
    return with_fields(status, container_statuses=ready)


def test_running_pod_is_ready_with_all_conditions() -> None:
    status = generate_status(pod(), known(), all_ready)
    assert (status.phase, status.qos_class) == ("Running", "BestEffort")
    assert [(one.type, one.status) for one in status.conditions] == [
        ("PodReadyToStartContainers", "True"),
        ("Initialized", "True"),
        ("Ready", "True"),
        ("ContainersReady", "True"),
        ("PodScheduled", "True"),
    ]
    assert status.container_statuses[0].container_id == "sim://main"
    assert [one.ip for one in status.pod_ips] == ["10.0.0.1", "fd00::1"]


def test_conditions_of_others_stay_and_come_first() -> None:
    foreign, ours = PodCondition(type="example.org/gate", status="True"), PodCondition(type="Ready", status="True")
    disruption = PodCondition(type="DisruptionTarget", status="True")
    resize = PodCondition(type="PodResizePending", status="True")
    wanted = pod(status=PodStatus(phase="Running", conditions=(foreign, ours)))
    reported = PodStatus(phase="Running", conditions=(ours, disruption))
    status = generate_status(wanted, known(reported=reported, resize=(resize,)), all_ready)
    assert status.conditions[:3] == (foreign, resize, disruption)
    ending = generate_status(wanted, known(reported=reported, resize=(resize,), is_ending=True), all_ready)
    assert resize not in ending.conditions


@pytest.mark.parametrize(
    ("host_ips", "host_network", "ips", "had", "expected"),
    [
        pytest.param(("192.0.2.1",), False, ("fd00::1", "10.0.0.1"), (), ["10.0.0.1", "fd00::1"], id="node of IPv4"),
        pytest.param(("fd00::9",), False, ("10.0.0.1", "fd00::1"), (), ["fd00::1", "10.0.0.1"], id="node of IPv6"),
        pytest.param((), False, ("010.0.0.1", "10.0.0.2"), (), ["10.0.0.1"], id="one of a family, rewritten"),
        pytest.param((), False, ("nonsense", "10.0.0.2"), (), ["10.0.0.2"], id="what is no address is dropped"),
        pytest.param((), False, (), ("10.0.0.7",), [], id="sandbox without addresses"),
        pytest.param(("192.0.2.1",), True, (), (), ["192.0.2.1"], id="host network"),
        pytest.param(("192.0.2.1",), True, (), ("192.0.2.7",), ["192.0.2.7"], id="host network keeps its address"),
        pytest.param(
            ("192.0.2.1", "fd00::9"), True, (), ("192.0.2.7",), ["192.0.2.7", "fd00::9"], id="second family later"
        ),
    ],
)
def test_pod_addresses_follow_the_nodes_family(
    host_ips: tuple[str, ...], host_network: bool, ips: tuple[str, ...], had: tuple[str, ...], expected: list[str]
) -> None:
    runtime = replace(RUNNING, sandboxes=(replace(SANDBOX, ips=ips, host_network=host_network),))
    reported = PodStatus(pod_ips=tuple(PodIP(ip=ip) for ip in had))
    wanted = pod(host_network=host_network)
    status = generate_status(wanted, known(runtime, reported=reported, host_ips=host_ips), all_ready)
    assert [one.ip for one in status.pod_ips] == expected
    assert status.pod_ip == (expected[0] if expected else "")
    assert [one.ip for one in status.host_ips] == list(host_ips)


def test_pod_keeps_its_address_when_its_sandbox_has_ended() -> None:
    reported = PodStatus(phase="Running", pod_ip="10.0.0.1", pod_ips=(PodIP(ip="10.0.0.1"),))
    dead = replace(RUNNING, sandboxes=(replace(SANDBOX, is_ready=False, ips=()),))
    assert generate_status(pod(), known(dead, reported=reported), all_ready).pod_ip == "10.0.0.1"
    assert generate_status(pod(), known(NOTHING, reported=reported), all_ready).pod_ip == "10.0.0.1"


def test_pod_past_its_deadline_has_failed_unless_it_had_ended_before() -> None:
    wanted = pod(active_deadline_seconds=10)
    reported = PodStatus(phase="Running", start_time=format_time(EPOCH))
    assert deadline_at(wanted, reported) == EPOCH + timedelta(seconds=10)
    assert deadline_exceeded(wanted, reported, EPOCH + timedelta(seconds=9.9)) is None
    end = deadline_exceeded(wanted, reported, EPOCH + timedelta(seconds=10))
    assert end == DEADLINE_EXCEEDED
    assert deadline_at(pod(), reported) is deadline_at(wanted, PodStatus()) is None
    status = generate_status(wanted, known(reported=reported, end=end), all_ready)
    assert (status.phase, status.reason, status.message) == ("Failed", end.reason, end.message)
    over = generate_status(wanted, known(reported=PodStatus(phase="Succeeded"), end=end), all_ready)
    assert over.phase == "Succeeded"


def test_terminal_status_in_the_api_is_kept_with_its_reason() -> None:
    wanted = pod(status=PodStatus(phase="Failed", reason="Evicted", message="node was low on memory"))
    status = generate_status(wanted, known(reported=PodStatus(phase="Running", reason="old")), all_ready)
    assert (status.phase, status.reason, status.message) == ("Failed", "Evicted", "node was low on memory")


def test_restarting_sidecar_does_not_make_an_initialized_pod_pending() -> None:
    """Only a regular container of the current sandbox proves that the pod was initialized in it."""
    sidecar = container("sidecar", restart_policy="Always")
    wanted = pod(init_containers=(sidecar,), restart_policy="Always")
    again = RuntimeContainer(id="sidecar", name="sidecar", state=RuntimeState.CREATED, sandbox_id="s", created_at=EPOCH)
    ended = replace(again, id="sidecar-0", state=RuntimeState.EXITED, created_at=EPOCH - timedelta(minutes=1))
    runtime = replace(RUNNING, containers=(again, ended, MAIN))
    assert generate_status(wanted, known(runtime), all_ready).phase == "Running"
    other_sandbox = replace(runtime, containers=(replace(again, id="x", state=RuntimeState.RUNNING), MAIN))
    assert generate_status(wanted, known(other_sandbox), all_ready).phase == "Running"
    old = replace(MAIN, sandbox_id="before", state=RuntimeState.EXITED)
    anew = replace(runtime, containers=(replace(again, id="x", state=RuntimeState.RUNNING), old))
    assert generate_status(wanted, known(anew), all_ready).phase == "Pending"


def test_resources_of_a_running_container_are_those_it_was_started_with() -> None:
    resources = ResourceRequirements(limits={"cpu": "2"}, requests={"cpu": "2", "memory": "2Gi"})
    wanted = pod(containers=[container(resources=resources)])
    before = ResourceRequirements(limits={"cpu": "1"}, requests={"cpu": "1", "memory": "1Gi"})
    old = ContainerStatus(
        name="main",
        container_id="sim://main",
        state=ContainerState(running=ContainerStateRunning()),
        resources=before,
    )
    (status,) = regular_statuses(wanted, ContainerObservations(runtime=RUNNING, runtime_name="sim"), (old,))
    assert status.resources == ResourceRequirements(limits={"cpu": "1"}, requests={"cpu": "1", "memory": "2Gi"})
    (other,) = regular_statuses(wanted, ContainerObservations(runtime=RUNNING, runtime_name="other"), (old,))
    assert other.resources == resources


@st.composite
def runtimes(draw: st.DrawFn) -> RuntimePod:
    """Any runtime state of a pod with one container."""
    containers = tuple(
        RuntimeContainer(
            id=str(age),
            name="main",
            state=draw(st.sampled_from(RuntimeState)),
            exit_code=draw(st.sampled_from([0, 1])),
            attempt=3 - age,
            sandbox_id=draw(st.sampled_from(["s", "other"])),
            created_at=EPOCH - timedelta(minutes=age),
        )
        for age in range(draw(st.integers(0, 3)))
    )
    sandboxes = (replace(SANDBOX, is_ready=draw(st.booleans())),) if draw(st.booleans()) else ()
    return replace(NOTHING, sandboxes=sandboxes, containers=containers)


@given(runtimes(), phases, phases, st.sampled_from(["Always", "OnFailure", "Never"]), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_terminal_phase_is_never_left(
    runtime: RuntimePod, api: str, reported: str, policy: str, is_ending: bool, is_late: bool
) -> None:
    wanted = pod(restart_policy=policy, status=PodStatus(phase=api))
    end = DEADLINE_EXCEEDED if is_late else None
    status = generate_status(
        wanted, known(runtime, reported=PodStatus(phase=reported), is_ending=is_ending, end=end), all_ready
    )
    if is_terminal(api):
        assert status.phase == api
    elif is_terminal(reported):
        assert status.phase == reported
    assert len(status.container_statuses) == 1
    owned = [one.type for one in status.conditions if one.type in OWNED_CONDITIONS]
    assert len(owned) == len(set(owned)) == 5


@given(runtimes(), st.sampled_from(["Always", "OnFailure", "Never"]), st.booleans())
@settings(max_examples=100, deadline=None)
def test_status_has_one_state_and_made_twice_is_the_same(runtime: RuntimePod, policy: str, has_failed: bool) -> None:
    failures = {"main": StartFailure("ErrImagePull", "why")} if has_failed else {}
    seen = ContainerObservations(runtime=runtime, runtime_name="sim", start_failures=failures)
    wanted = pod(restart_policy=policy)
    once = regular_statuses(wanted, seen, ())
    state = once[0].state
    assert sum(one is not None for one in (state.running, state.waiting, state.terminated)) == 1
    is_lost = any(one.state == RuntimeState.UNKNOWN for one in runtime.containers)
    assert is_lost or regular_statuses(wanted, seen, once) == once


def test_pod_without_containers_is_pending() -> None:
    assert pod_phase(pod(containers=[]), []) == "Pending"


@given(st.permutations(["a", "b", "c"]), st.sampled_from(["Always", "OnFailure", "Never"]))
@settings(max_examples=20, deadline=None)
def test_phase_does_not_depend_on_the_order_of_statuses(order: list[str], policy: str) -> None:
    wanted = pod(containers=[container(name) for name in "abc"], restart_policy=policy)
    states = {"a": ContainerState(running=ContainerStateRunning()), "b": ContainerState(), "c": ContainerState()}
    statuses = [ContainerStatus(name=name, state=states[name]) for name in order]
    assert pod_phase(wanted, statuses) == "Pending"
