"""Cases 6.24-17 to -19 and -25: the phase of a pod, also compared with Kubernetes 1.34.11 for the same statuses."""

import json
from pathlib import Path

import pytest

from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodStatus,
)
from pykubelet.api.pods import PodUid
from pykubelet.api.serializer import Document, from_document
from pykubelet.kubelet.status.container_statuses import ContainerObservations
from pykubelet.kubelet.status.generate import StatusInputs, generate_status, pod_phase
from pykubelet.runtimes.protocol import ContainerState as RuntimeState
from pykubelet.runtimes.protocol import RuntimeContainer, RuntimePod
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import EPOCH

VECTORS = json.loads((Path(__file__).parent / "vectors/phase.json").read_text())["cases"]

UID = PodUid("uid-default-web")


@pytest.mark.parametrize("case", [pytest.param(case, id=str(case["index"])) for case in VECTORS])
def test_phase_is_upstreams(case: Document) -> None:
    phase = pod_phase(
        from_document(case["pod"], Pod),
        from_document(case["statuses"], tuple[ContainerStatus, ...]),
        is_terminal=case["pod_is_terminal"],
        has_initialized=case["pod_has_initialized"],
    )
    assert phase == case["phase"]


STATES = {
    "running": (ContainerState(running=ContainerStateRunning()), ContainerState()),
    "succeeded": (ContainerState(terminated=ContainerStateTerminated(exit_code=0)), ContainerState()),
    "failed": (ContainerState(terminated=ContainerStateTerminated(exit_code=1)), ContainerState()),
    "waiting": (ContainerState(waiting=ContainerStateWaiting()), ContainerState()),
    "again": (
        ContainerState(waiting=ContainerStateWaiting()),
        ContainerState(terminated=ContainerStateTerminated(exit_code=1)),
    ),
}


def _phase(policy: str, a: str, b: str, *, terminal: bool = False) -> str:
    """The phase of a pod with containers A and B; an empty word means that a container has no status."""
    wanted = pod(containers=[container("a"), container("b")], restart_policy=policy)
    known = {name: STATES[word] for name, word in (("a", a), ("b", b)) if word}
    statuses = [ContainerStatus(name=name, state=now, last_state=last) for name, (now, last) in known.items()]
    return pod_phase(wanted, statuses, is_terminal=terminal)


@pytest.mark.parametrize(
    ("a", "b", "terminal", "phase"),
    [
        pytest.param("", "", False, "Pending", id="6.24-17 none known"),
        pytest.param("running", "running", False, "Running", id="6.24-17 both running"),
        pytest.param("failed", "succeeded", False, "Running", id="6.24-17 both stopped"),
        pytest.param("succeeded", "succeeded", True, "Succeeded", id="6.24-17 terminal, both succeeded"),
        pytest.param("succeeded", "failed", True, "Failed", id="6.24-17 terminal, one failed"),
        pytest.param("running", "failed", False, "Running", id="6.24-17 A running, B stopped"),
        pytest.param("running", "", False, "Pending", id="6.24-17 only A known"),
        pytest.param("running", "waiting", False, "Pending", id="6.24-17 B waiting"),
        pytest.param("running", "again", False, "Running", id="6.24-17 B waiting with a last state"),
    ],
)
def test_phase_under_policy_always(a: str, b: str, terminal: bool, phase: str) -> None:
    assert _phase("Always", a, b, terminal=terminal) == phase


@pytest.mark.parametrize(
    ("policy", "a", "b", "phase"),
    [
        pytest.param("OnFailure", "succeeded", "succeeded", "Succeeded", id="6.24-18 OnFailure, all succeeded"),
        pytest.param("OnFailure", "failed", "failed", "Running", id="6.24-18 OnFailure, all failed"),
        pytest.param("OnFailure", "running", "succeeded", "Running", id="6.24-18 OnFailure, A running"),
        pytest.param("Never", "failed", "failed", "Failed", id="6.24-18 Never, all failed"),
    ],
)
def test_phase_under_other_policies(policy: str, a: str, b: str, phase: str) -> None:
    assert _phase(policy, a, b) == phase


@pytest.mark.parametrize(
    ("policy", "init", "phase"),
    [
        pytest.param("Always", "running", "Pending", id="6.24-19 plain init running"),
        pytest.param("Never", "failed", "Failed", id="6.24-19 init failed under Never"),
        pytest.param("Never", "again", "Failed", id="6.24-19 init failed under Never, waiting"),
        pytest.param("OnFailure", "failed", "Pending", id="6.24-19 init failed under OnFailure"),
    ],
)
def test_phase_while_initializing(policy: str, init: str, phase: str) -> None:
    wanted = pod(init_containers=(container("init"),), restart_policy=policy)
    now, last = STATES[init]
    assert pod_phase(wanted, [ContainerStatus(name="init", state=now, last_state=last)]) == phase


def _generated(phase: str, *, api_phase: str = "", runs: bool = True) -> PodStatus:
    """The status of a pod reported in this phase that now runs, or that the runtime does not know."""
    wanted = pod(restart_policy="OnFailure", status=PodStatus(phase=api_phase))
    main = RuntimeContainer(id="main", name="main", state=RuntimeState.RUNNING, created_at=EPOCH)
    runtime = RuntimePod(uid=UID, namespace="default", name="web", containers=(main,) if runs else ())
    seen = ContainerObservations(runtime=runtime, runtime_name="sim")
    reported = PodStatus(phase=phase, reason="Because", message="of this")
    return generate_status(wanted, StatusInputs(seen=seen, reported=reported), lambda _, status: status)


@pytest.mark.case("6.24-25 cached Succeeded stays Succeeded though the runtime says running")
@pytest.mark.case("6.24-25 the API's Succeeded as well")
def test_terminal_phase_stays() -> None:
    kept = _generated("Succeeded")
    assert (kept.phase, kept.reason, kept.message) == ("Succeeded", "Because", "of this")
    assert _generated("Running", api_phase="Failed").phase == "Failed"


@pytest.mark.case("6.24-25 Running may go back to Pending; reason and message go with the phase")
def test_reason_and_message_belong_to_the_phase() -> None:
    kept, gone = _generated("Running"), _generated("Running", runs=False)
    assert (kept.phase, kept.reason, kept.message) == ("Running", "Because", "of this")
    assert (gone.phase, gone.reason, gone.message) == ("Pending", "", "")
