"""The times of the resize conditions."""

from pykubelet.api.generated.core import PodCondition, PodStatus
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.status.cache import ResizeConditions
from pykubelet.testing.build import pod
from pykubelet.testing.virtual_time import ManualClock

UID = PodUid("uid-default-web")
START, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def dates(resizes: ResizeConditions) -> list[tuple[str | None, str | None]]:
    return [(one.last_probe_time, one.last_transition_time) for one in resizes.of(UID)]


def test_transition_time_moves_only_when_the_reason_changes() -> None:
    """Each call updates the probe time; only another reason is a transition."""
    clock = ManualClock()
    resizes = ResizeConditions(clock)
    resizes.set_pending(UID, reason="Deferred", message="", generation=1)
    resizes.set_in_progress(UID, reason="", message="", generation=1)
    clock.advance(60)
    resizes.set_pending(UID, reason="Deferred", message="still", generation=2)
    resizes.set_in_progress(UID, reason="Error", message="", generation=2)
    assert dates(resizes) == [(LATER, START), (LATER, LATER)]
    assert [one.observed_generation for one in resizes.of(UID)] == [2, 1]


def test_backfill_takes_nothing_else_over() -> None:
    """Only resize conditions are taken from the API."""
    resizes = ResizeConditions(ManualClock())
    resizes.backfill([pod(status=PodStatus(conditions=(PodCondition(type="Ready", status="True"),)))])
    assert resizes.of(UID) == ()
