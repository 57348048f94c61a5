"""Which statuses are sent first."""

import pytest
from msgspec.structs import replace

from pykubelet.api.generated.core import Pod, PodCondition, PodStatus
from pykubelet.kubelet.status.status_manager import StatusUrgency, urgency_of
from pykubelet.testing.build import pod

READY = PodStatus(phase="Running", conditions=(PodCondition(type="Ready", status="True"),))
UNREADY = PodStatus(phase="Running", conditions=(PodCondition(type="Ready", status="False"),))
LEAVING = replace(pod(), metadata=replace(pod().metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


@pytest.mark.parametrize(
    ("known", "old", "new", "finished", "expected"),
    [
        pytest.param(pod(), READY, PodStatus(phase="Succeeded"), False, StatusUrgency.END, id="ended"),
        pytest.param(LEAVING, READY, READY, False, StatusUrgency.END, id="being deleted"),
        pytest.param(pod(), READY, READY, True, StatusUrgency.END, id="finished"),
        pytest.param(pod(), PodStatus(), READY, False, StatusUrgency.READINESS, id="first ready"),
        pytest.param(pod(), READY, UNREADY, False, StatusUrgency.READINESS, id="ready no more"),
        pytest.param(pod(), READY, PodStatus(), False, StatusUrgency.READINESS, id="readiness unknown"),
        pytest.param(pod(), PodStatus(), UNREADY, False, StatusUrgency.OTHER, id="not ready yet"),
        pytest.param(pod(), READY, replace(READY, pod_ip="10.0.0.1"), False, StatusUrgency.OTHER, id="something else"),
    ],
)
def test_urgency_depends_on_the_kind_of_change(
    known: Pod, old: PodStatus, new: PodStatus, finished: bool, expected: StatusUrgency
) -> None:
    assert urgency_of(known, old, new, finished=finished) is expected
