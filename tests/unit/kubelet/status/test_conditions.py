"""When readiness must be reconciled, and conditions with a fixed value."""

import pytest

from pykubelet.api.generated.core import ContainerStatus, Pod, PodCondition, PodReadinessGate, PodStatus
from pykubelet.kubelet.status.conditions import need_to_reconcile_pod_readiness, pod_scheduled
from pykubelet.testing.build import container, pod

GATES = (PodReadinessGate(condition_type="gate"),)
READY = PodCondition(type="Ready", status="True")
MISSING = 'corresponding condition of pod readiness gate "gate" does not exist.'
UNREADY = PodCondition(type="Ready", status="False", message=MISSING)
OPEN = PodCondition(type="gate", status="True")


def gated(*conditions: PodCondition, sidecar: bool = False, known: bool = True) -> Pod:
    inits = (container("side", restart_policy="Always"),) if sidecar else ()
    statuses = (ContainerStatus(name="main", ready=True),) if known else ()
    status = PodStatus(conditions=conditions, container_statuses=statuses, phase="Running")
    return pod(readiness_gates=GATES, init_containers=inits, status=status)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(pod(status=PodStatus(conditions=(READY,))), False, id="no gates"),
        pytest.param(gated(OPEN), False, id="no Ready condition yet"),
        pytest.param(gated(OPEN, READY), False, id="ready as it should be"),
        pytest.param(gated(READY), True, id="ready, but the gate is gone"),
        pytest.param(gated(UNREADY), False, id="unready as it should be"),
        pytest.param(gated(OPEN, UNREADY), True, id="unready, but the gate is open"),
        pytest.param(gated(PodCondition(type="Ready", status="False")), True, id="unready for another reason"),
        pytest.param(gated(OPEN, READY, sidecar=True), True, id="a sidecar's status is not looked at"),
        pytest.param(gated(OPEN, READY, known=False), True, id="nothing is known of the containers"),
    ],
)
def test_readiness_is_reconciled_when_it_does_not_follow_from_the_rest(known: Pod, expected: bool) -> None:
    assert need_to_reconcile_pod_readiness(known) is expected


def test_pod_is_scheduled_when_it_is_here() -> None:
    """A pod that reached its node is always scheduled."""
    found = pod_scheduled(pod(), None)
    assert (found.type, found.status, found.observed_generation) == ("PodScheduled", "True", 0)
