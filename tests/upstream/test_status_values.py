"""Cases 3.16-14 to -16 and -35 to -52: conditions, normal form, equality, merging, resizes and patches."""

import random  # noqa: TID251  a fixed seed shuffles
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodReadinessGate,
    PodStatus,
)
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.status import conditions
from pykubelet.kubelet.status.cache import ResizeConditions
from pykubelet.kubelet.status.conditions import replace_or_append, with_transition_time
from pykubelet.kubelet.status.normalize import equal_by_node, normalize_status
from pykubelet.kubelet.status.sync import is_unchanged, merge_status, status_patch
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import ManualClock

NOW = "2026-01-01T00:00:00Z"
BEFORE = "2025-12-31T00:00:00Z"
EMPTY = pod("foo", containers=())


def condition(kind: str, status: str = "True", reason: str = "", since: str | None = None) -> PodCondition:
    return PodCondition(type=kind, status=status, reason=reason, last_transition_time=since)


def summary(found: tuple[PodCondition, ...]) -> list[tuple[str, str, str]]:
    return [(one.type, one.status, one.reason) for one in found]


@pytest.mark.case("3.16-14 order does not count, nor do foreign conditions")
def test_shuffled_statuses_are_equal_once_normalized() -> None:
    rand = random.Random(7)
    spec = replace(EMPTY.spec, init_containers=tuple(container(f"c{number}") for number in range(10)))
    known = replace(EMPTY, spec=spec)
    listed = [ContainerStatus(name=f"c{number}") for number in range(10)]

    def shuffled(foreign: str) -> PodStatus:
        lists = [tuple(rand.sample(listed, 10)) for _ in range(3)]
        status = PodStatus(
            container_statuses=lists[0],
            init_container_statuses=lists[1],
            ephemeral_container_statuses=lists[2],
            conditions=(condition("foreign", foreign),),
        )
        return normalize_status(known, status)

    assert equal_by_node(shuffled("True"), shuffled("False"))


@pytest.mark.case("3.16-15 messages stay within the budget")
def test_messages_stay_within_the_budget() -> None:
    ended = [ContainerStateTerminated(message="abcdefgh" * (24 + number % 3)) for number in range(48)]
    listed = tuple(
        ContainerStatus(name=f"c{number}", last_state=ContainerState(terminated=end))
        for number, end in enumerate(ended)
    )
    status = PodStatus(
        init_container_statuses=listed[:16],
        container_statuses=listed[16:32],
        ephemeral_container_statuses=listed[32:],
    )
    normalized = normalize_status(EMPTY, status)
    sizes = [
        len(one.last_state.terminated.message)
        for one in normalized.init_container_statuses
        if one.last_state.terminated
    ]
    assert all(192 <= size <= 256 for size in sizes)
    assert sum(sizes) < 12288


@pytest.mark.case("3.16-16 times are cut to seconds")
def test_times_are_cut_to_whole_seconds() -> None:
    precise, whole = "2026-01-01T00:00:00.123456789Z", NOW
    assert normalize_status(EMPTY, _stamped(precise)) == _stamped(whole)


def _stamped(at: str) -> PodStatus:
    running = ContainerState(running=ContainerStateRunning(started_at=at))
    ended = ContainerState(terminated=ContainerStateTerminated(started_at=at, finished_at=at))
    one = (ContainerStatus(name="c", state=running, last_state=ended),)
    return PodStatus(
        start_time=at,
        conditions=(PodCondition(type="Ready", last_probe_time=at, last_transition_time=at),),
        container_statuses=one,
        init_container_statuses=one,
        ephemeral_container_statuses=one,
    )


@pytest.mark.parametrize(
    ("given", "old", "expected"),
    [
        pytest.param((), (condition("Ready", since=BEFORE),), (), id="3.16-35 no condition"),
        pytest.param((condition("Ready"),), (), (condition("Ready", since=NOW),), id="3.16-35 no old one"),
        pytest.param(
            (condition("Ready"),),
            (condition("Ready", "False", since=BEFORE),),
            (condition("Ready", since=NOW),),
            id="3.16-35 status changed",
        ),
        pytest.param(
            (condition("Ready"),),
            (condition("Ready", since=BEFORE),),
            (condition("Ready", since=BEFORE),),
            id="3.16-35 unchanged",
        ),
    ],
)
def test_transition_time_follows_the_status(given: Any, old: Any, expected: Any) -> None:
    assert with_transition_time(given, old, "Ready", NOW) == expected


RUNNING = PodStatus(phase="Running", message="Message", conditions=(condition("Ready"), condition("PodScheduled")))
BY_KUBELET = condition("DisruptionTarget", reason="TerminationByKubelet")
BY_EVICTION = condition("DisruptionTarget", reason="EvictedByEvictionAPI")
READY, SCHEDULED = ("Ready", "True", ""), ("PodScheduled", "True", "")
UNREADY = (("Ready", "False", "PodFailed"), SCHEDULED, ("ContainersReady", "False", "PodFailed"))


def plus(status: PodStatus, *more: PodCondition, **fields: str) -> PodStatus:
    return replace(status, conditions=(*status.conditions, *more), **fields)


def shown(*found: PodCondition) -> list[tuple[str, str, str]]:
    return summary(found)


EVICTED = plus(RUNNING, phase="Failed", reason="Evicted", message="Was Evicted")


@pytest.mark.parametrize(
    ("old", "new", "could_run", "phase", "expected"),
    [
        pytest.param(RUNNING, RUNNING, False, "Running", [READY, SCHEDULED], id="3.16-36 no change"),
        pytest.param(
            RUNNING,
            plus(RUNNING, BY_KUBELET, phase="Failed"),
            False,
            "Failed",
            [*UNREADY[:2], *shown(BY_KUBELET), *UNREADY[2:]],
            id="3.16-37 to Failed with DisruptionTarget",
        ),
        pytest.param(
            RUNNING,
            plus(RUNNING, BY_KUBELET, phase="Failed"),
            True,
            "Running",
            [READY, SCHEDULED],
            id="3.16-38 to Failed, but containers may run",
        ),
        pytest.param(
            plus(RUNNING, BY_KUBELET),
            RUNNING,
            False,
            "Running",
            [*shown(BY_KUBELET), READY, SCHEDULED],
            id="3.16-39 an old DisruptionTarget is preserved",
        ),
        pytest.param(
            plus(RUNNING, BY_EVICTION),
            plus(RUNNING, BY_KUBELET, phase="Failed"),
            False,
            "Failed",
            [*shown(BY_KUBELET), *UNREADY],
            id="3.16-40 a new DisruptionTarget wins on the way to Failed",
        ),
        pytest.param(
            plus(RUNNING, BY_EVICTION),
            plus(RUNNING, BY_KUBELET),
            False,
            "Running",
            [*shown(BY_EVICTION), READY, SCHEDULED],
            id="3.16-40 the old DisruptionTarget stays while Running",
        ),
        pytest.param(
            plus(RUNNING, BY_EVICTION),
            plus(RUNNING, BY_KUBELET, phase="Failed"),
            True,
            "Running",
            [*shown(BY_EVICTION), READY, SCHEDULED],
            id="3.16-40 the old DisruptionTarget stays while containers may run",
        ),
        pytest.param(
            RUNNING,
            replace(RUNNING, conditions=(condition("Ready", "False"), condition("PodScheduled"))),
            False,
            "Running",
            [("Ready", "False", ""), SCHEDULED],
            id="3.16-41 Ready changes",
        ),
        pytest.param(
            plus(RUNNING, condition("example.com/x")),
            RUNNING,
            False,
            "Running",
            [("example.com/x", "True", ""), READY, SCHEDULED],
            id="3.16-41 a foreign old condition is kept",
        ),
        pytest.param(
            plus(RUNNING, condition("example.com/x")),
            plus(RUNNING, condition("example.com/x", "False"), condition("example.com/y")),
            False,
            "Running",
            [("example.com/x", "True", ""), READY, SCHEDULED],
            id="3.16-41 a foreign new condition is ignored",
        ),
        pytest.param(RUNNING, EVICTED, False, "Failed", [*UNREADY], id="3.16-42 evicted"),
        pytest.param(RUNNING, EVICTED, True, "Running", [READY, SCHEDULED], id="3.16-42 evicted, but may run"),
    ],
)
def test_merge_keeps_what_others_own(
    old: PodStatus, new: PodStatus, could_run: bool, phase: str, expected: list[tuple[str, str, str]]
) -> None:
    merged = merge_status(EMPTY, old, new, could_run=could_run, now=NOW)
    assert (merged.phase, summary(merged.conditions)) == (phase, expected)
    said = new if phase == new.phase else old
    assert (merged.reason, merged.message) == (said.reason, said.message)


UID = PodUid("12345678")


@pytest.fixture
def resizes() -> ResizeConditions:
    return ResizeConditions(ManualClock())


def resizes_of(resizes: ResizeConditions, uid: PodUid = UID) -> list[tuple[str, str, str, int]]:
    return [(one.type, one.reason, one.message, one.observed_generation) for one in resizes.of(uid)]


@pytest.mark.case("3.16-43 a walk through the resize conditions")
def test_resize_conditions_are_kept_until_cleared(resizes: ResizeConditions) -> None:
    assert resizes.of(UID) == ()
    under_way = ("PodResizeInProgress", "some-reason", "some-message", 1)
    resizes.set_in_progress(UID, reason="some-reason", message="some-message", generation=1)
    assert resizes_of(resizes) == [under_way]
    for generation in (1, 2):
        resizes.set_in_progress(UID, reason="", message="", generation=generation)
        assert resizes_of(resizes) == [under_way]
    resizes.clear_in_progress(UID)
    resizes.set_in_progress(UID, reason="", message="", generation=2)
    under_way = ("PodResizeInProgress", "", "", 2)
    assert resizes_of(resizes) == [under_way]
    resizes.set_pending(UID, reason="Deferred", message="some-message", generation=1)
    assert resizes_of(resizes) == [("PodResizePending", "Deferred", "some-message", 1), under_way]
    assert (resizes.is_deferred(UID), resizes.is_infeasible(UID)) == (True, False)
    resizes.set_pending(UID, reason="Infeasible", message="some-message", generation=3)
    assert resizes_of(resizes) == [("PodResizePending", "Infeasible", "some-message", 3), under_way]
    assert (resizes.is_deferred(UID), resizes.is_infeasible(UID)) == (False, True)
    resizes.clear_in_progress(UID)
    assert resizes_of(resizes) == [("PodResizePending", "Infeasible", "some-message", 3)]
    resizes.clear_pending(UID)
    assert resizes.of(UID) == ()


@pytest.mark.case("3.16-44 clearing says whether there was something")
def test_clearing_returns_whether_a_resize_was_in_progress(resizes: ResizeConditions) -> None:
    first = resizes.clear_in_progress(UID)
    resizes.set_in_progress(UID, reason="", message="", generation=1)
    assert (first, resizes.clear_in_progress(UID)) == (False, True)


@pytest.mark.parametrize(
    ("pending", "in_progress", "counts", "count"),
    [
        pytest.param((), (), {}, 0, id="3.16-45 none"),
        pytest.param(("Deferred",), (), {"deferred": 1}, 0, id="3.16-45 pending only"),
        pytest.param((), ("",), {}, 1, id="3.16-45 one in progress"),
        pytest.param((), ("", "Error"), {}, 2, id="3.16-45 two in progress, one with an error"),
        pytest.param(("Infeasible", "Infeasible"), (), {"infeasible": 2}, 0, id="3.16-45 two infeasible"),
        pytest.param(("Deferred", "Infeasible"), (), {"deferred": 1, "infeasible": 1}, 0, id="3.16-45 both"),
    ],
)
def test_resizes_are_counted(
    resizes: ResizeConditions, pending: tuple[str], in_progress: tuple[str], counts: dict[str, int], count: int
) -> None:
    for number, reason in enumerate(pending):
        resizes.set_pending(PodUid(f"p{number}"), reason=reason, message="", generation=1)
    for number, reason in enumerate(in_progress):
        resizes.set_in_progress(PodUid(f"p{number}"), reason=reason, message="", generation=1)
    assert (resizes.pending_counts(), resizes.in_progress_count()) == (counts, count)


@pytest.mark.case("3.16-46 backfill after a restart")
def test_resize_conditions_are_taken_over_from_the_pods(resizes: ResizeConditions) -> None:
    under_way = PodCondition(type="PodResizeInProgress", status="True", observed_generation=1)
    erring = replace(under_way, reason="Error", message="some-message", observed_generation=2)
    waiting = replace(erring, type="PodResizePending", reason="Infeasible", observed_generation=3)
    given = {"p1": (under_way,), "p2": (erring,), "p3": (replace(waiting, reason="Deferred"), under_way)}
    given |= {"p4": (waiting,), "p5": ()}
    resizes.backfill(pod(uid, uid=uid, status=PodStatus(conditions=found)) for uid, found in given.items())
    for uid, found in given.items():
        wanted = [(one.type, one.reason, one.message, one.observed_generation) for one in found]
        assert resizes_of(resizes, PodUid(uid)) == wanted
        assert all(one.last_transition_time == NOW for one in resizes.of(PodUid(uid)))
    assert (resizes.in_progress_count(), resizes.pending_counts()) == (3, {"deferred": 1, "infeasible": 1})


def ready(name: str, **fields: Any) -> ContainerStatus:
    return ContainerStatus(name=name, **{"ready": True, **fields})


def pod_of(*regular: str, inits: tuple[str, ...] = (), sidecars: tuple[str, ...] = (), gates: int = 0) -> Pod:
    inner = [container(name) for name in inits]
    inner += [container(name, restart_policy="Always") for name in sidecars]
    return pod(
        "foo",
        containers=[container(name) for name in regular],
        init_containers=tuple(inner),
        readiness_gates=tuple(PodReadinessGate(condition_type=f"gate{number + 1}") for number in range(gates)),
    )


TWO = pod_of("1234", "5678")
WITH_SIDECAR = pod_of("1234", sidecars=("side",))
UNREADY_5678 = ("False", "ContainersNotReady", "containers with unready status: [5678]")
UNKNOWN_5678 = ("False", "ContainersNotReady", "containers with unknown status: [5678]")
NOTHING_KNOWN = ("False", "UnknownContainerStatuses", "")
FINE = ("True", "", "")

CONTAINERS_READY = [
    (EMPTY, None, "Running", NOTHING_KNOWN, "nothing known"),
    (EMPTY, (), "Running", FINE, "no containers"),
    (
        pod_of("1234"),
        (),
        "Running",
        ("False", "ContainersNotReady", "containers with unknown status: [1234]"),
        "unknown container",
    ),
    (TWO, (ready("1234"), ready("5678")), "Running", FINE, "both ready"),
    (TWO, (ready("1234"),), "Running", UNKNOWN_5678, "one missing"),
    (TWO, (ready("1234"), ready("5678", ready=False)), "Running", UNREADY_5678, "one unready"),
    (pod_of("1234"), (ready("1234", ready=False),), "Succeeded", ("False", "PodCompleted", ""), "succeeded"),
    (
        WITH_SIDECAR,
        (ready("1234"),),
        "Running",
        ("False", "ContainersNotReady", "containers with unknown status: [side]"),
        "sidecar missing",
    ),
    (
        WITH_SIDECAR,
        (ready("side", ready=False), ready("1234")),
        "Running",
        ("False", "ContainersNotReady", "containers with unready status: [side]"),
        "sidecar unready",
    ),
    (WITH_SIDECAR, (ready("side"), ready("1234")), "Running", FINE, "all ready"),
]


def said(found: PodCondition) -> tuple[str, str, str]:
    return found.status, found.reason, found.message


@pytest.mark.parametrize(
    ("known", "statuses", "phase", "expected"),
    [pytest.param(*row[:4], id=f"3.16-47 {row[4]}") for row in CONTAINERS_READY],
)
def test_containers_ready_names_what_is_missing(known: Pod, statuses: Any, phase: str, expected: Any) -> None:
    assert said(conditions.containers_ready(known, PodStatus(), statuses, phase)) == expected


@pytest.mark.parametrize(
    ("known", "statuses", "phase", "expected"),
    [pytest.param(*row[:4], id=f"3.16-48 {row[4]}") for row in CONTAINERS_READY],
)
def test_ready_mirrors_containers_ready(known: Pod, statuses: Any, phase: str, expected: Any) -> None:
    assert said(conditions.pod_ready(known, PodStatus(), (), statuses, phase)) == expected


MISSING_GATE1 = 'corresponding condition of pod readiness gate "gate1" does not exist.'
FALSE_GATE1 = 'the status of pod readiness gate "gate1" is not "True", but False'


@pytest.mark.parametrize(
    ("gates", "given", "message"),
    [
        pytest.param(1, (), MISSING_GATE1, id="3.16-48 gate1 missing"),
        pytest.param(1, (condition("gate1", "False"),), FALSE_GATE1, id="3.16-48 gate1 False"),
        pytest.param(1, (condition("gate1"),), "", id="3.16-48 gate1 True"),
        pytest.param(
            2, (condition("gate1"),), MISSING_GATE1.replace("gate1", "gate2"), id="3.16-48 gate1 True, gate2 missing"
        ),
        pytest.param(
            2,
            (condition("gate1"), condition("gate2", "False")),
            FALSE_GATE1.replace("gate1", "gate2"),
            id="3.16-48 gate1 True, gate2 False",
        ),
        pytest.param(2, (condition("gate1"), condition("gate2")), "", id="3.16-48 both True"),
        pytest.param(
            2,
            (condition("gate1", "False"),),
            f"{FALSE_GATE1}, {MISSING_GATE1.replace('gate1', 'gate2')}",
            id="3.16-48 both bad",
        ),
    ],
)
def test_ready_waits_for_its_gates(gates: int, given: Any, message: str) -> None:
    found = conditions.pod_ready(pod_of(gates=gates), PodStatus(), given, (), "Running")
    assert said(found) == (("False", "ReadinessGatesNotReady", message) if message else FINE)


@pytest.mark.case("3.16-48 an unready container with a good gate")
def test_unready_container_counts_more_than_a_good_gate() -> None:
    found = conditions.pod_ready(
        pod_of("1234", gates=1), PodStatus(), (condition("gate1"),), (ready("1234", ready=False),), "Running"
    )
    assert said(found) == ("False", "ContainersNotReady", "containers with unready status: [1234]")


INITS = pod_of(inits=("1234", "5678"))
SIDECAR_ONLY = pod_of("regular", sidecars=("1234",))
STARTED = ready("regular", state=ContainerState(running=ContainerStateRunning()))


def incomplete(text: str) -> tuple[str, str, str]:
    return "False", "ContainersNotInitialized", f"containers with {text}"


@pytest.mark.parametrize(
    ("known", "statuses", "phase", "expected"),
    [
        pytest.param(INITS, None, "Pending", NOTHING_KNOWN, id="3.16-49 nothing known"),
        pytest.param(EMPTY, (), "Pending", FINE, id="3.16-49 no init containers"),
        pytest.param(EMPTY, None, "Pending", FINE, id="3.16-49 no init containers, nothing known"),
        pytest.param(INITS, (ready("1234"),), "Pending", incomplete("unknown status: [5678]"), id="3.16-49 missing"),
        pytest.param(
            INITS,
            (ready("1234"), ready("5678", ready=False)),
            "Pending",
            incomplete("incomplete status: [5678]"),
            id="3.16-49 unready",
        ),
        pytest.param(INITS, (ready("1234"), ready("5678")), "Pending", FINE, id="3.16-49 both ready"),
        pytest.param(
            INITS,
            (ready("1234", ready=False), ready("5678")),
            "Succeeded",
            ("True", "PodCompleted", ""),
            id="3.16-49 succeeded",
        ),
        pytest.param(
            SIDECAR_ONLY,
            (ready("1234", started=False),),
            "Pending",
            incomplete("incomplete status: [1234]"),
            id="3.16-49 sidecar not started",
        ),
        pytest.param(SIDECAR_ONLY, (ready("1234", started=True),), "Pending", FINE, id="3.16-49 sidecar started"),
        pytest.param(
            SIDECAR_ONLY,
            (ready("1234", started=False), STARTED),
            "Running",
            FINE,
            id="3.16-49 sidecar not started, but a regular container runs",
        ),
    ],
)
def test_initialized_names_what_is_incomplete(known: Pod, statuses: Any, phase: str, expected: Any) -> None:
    assert said(conditions.pod_initialized(known, PodStatus(), statuses, phase)) == expected


@pytest.mark.parametrize(
    ("has_sandbox", "expected"),
    [
        pytest.param(False, "False", id="3.16-50 no sandbox, one not ready, or one without an IP"),
        pytest.param(True, "True", id="3.16-50 a ready sandbox with an IP"),
    ],
)
def test_pod_is_ready_to_start_containers_with_a_sandbox(has_sandbox: bool, expected: str) -> None:
    found = conditions.pod_ready_to_start_containers(EMPTY, PodStatus(), has_sandbox=has_sandbox)
    assert (found.type, said(found)) == ("PodReadyToStartContainers", (expected, "", ""))


INIT_STATUS = {
    "image": "",
    "imageID": "",
    "lastState": {},
    "name": "init-container",
    "ready": True,
    "restartCount": 0,
    "state": {},
}


@pytest.mark.parametrize(
    ("new", "status"),
    [
        pytest.param(RUNNING, None, id="3.16-51 no change"),
        pytest.param(replace(RUNNING, message="random"), {"message": "random"}, id="3.16-51 message"),
        pytest.param(
            replace(RUNNING, conditions=(condition("Ready", "False"), condition("PodScheduled"))),
            {
                "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "PodScheduled"}],
                "conditions": [{"status": "False", "type": "Ready"}],
            },
            id="3.16-51 one condition",
        ),
        pytest.param(
            replace(RUNNING, init_container_statuses=(ready("init-container"),)),
            {"initContainerStatuses": [INIT_STATUS]},
            id="3.16-51 an init container's status",
        ),
    ],
)
def test_patch_holds_the_uid_and_what_changed(new: PodStatus, status: Any) -> None:
    patch = status_patch("myuid", RUNNING, new)
    assert patch == {"metadata": {"uid": "myuid"}} | ({"status": status} if status else {})
    assert is_unchanged(patch) is (status is None)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param((), id="3.16-52 append to none"),
        pytest.param((condition("ExampleType"),), id="3.16-52 replace by type"),
    ],
)
def test_condition_is_replaced_or_appended(given: tuple[PodCondition, ...]) -> None:
    wanted = condition("ExampleType", "False")
    assert replace_or_append(given, wanted) == (wanted,)
