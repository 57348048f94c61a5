"""Who leads: what a lease says, and what a candidate may write into it.

Pure. A candidate never compares its clock with another's: it measures how long a lease has not changed before its own
eyes. Upstream: staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go.
"""

from dataclasses import dataclass
from datetime import datetime

from pykubelet.api.generated.coordination import LeaseSpec
from pykubelet.api.times import format_micro_time

RELEASED_SECONDS = 1
"""A lease that was let go lasts this long, for those who do not see that nobody holds it."""
_JITTER = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Upstream's numbers: how long a lease lasts, when its holder gives up renewing it, how often it is tried."""

    lease_seconds: int = 15
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        """ValueError if there could be two leaders, or none for long."""
        if self.lease_seconds <= self.renew_seconds:
            raise ValueError("leaseDuration must be greater than renewDeadline")
        if self.renew_seconds <= self.retry_seconds * _JITTER:
            raise ValueError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.retry_seconds <= 0:
            raise ValueError("retryPeriod must be greater than zero")


@dataclass(frozen=True, slots=True)
class Sighting:
    """A lease as it was last seen, and since when it has been so."""

    spec: LeaseSpec
    since_seconds: float

    def updated(self, spec: LeaseSpec, now_seconds: float) -> "Sighting":
        """The same if nothing has changed; the time starts over if something has."""
        return self if spec == self.spec else Sighting(spec, now_seconds)

    def is_valid(self, now_seconds: float) -> bool:
        """Whether the lease has not run out."""
        return self.since_seconds + (self.spec.lease_duration_seconds or 0) > now_seconds

    def is_held_by_other(self, identity: str, now_seconds: float) -> bool:
        """Whether somebody else leads."""
        holder = self.spec.holder_identity
        return bool(holder) and holder != identity and self.is_valid(now_seconds)


def claim(old: LeaseSpec | None, identity: str, timing: Timing, now: datetime) -> LeaseSpec:
    """What a holder writes, new or again; a change of holders is counted."""
    time = format_micro_time(now)
    is_ours = old is not None and old.holder_identity == identity
    transitions = (old.lease_transitions or 0) if old is not None else 0
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=timing.lease_seconds,
        acquire_time=old.acquire_time if is_ours and old is not None and old.acquire_time else time,
        renew_time=time,
        lease_transitions=transitions if is_ours or old is None else transitions + 1,
    )


def release(old: LeaseSpec, now: datetime) -> LeaseSpec:
    """What a holder writes who leads no longer: the next one need not wait."""
    time = format_micro_time(now)
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=RELEASED_SECONDS,
        acquire_time=time,
        renew_time=time,
        lease_transitions=old.lease_transitions or 0,
    )


def identity_of(host_name: str, uid: str) -> str:
    """The name of a candidate: two on one host, or one after a restart, are different ones."""
    return f"{host_name}_{uid}"
