"""Cases 6.24-31 to -37: probing a container, and the effect on its pod's status."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api.generated.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    ExecAction,
    Pod,
    PodStatus,
    Probe,
)
from pykubelet.api.times import format_time
from pykubelet.kubelet.prober.prober_manager import (
    PodProbeResults,
    ProbeRecord,
    conclude,
    examine,
    probe_of,
    with_probe_results,
)
from pykubelet.kubelet.prober.results import ProbedContainer
from pykubelet.kubelet.types import ProbeOutcome, ProbeType
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import EPOCH

LIVENESS, READINESS, STARTUP = ProbeType
SUCCESS, FAILURE, UNKNOWN = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.UNKNOWN
ID = "test://the-id"
RUNNING = ContainerState(running=ContainerStateRunning(started_at=format_time(EPOCH)))
WAITING = ContainerState(waiting=ContainerStateWaiting())
TERMINATED = ContainerState(terminated=ContainerStateTerminated())


def probed_container(**probe: Any) -> Container:
    spec = Probe(**{"exec": ExecAction(), "period_seconds": 1, "success_threshold": 1, "failure_threshold": 1, **probe})
    return container("c", liveness_probe=spec, readiness_probe=spec, startup_probe=spec)


def status(state: ContainerState = RUNNING, *, name: str = "c", id: str = ID, started: bool | None = True) -> PodStatus:
    one = ContainerStatus(name=name, container_id=id, state=state, started=started)
    return PodStatus(phase="Running", container_statuses=(one,))


class Play:
    """Probes a container repeatedly, as a worker does; the test decides the outcome of each probe."""

    def __init__(self, kind: ProbeType, container: Container | None = None, of: Pod | None = None) -> None:
        container = container or probed_container()
        probe = probe_of(container, kind)
        assert probe is not None
        self.subject = ProbedContainer(
            pod=of or pod(containers=[container], restart_policy="Always"), container=container, kind=kind, probe=probe
        )
        self.memory = ProbeRecord()
        self.results: dict[str, ProbeOutcome] = {}
        self.probed = 0

    def look(self, shown: PodStatus | None, found: ProbeOutcome | None = SUCCESS, *, after_seconds: float = 60) -> bool:
        """Probe once, and return whether the worker goes on."""
        step = examine(self.subject, self.memory, shown, EPOCH + timedelta(seconds=after_seconds))
        self._apply(step.forgotten, step.record, step.results)
        if step.should_probe:
            self.probed += 1
            if found is not None:
                step = conclude(self.subject, self.memory, found)
                self._apply(step.forgotten, step.record, step.results)
        return step.keep_going

    def _apply(self, forgotten: str, memory: ProbeRecord, results: tuple[ProbeOutcome, ...]) -> None:
        self.memory = memory
        self.results.pop(forgotten, None)
        for result in results:
            self.results[memory.container_id] = result

    @property
    def result(self) -> ProbeOutcome | None:
        return self.results.get(ID)


def startup_state(kind: ProbeType) -> bool:
    """The value of `started` with which a probe of this kind runs."""
    return kind != STARTUP


@pytest.mark.case("6.24-31 doProbe by state")
@pytest.mark.parametrize("kind", ProbeType)
@pytest.mark.parametrize(
    ("shown", "goes_on", "result"),
    [
        pytest.param(None, True, None, id="no status"),
        pytest.param(replace(status(), phase="Failed"), False, None, id="pod failed"),
        pytest.param(status(name="other"), True, None, id="other container only"),
        pytest.param(status(WAITING), True, FAILURE, id="waiting"),
        pytest.param(status(TERMINATED), False, FAILURE, id="terminated, policy Never"),
        pytest.param(status(), True, SUCCESS, id="running"),
    ],
)
def test_probe_worker_goes_on_or_ends(
    kind: ProbeType, shown: PodStatus | None, goes_on: bool, result: ProbeOutcome | None
) -> None:
    never = pod(containers=[probed_container()], restart_policy="Never")
    play = Play(kind, of=never)
    if shown is not None:
        statuses = tuple(replace(one, started=startup_state(kind)) for one in shown.container_statuses)
        shown = replace(shown, container_statuses=statuses)
    assert (play.look(shown), play.result) == (goes_on, result)


@pytest.mark.case("6.24-31 a pod that is being deleted")
@pytest.mark.parametrize("kind", ProbeType)
def test_deleted_pod_is_probed_for_readiness_only(kind: ProbeType) -> None:
    known = pod(containers=[probed_container()])
    deleting = replace(known, metadata=replace(known.metadata, deletion_timestamp=format_time(EPOCH)))
    play = Play(kind, of=deleting)
    goes_on = play.look(status(started=startup_state(kind)))
    assert (goes_on, play.result) == (kind == READINESS, SUCCESS)


@pytest.mark.case("6.24-32 initial delay")
@pytest.mark.parametrize(("kind", "at_first"), [(LIVENESS, SUCCESS), (READINESS, FAILURE), (STARTUP, UNKNOWN)])
def test_initial_delay_leaves_the_first_result(kind: ProbeType, at_first: ProbeOutcome) -> None:
    play = Play(kind, probed_container(initial_delay_seconds=10))
    shown = status(started=startup_state(kind))
    assert (play.look(shown, after_seconds=9.9), play.result, play.probed) == (True, at_first, 0)
    assert (play.look(shown, after_seconds=10), play.result, play.probed) == (True, SUCCESS, 1)


@pytest.mark.case("6.24-33 failure threshold")
def test_failures_count_from_the_threshold_on() -> None:
    play = Play(READINESS, probed_container(failure_threshold=3))
    seen = []
    for _ in range(2):
        play.look(status())
        for _ in range(3):
            play.look(status(), FAILURE)
            seen.append(play.result)
    assert seen == [SUCCESS, SUCCESS, FAILURE] * 2


@pytest.mark.case("6.24-33 success threshold")
def test_successes_count_from_the_threshold_on() -> None:
    play = Play(READINESS, probed_container(success_threshold=3))
    seen = []
    for _ in range(2):
        play.look(status(), FAILURE)
        for _ in range(3):
            play.look(status())
            seen.append(play.result)
    assert seen == [FAILURE, FAILURE, SUCCESS] * 2


@pytest.mark.case("6.24-34 startup is on hold after a verdict")
@pytest.mark.parametrize(
    ("found", "expected"),
    [(SUCCESS, [SUCCESS]), (FAILURE, [UNKNOWN, UNKNOWN, FAILURE])],
    ids=["success", "failure"],
)
def test_startup_probe_holds_after_its_verdict(found: ProbeOutcome, expected: list[ProbeOutcome]) -> None:
    play = Play(STARTUP, probed_container(failure_threshold=3))
    seen = []
    for _ in expected:
        play.look(status(started=False), found)
        seen.append(play.result)
    assert seen == expected
    assert (play.memory.is_on_hold, play.memory.run) == (True, 0)
    assert play.look(status(started=False))
    assert play.probed == len(expected)
    assert play.look(status(started=False, id="test://new"))
    assert (play.memory.container_id, play.results) == ("test://new", {"test://new": SUCCESS})


@pytest.mark.case("6.24-35 liveness waits for the start")
def test_liveness_fails_only_after_the_start() -> None:
    play = Play(LIVENESS)
    play.look(status(started=False), FAILURE)
    assert (play.result, play.probed) == (SUCCESS, 0)
    play.look(status(), FAILURE)
    assert (play.result, play.memory.is_on_hold, play.memory.run) == (FAILURE, True, 0)


@pytest.mark.case("6.24-35 startup asks no more after the start")
def test_startup_is_not_probed_after_the_start() -> None:
    play = Play(STARTUP)
    play.look(status(started=False))
    play.look(status(), FAILURE)
    assert (play.result, play.probed) == (SUCCESS, 1)


@pytest.mark.case("6.24-36 a sidecar that ended")
@pytest.mark.parametrize("kind", ProbeType)
def test_probe_worker_goes_on_when_a_sidecar_has_ended(kind: ProbeType) -> None:
    sidecar = replace(probed_container(), restart_policy="Always")
    of = pod(containers=[container("main")], init_containers=(sidecar,), restart_policy="Never")
    play = Play(kind, sidecar, of)
    one = status(TERMINATED).container_statuses
    shown = PodStatus(phase="Running", init_container_statuses=one)
    assert (play.look(shown), play.result) == (True, FAILURE)


class Verdicts(PodProbeResults):
    """Fixed results by kind and name; None for a worker without a result."""

    def __init__(self, known: dict[tuple[ProbeType, str], ProbeOutcome | None]) -> None:
        self._known = known

    def result(self, kind: ProbeType, container_id: str) -> ProbeOutcome | None:
        return self._known.get((kind, container_id.removeprefix("test://")))

    def is_probed(self, kind: ProbeType, container_name: str) -> bool:
        return (kind, container_name) in self._known


PROBED: dict[tuple[ProbeType, str], ProbeOutcome | None] = {
    (LIVENESS, "unprobed"): None,
    (READINESS, "ready"): SUCCESS,
    (READINESS, "pending"): None,
    (READINESS, "unready"): FAILURE,
    (STARTUP, "not-started"): None,
    (STARTUP, "started"): SUCCESS,
    (READINESS, "ended"): SUCCESS,
}
MERGED = {
    "unprobed": (True, True),
    "ready": (True, True),
    "pending": (True, False),
    "unready": (True, False),
    "not-started": (False, False),
    "started": (True, True),
    "ended": (False, False),
}


@pytest.mark.case("6.24-37 status merge")
@pytest.mark.parametrize("are_sidecars", [False, True], ids=["regular", "sidecars"])
def test_status_follows_the_probes(are_sidecars: bool) -> None:
    statuses = tuple(
        ContainerStatus(name=name, container_id=f"test://{name}", state=TERMINATED if name == "ended" else RUNNING)
        for name in MERGED
    )
    if are_sidecars:
        of = pod(init_containers=tuple(container(name, restart_policy="Always") for name in MERGED))
        merged, urgent = with_probe_results(of, PodStatus(init_container_statuses=statuses), Verdicts(PROBED))
        shown = merged.init_container_statuses
    else:
        of = pod(containers=[container(name) for name in MERGED])
        merged, urgent = with_probe_results(of, PodStatus(container_statuses=statuses), Verdicts(PROBED))
        shown = merged.container_statuses
    assert {one.name: (one.started, one.ready) for one in shown} == MERGED
    assert urgent == ("pending", "unready")


@pytest.mark.case("6.24-37 plain init containers")
@pytest.mark.parametrize(
    ("state", "ready"),
    [
        (TERMINATED, True),
        (ContainerState(terminated=ContainerStateTerminated(exit_code=42)), False),
        (WAITING, False),
        (RUNNING, False),
    ],
    ids=["exit 0", "exit 42", "waiting", "running"],
)
def test_plain_init_container_is_ready_after_success(state: ContainerState, ready: bool) -> None:
    of = pod(init_containers=(container("init"),))
    one = ContainerStatus(name="init", container_id="test://init", state=state)
    merged, urgent = with_probe_results(of, PodStatus(init_container_statuses=(one,)), Verdicts({}))
    assert merged.init_container_statuses[0].ready == ready
    assert urgent == ()
