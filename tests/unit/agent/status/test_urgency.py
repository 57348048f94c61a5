"""Which status goes first."""

import pytest
from msgspec.structs import replace

from pykubelet.agent.status.urgency import Urgency, urgency_of
from pykubelet.api.generated.core import Pod, PodCondition, PodStatus
from pykubelet.testing.build import pod

READY = PodStatus(phase="Running", conditions=(PodCondition(type="Ready", status="True"),))
UNREADY = PodStatus(phase="Running", conditions=(PodCondition(type="Ready", status="False"),))
LEAVING = replace(pod(), metadata=replace(pod().metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


@pytest.mark.parametrize(
    ("known", "old", "new", "finished", "expected"),
    [
        pytest.param(pod(), READY, PodStatus(phase="Succeeded"), False, Urgency.END, id="ended"),
        pytest.param(LEAVING, READY, READY, False, Urgency.END, id="being deleted"),
        pytest.param(pod(), READY, READY, True, Urgency.END, id="finished"),
        pytest.param(pod(), PodStatus(), READY, False, Urgency.READINESS, id="first ready"),
        pytest.param(pod(), READY, UNREADY, False, Urgency.READINESS, id="ready no more"),
        pytest.param(pod(), READY, PodStatus(), False, Urgency.READINESS, id="readiness unknown"),
        pytest.param(pod(), PodStatus(), UNREADY, False, Urgency.OTHER, id="not ready yet"),
        pytest.param(pod(), READY, replace(READY, pod_ip="10.0.0.1"), False, Urgency.OTHER, id="something else"),
    ],
)
def test_urgency_is_what_others_wait_for(
    known: Pod, old: PodStatus, new: PodStatus, finished: bool, expected: Urgency
) -> None:
    assert urgency_of(known, old, new, finished=finished) is expected
