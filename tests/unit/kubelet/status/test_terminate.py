"""Whether a pod's status proves that it was initialized, and its final status."""

import pytest

from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateWaiting,
    ContainerStatus,
    PodStatus,
)
from pykubelet.kubelet.status.status_manager import final_status, has_initialized
from pykubelet.testing.build import container, pod, static_pod

RUNNING = ContainerState(running=ContainerStateRunning())
WAITING = ContainerState(waiting=ContainerStateWaiting())
SIDECAR = ContainerStatus(name="side", state=RUNNING, started=True)


@pytest.mark.parametrize(
    ("inits", "expected"),
    [
        pytest.param((), False, id="no statuses"),
        pytest.param((SIDECAR,), True, id="the sidecar has started"),
        pytest.param((ContainerStatus(name="side", state=RUNNING),), False, id="the sidecar runs, but has not started"),
        pytest.param((ContainerStatus(name="side", state=WAITING, started=True),), False, id="the sidecar waits"),
        pytest.param((ContainerStatus(name="other", state=RUNNING, started=True),), False, id="another name"),
        pytest.param((SIDECAR, SIDECAR), False, id="more statuses than containers"),
    ],
)
def test_sidecar_proves_initialization_when_it_has_started(inits: tuple[ContainerStatus, ...], expected: bool) -> None:
    status = PodStatus(init_container_statuses=inits, container_statuses=(ContainerStatus(name="main", state=WAITING),))
    known = pod(init_containers=(container("side", restart_policy="Always"),), status=status)
    assert has_initialized(known) is expected


def test_static_pod_keeps_its_phase_when_it_is_terminated() -> None:
    """Its mirror is deleted whatever the phase."""
    assert final_status(static_pod(), PodStatus(phase="Running")).phase == "Running"
