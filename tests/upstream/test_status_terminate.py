"""Cases 3.16-18 to 3.16-27: the last status of a pod.

Containers are written as their state and, after a slash, their last state: W waiting, R running, `-` none, a number
for terminated with that exit code, U for terminated with an unknown exit code.
"""

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
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.status.status_manager import UNKNOWN, StatusManager, final_status
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import ManualClock


class Safety:
    """Reports that nothing runs and that all resources are reclaimed."""

    def could_have_running_containers(self, _: PodUid, /) -> bool:
        return False

    def pod_resources_are_reclaimed(self, _pod: Pod, _status: PodStatus, /) -> bool:
        return True


def state(text: str) -> ContainerState:
    match text:
        case "W":
            return ContainerState(waiting=ContainerStateWaiting())
        case "R":
            return ContainerState(running=ContainerStateRunning())
        case "U":
            return UNKNOWN
        case "-" | "":
            return ContainerState()
    return ContainerState(terminated=ContainerStateTerminated(reason="Test", exit_code=int(text)))


def statuses(text: str, prefix: str) -> tuple[ContainerStatus, ...]:
    found = []
    for index, one in enumerate(text.split()):
        now, _, last = one.partition("/")
        found.append(ContainerStatus(name=f"{prefix}{index}", state=state(now), last_state=state(last)))
    return tuple(found)


def status_of(inits: str, regulars: str, phase: str = "Running") -> PodStatus:
    return PodStatus(
        phase=phase,
        message="a message",
        init_container_statuses=statuses(inits, "init-"),
        container_statuses=statuses(regulars, ""),
    )


def pod_of(inits: str, regulars: str, phase: str = "Running") -> Pod:
    return pod(
        "foo",
        init_containers=tuple(container(f"init-{index}") for index in range(len(inits.split()))),
        containers=[container(str(index)) for index in range(len(regulars.split()))],
        restart_policy="Never",
        status=status_of(inits, regulars, phase),
    )


@pytest.mark.parametrize(
    ("cached", "expected"),
    [
        pytest.param(("- 0 3", "- 2 0"), ("U 0 3", "U 2 0"), id="3.16-18 cached Failed, the pod object is stale"),
        pytest.param(("- 0 W", "- 2 W"), ("U 0 W", "U 2 U"), id="3.16-19 the third ones wait"),
    ],
)
def test_cached_status_is_completed_and_its_phase_preserved(cached: tuple[str, str], expected: tuple[str, str]) -> None:
    stale = pod_of("- 0 0", "R R R")
    manager = StatusManager(client=None, pods=PodManager(), safety=Safety(), clock=ManualClock())
    fresh = pod_of("- - -", "- - -")
    manager.set_pod_status(fresh, status_of(*cached, phase="Failed"))
    manager.terminate_pod(stale)
    last = manager.pod_status(stale.metadata.uid)
    assert last is not None
    wanted = status_of(*expected, phase="Failed")
    assert last.container_statuses == wanted.container_statuses
    assert last.init_container_statuses == wanted.init_container_statuses
    assert (last.phase, last.message) == ("Failed", "a message")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(("", "W/2"), ("", "U/2"), id="3.16-20 a last state is kept"),
        pytest.param(("", "W"), ("", "U"), id="3.16-20 no previous state"),
        pytest.param(("W", "W"), ("U", "W"), id="3.16-21 uninitialized, one init container"),
        pytest.param(("W W", "W"), ("U W", "W"), id="3.16-21 uninitialized, two init containers"),
        pytest.param(("W W 1 W", "W"), ("U U 1 W", "W"), id="3.16-22 the third init container failed"),
        pytest.param(("W W 1", "W"), ("U U 1", "W"), id="3.16-23 the last init container failed"),
        pytest.param(("W W 0", "W"), ("U U 0", "U"), id="3.16-24 the last init container succeeded"),
        pytest.param(("W W W/0", "W"), ("U U U/0", "U"), id="3.16-25 the last init container had succeeded"),
        pytest.param(("W", "R"), ("U", "U"), id="3.16-26 a running container proves initialization"),
        pytest.param(("W", "0"), ("U", "0"), id="3.16-26 a terminated container proves initialization"),
        pytest.param(("W", "W/0"), ("U", "U/0"), id="3.16-26 a last state proves initialization"),
    ],
)
def test_missing_containers_count_as_failed(given: tuple[str, str], expected: tuple[str, str]) -> None:
    known = pod_of(*given)
    assert final_status(known, known.status) == status_of(*expected, phase="Failed")


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        pytest.param("Pending", "Failed", id="3.16-27 Pending"),
        pytest.param("Running", "Failed", id="3.16-27 Running"),
        pytest.param("Unknown", "Failed", id="3.16-27 Unknown"),
        pytest.param("SomeUnknownPhase", "Failed", id="3.16-27 an unknown one"),
        pytest.param("Succeeded", "Succeeded", id="3.16-27 Succeeded"),
        pytest.param("Failed", "Failed", id="3.16-27 Failed"),
    ],
)
def test_last_phase_is_terminal(phase: str, expected: str) -> None:
    known = pod_of("", "R", phase)
    assert final_status(known, known.status).phase == expected
