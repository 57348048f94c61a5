"""Leader election: how candidates read and write leases."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.coordination import LeaseSpec
from pykubelet.client.leaderelection import LeaderElectionConfig, ObservedLease, claim, identity_of, release

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIME = "2026-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("timing", "message"),
    [
        ({"lease_seconds": 10, "renew_seconds": 10}, "leaseDuration must be greater than renewDeadline"),
        ({"renew_seconds": 2.4}, "renewDeadline must be greater than retryPeriod"),
        ({"retry_seconds": 0}, "retryPeriod must be greater than zero"),
    ],
)
def test_timings_that_allow_two_leaders_or_none_are_rejected(timing: dict[str, float], message: str) -> None:
    """A leader must give up before its lease expires."""
    with pytest.raises(ValueError, match=message):
        LeaderElectionConfig(**timing)  # type: ignore[arg-type]


def test_claim_counts_transitions_and_keeps_the_acquire_time_of_its_own_lease() -> None:
    """For a new lease, the candidate's own, and that of another candidate."""
    first = claim(None, "a", LeaderElectionConfig(), NOW)
    assert first == LeaseSpec(
        holder_identity="a", lease_duration_seconds=15, acquire_time=TIME, renew_time=TIME, lease_transitions=0
    )
    again = claim(
        LeaseSpec(holder_identity="a", acquire_time="before", lease_transitions=4), "a", LeaderElectionConfig(), NOW
    )
    assert (again.acquire_time, again.renew_time, again.lease_transitions) == ("before", TIME, 4)
    taken = claim(first, "b", LeaderElectionConfig(), NOW)
    assert (taken.holder_identity, taken.acquire_time, taken.lease_transitions) == ("b", TIME, 1)


def test_released_lease_is_free_at_once() -> None:
    """The next candidate does not have to wait."""
    gone = release(claim(None, "a", LeaderElectionConfig(), NOW), NOW)
    assert (gone.holder_identity, gone.lease_duration_seconds, gone.lease_transitions) == ("", 1, 0)
    assert (gone.acquire_time, gone.renew_time) == (TIME, TIME)
    assert not ObservedLease(gone, 0).is_held_by_other("b", 0)
    assert identity_of("host", "uid") == "host_uid"


@settings(max_examples=100)
@given(st.floats(0, 100), st.floats(0, 100), st.sampled_from(["a", "b", "", None]))
def test_lease_is_held_by_another_until_unchanged_for_its_duration(
    since: float, later: float, holder: str | None
) -> None:
    """The observer measures the time with its own clock; every change restarts it."""
    seen = ObservedLease(LeaseSpec(holder_identity=holder, lease_duration_seconds=15), since)
    assert seen.is_held_by_other("a", since + later) == (holder == "b" and since + 15 > since + later)
    assert seen.updated(seen.spec, since + later) is seen
    renewed = LeaseSpec(holder_identity=holder, lease_duration_seconds=15, renew_time=TIME)
    assert seen.updated(renewed, since + later).since_seconds == since + later
