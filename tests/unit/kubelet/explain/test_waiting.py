"""What a pod waits for, derived from the API alone or from the state of its node."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.generated.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Event,
    EventSeries,
    Node,
    NodeCondition,
    NodeStatus,
    ObjectReference,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodCondition,
    PodReadinessGate,
    PodSchedulingGate,
    PodStatus,
    Probe,
    Volume,
)
from pykubelet.kubelet.explain.explainer import event_trail, explain_from_api, node_problem, with_api_finalizers
from pykubelet.kubelet.explain.explanation import Blocked, BlockingStep, PodSituation
from pykubelet.kubelet.explain.trail import TrailEntry, TrailWait
from pykubelet.kubelet.explain.waiting import waiting_for
from pykubelet.kubelet.types import PodWorkerState, WaitStage
from pykubelet.testing.build import container, node, pod
from pykubelet.testing.virtual_time import EPOCH

NOW = EPOCH + timedelta(minutes=10)
RUNS = ContainerState(running=ContainerStateRunning(started_at="2026-01-01T00:00:00Z"))


def status(state: ContainerState, phase: str = "Pending", *, ready: bool = False, started: bool = False) -> PodStatus:
    """A status with one container."""
    return PodStatus(
        phase=phase, container_statuses=(ContainerStatus(name="main", state=state, ready=ready, started=started),)
    )


def waits(reason: str, message: str = "") -> PodStatus:
    """The status of a pod with one waiting container."""
    return status(ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message)))


def event(reason: str, said: str = "", *, container: str = "", minute: int = 1, count: int = 1) -> Event:
    """An event about the pod."""
    path = f"spec.containers{{{container}}}" if container else ""
    at = f"2026-01-01T00:{minute:02}:00Z"
    about = ObjectReference(kind="Pod", name="web", field_path=path)
    return Event(involved_object=about, reason=reason, message=said, first_timestamp=at, last_timestamp=at, count=count)


def deleted(given: Pod, *finalizers: str) -> Pod:
    """The pod, deleted, with 30 s of its grace period left."""
    metadata = replace(given.metadata, deletion_timestamp="2026-01-01T00:10:30Z", finalizers=finalizers)
    return replace(given, metadata=metadata)


CLAIMED = Volume(name="data", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="orders"))
UNSCHEDULABLE = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="0/3 nodes")
PROBED = container(readiness_probe=Probe(period_seconds=5), startup_probe=Probe(period_seconds=5))
BY_API: dict[str, tuple[Pod, list[Event], str, str, str]] = {
    "gates": (
        pod(node_name="", scheduling_gates=(PodSchedulingGate(name="example.com/g"),)),
        [],
        "",
        "scheduling",
        "gates: example.com/g",
    ),
    "condition": (
        pod(node_name="", status=PodStatus(phase="Pending", conditions=(UNSCHEDULABLE,))),
        [],
        "",
        "scheduling",
        "0/3 nodes",
    ),
    "event": (pod(node_name=""), [event("FailedScheduling", "no room")], "", "scheduling", "no room"),
    "claims": (
        pod(node_name="", volumes=(CLAIMED,)),
        [event("FailedScheduling", "pod has unbound immediate PersistentVolumeClaims")],
        "",
        "scheduling",
        "its claims to be bound to volumes: orders",
    ),
    "no scheduler": (pod(node_name=""), [], "", "scheduling", "default-scheduler"),
    "node gone": (pod(), [], "there is no such node", "node", "there is no such node"),
    "ends, node gone": (deleted(pod()), [], "it is not ready", "node", "to stop it"),
    "ends": (deleted(pod(status=status(RUNS, "Running"))), [], "", "stop", "30 s of its grace are left"),
    "finalizer": (deleted(pod(status=PodStatus(phase="Failed")), "a/b"), [], "", "finalizer", "a/b"),
    "ended": (deleted(pod(status=PodStatus(phase="Failed"))), [], "", "status", "delete it"),
    "unscheduled and deleted": (deleted(pod(node_name=""), "a/b"), [], "", "finalizer", "a/b"),
    "volume": (pod(), [event("FailedMount", "no such disk")], "", "volume", "no such disk"),
    "object": (pod(), [event("FailedMount", 'secret "s" not found')], "", "configuration", 'secret "s"'),
    "key": (
        pod(status=waits("CreateContainerConfigError", "non-existent config key: a")),
        [],
        "",
        "configuration",
        "a",
    ),
    "other": (pod(status=waits("CreateContainerConfigError", "must be root")), [], "", "configuration", "root"),
    "sandbox": (pod(), [event("FailedCreatePodSandBox", "no network")], "", "runtime", "no network"),
    "pull": (pod(), [event("Pulling", "x", container="main")], "", "image", "container main"),
    "pulled": (pod(), [event("Pulling"), event("Pulled", minute=2)], "", "start", "node-1 to start it"),
    "not started": (pod(status=waits("ContainerCreating")), [], "", "start", "node-1 to start it"),
    "image": (pod(status=waits("InvalidImageName", "bad name")), [], "", "image", "bad name"),
    "runtime": (pod(status=waits("RunContainerError", "no such file")), [], "", "runtime", "no such file"),
    "failed hook": (pod(status=waits("PostStartHookError", "exit 1")), [], "", "hook", "exit 1"),
    "probe to come": (
        pod(containers=[PROBED], status=status(RUNS, "Running")),
        [],
        "",
        "startup probe",
        "runs every 5 s",
    ),
    "probe": (
        pod(containers=[PROBED], status=status(RUNS, "Running", started=True)),
        [event("Unhealthy", "Readiness probe failed: 503", container="main")],
        "",
        "readiness probe",
        "to pass: 503",
    ),
    "no probe": (pod(status=status(RUNS, "Running")), [], "", "start", "about to be called ready"),
    "gate": (
        pod(
            readiness_gates=(PodReadinessGate(condition_type="a/ready"),),
            status=status(RUNS, "Running", ready=True),
        ),
        [],
        "",
        "readiness gate",
        "a/ready",
    ),
    "init ended": (
        pod(
            init_containers=(container("first"),),
            restart_policy="Never",
            status=PodStatus(
                phase="Pending",
                init_container_statuses=(
                    ContainerStatus(
                        name="first", state=ContainerState(terminated=ContainerStateTerminated(exit_code=4))
                    ),
                ),
            ),
        ),
        [],
        "",
        "init container",
        "init container first, which exited with 4",
    ),
    "init through": (
        pod(
            init_containers=(container("first"), container("side", restart_policy="Always")),
            restart_policy="OnFailure",
            status=PodStatus(
                phase="Pending",
                init_container_statuses=(
                    ContainerStatus(name="first", state=ContainerState(terminated=ContainerStateTerminated())),
                    ContainerStatus(name="side", state=ContainerState(terminated=ContainerStateTerminated())),
                ),
            ),
        ),
        [],
        "",
        "crash loop",
        "container side to be started again",
    ),
    "failed": (
        pod(
            restart_policy="OnFailure",
            status=status(ContainerState(terminated=ContainerStateTerminated(exit_code=9)), "Running"),
        ),
        [],
        "",
        "crash loop",
        "it exited with 9",
    ),
    "sidecar": (
        pod(
            init_containers=(container("side", restart_policy="Always", readiness_probe=Probe()),),
            status=replace(
                status(RUNS, "Running", ready=True),
                init_container_statuses=(ContainerStatus(name="side", state=RUNS, started=True),),
            ),
        ),
        [],
        "",
        "readiness probe",
        "container side",
    ),
    "crashed": (pod(status=waits("CrashLoopBackOff")), [], "", "crash loop", "it ended, was restarted"),
    "well": (pod(status=status(RUNS, "Running", ready=True)), [], "", "nothing", "ready"),
    "refused": (
        pod(status=PodStatus(phase="Failed", reason="AppArmor", message="Pod was rejected: no AppArmor")),
        [],
        "",
        "admission",
        "no AppArmor",
    ),
    "evicted": (pod(status=PodStatus(phase="Failed", reason="Evicted")), [], "", "ended", "Evicted"),
}


@pytest.mark.parametrize(("known", "events", "problem", "step", "said"), BY_API.values(), ids=BY_API)
def test_api_alone_gives_the_blocking_step(known: Pod, events: list[Event], problem: str, step: str, said: str) -> None:
    """Pod status and events are enough without an answer from the node."""
    told = explain_from_api(known, events, node_problem=problem, now=NOW)
    assert told.waits_for.step == step, told.waits_for
    assert said in told.waits_for.what
    assert (told.name, told.node, told.told_by) == ("web", known.spec.node_name, "")


def waiting(stage: str, what: str) -> TrailWait:
    """A wait on the trail of the node."""
    return TrailWait(EPOCH, stage, what, NOW)


NOT_SENT = TrailEntry(EPOCH, "status", "not sent", (("why", "no answer"),))
BY_NODE: dict[str, tuple[dict[str, Any], str, str]] = {
    "network": ({"waiting": (waiting("retry", "another try: network is not ready: x"),)}, "network", "x"),
    "retry": ({"waiting": (waiting("retry", "another try: boom"),)}, "runtime", "boom"),
    "start": ({"waiting": (waiting("start", "containers being started"),)}, "start", "the runtime to start"),
    "mount": ({"waiting": (waiting("retry", "another try: cannot mount volumes: x"),)}, "volume", "to be made"),
    "unmount": (
        {"worker": PodWorkerState.TERMINATED, "waiting": (waiting("unmount", "volumes"),)},
        "volume",
        "to be unmounted",
    ),
    "unmount failed": (
        {"worker": PodWorkerState.TERMINATED, "waiting": (waiting("retry", "another try: busy"),)},
        "volume",
        "busy",
    ),
    "stop failed": (
        {"worker": PodWorkerState.TERMINATING, "waiting": (waiting("retry", "another try: shim"),)},
        "stop",
        "shim",
    ),
    "held": ({"waiting": (waiting("turns", "another"),)}, "turn", "former static pod"),
    "unsent": (
        {"status": status(RUNS, "Running", ready=True), "entries": (NOT_SENT,)},
        "status",
        "no answer",
    ),
    "unsent end": (
        {"pod": deleted(pod()), "worker": PodWorkerState.FINISHED, "entries": (NOT_SENT,)},
        "status",
        "last status: no answer",
    ),
    "refused": (
        {"entries": (TrailEntry(EPOCH, "admission", "refused", (("reason", "OutOfpods"), ("why", "full"))),)},
        "admission",
        "full",
    ),
}


@pytest.mark.parametrize(("known", "step", "said"), BY_NODE.values(), ids=BY_NODE)
def test_node_state_gives_the_blocking_step(known: dict[str, Any], step: str, said: str) -> None:
    """State that only the node knows takes precedence over what the API shows."""
    found = waiting_for(PodSituation(**{"pod": pod(), "status": PodStatus(), "now": NOW, **known}))
    assert found.step == step, found
    assert said in found.what


def test_node_is_right_except_about_finalizers() -> None:
    """Only the API knows the current finalizers."""
    told = explain_from_api(pod(), [], node_problem="", now=NOW)
    assert with_api_finalizers(told, deleted(pod(), "a/b")) is told
    kept = replace(told, waits_for=Blocked(BlockingStep.FINALIZER, "some"))
    assert "a/b" in with_api_finalizers(kept, deleted(pod(), "a/b")).waits_for.what


def test_events_become_a_trail_in_their_order() -> None:
    """The newest comes last, a series keeps its count, and an event without a time is the oldest."""
    series = EventSeries(count=7, last_observed_time="2026-01-01T00:09:00.000000Z")
    told = event_trail([replace(event("Unhealthy"), series=series), event("Pulled", count=3, minute=2), Event()])
    assert [(one.what, one.times) for one in told] == [("", 1), ("Pulled", 3), ("Unhealthy", 7)]
    assert told[-1].last_at == EPOCH + timedelta(minutes=9)


NODES: dict[str, tuple[Node | None, str]] = {
    "gone": (None, "no such node"),
    "new": (node(), "never been ready"),
    "ready": (replace(node(), status=NodeStatus(conditions=(NodeCondition(type="Ready", status="True"),))), ""),
    "lost": (
        replace(node(), status=NodeStatus(conditions=(NodeCondition(type="Ready", status="Unknown", reason="Lost"),))),
        "Lost",
    ),
}


@pytest.mark.parametrize(("given_node", "problem"), NODES.values(), ids=NODES)
def test_node_that_is_not_ready_is_a_problem(given_node: Node | None, problem: str) -> None:
    """Only a node with condition Ready=True has no problem."""
    assert (problem in node_problem(given_node)) if problem else not node_problem(given_node)


STATES = (
    RUNS,
    ContainerState(),
    ContainerState(terminated=ContainerStateTerminated(exit_code=0)),
    ContainerState(terminated=ContainerStateTerminated(exit_code=1, reason="OOMKilled")),
    *(
        ContainerState(waiting=ContainerStateWaiting(reason=one))
        for one in ("", "CrashLoopBackOff", "ErrImagePull", "X")
    ),
)


def containers_of(names: str) -> st.SearchStrategy[tuple[Container, ...]]:
    """Containers with or without probes; init containers may be sidecars."""
    probes = st.sampled_from([None, Probe()])
    policies = st.sampled_from(["Always", ""]) if names == "i" else st.just("")
    made = st.builds(
        lambda ready, start, policy: {
            "readiness_probe": ready,
            "startup_probe": start,
            "restart_policy": policy or None,
        },
        probes,
        probes,
        policies,
    )
    return st.lists(made, min_size=names == "c", max_size=2).map(
        lambda given: tuple(container(f"{names}{number}", **fields) for number, fields in enumerate(given))
    )


@st.composite
def situations(draw: st.DrawFn) -> PodSituation:
    """Any situation that a node or the API may show."""
    init, regular = draw(containers_of("i")), draw(containers_of("c"))
    made = pod(
        containers=regular,
        init_containers=init,
        node_name=draw(st.sampled_from(["", "node-1"])),
        restart_policy=draw(st.sampled_from(["Always", "OnFailure", "Never"])),
    )
    statuses = {
        one.name: ContainerStatus(
            name=one.name, state=draw(st.sampled_from(STATES)), ready=draw(st.booleans()), started=draw(st.booleans())
        )
        for one in (*init, *regular)
        if draw(st.booleans())
    }
    shown = PodStatus(
        phase=draw(st.sampled_from(["Pending", "Running", "Failed"])),
        container_statuses=tuple(statuses[one.name] for one in regular if one.name in statuses),
        init_container_statuses=tuple(statuses[one.name] for one in init if one.name in statuses),
    )
    words = st.sampled_from(["sent", "not sent", "Pulling", "FailedMount", "Killing", "Unhealthy"])
    return PodSituation(
        pod=deleted(made) if draw(st.booleans()) else made,
        status=shown,
        now=NOW,
        entries=tuple(TrailEntry(EPOCH, "events", what) for what in draw(st.lists(words, max_size=3))),
        waiting=tuple(
            waiting(one, "x") for one in draw(st.sets(st.sampled_from([*WaitStage, "hooks/c0"]), max_size=3))
        ),
        worker=draw(st.sampled_from([None, *PodWorkerState])),
        is_from_node=draw(st.booleans()),
        node_problem=draw(st.sampled_from(["", "lost"])),
    )


@given(situations())
def test_every_pod_waits_for_one_thing_that_is_named(seen: PodSituation) -> None:
    """The step is "nothing" only if all containers of the pod are ready."""
    found = waiting_for(seen)
    assert found.what
    if found.step is BlockingStep.NOTHING:
        ready = {one.name for one in seen.status.container_statuses if one.ready}
        assert ready == {one.name for one in seen.pod.spec.containers}
    elif found.step not in {BlockingStep.ENDED, BlockingStep.STATUS, BlockingStep.START, BlockingStep.RUNTIME}:
        assert found.unblock
