"""Leader election by lease: of several candidates, one works.

`run` waits until it leads, then works, and stops the work if the lease could not be renewed in time, well before
another candidate may take it. A candidate that stops releases the lease. Candidates never compare clocks: each measures
how long the lease has not changed.

Upstream: staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go,
staging/src/k8s.io/client-go/tools/leaderelection/resourcelock/leaselock.go
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import TypeVar

from pykubelet.aio.backoff import Backoff, Random, system_random
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, Conflict, NotFound
from pykubelet.api.generated.coordination import Lease, LeaseSpec
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import LEASES
from pykubelet.api.serializer import to_document
from pykubelet.api.times import format_micro_time
from pykubelet.client.interface import Client, PatchType
from pykubelet.client.recorder import NORMAL, EventRecorder, reference_to

log = get_logger(__name__)

RELEASED_SECONDS = 1
"""The duration of a released lease, for candidates that do not notice that its holder is empty."""
_JITTER = 1.2
T = TypeVar("T")
_RELEASE_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionConfig:
    """Upstream's defaults: duration of the lease, deadline for renewing it, and time between attempts."""

    lease_seconds: int = 15
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        """ValueError if these values allow two leaders, or none for long."""
        if self.lease_seconds <= self.renew_seconds:
            raise ValueError("leaseDuration must be greater than renewDeadline")
        if self.renew_seconds <= self.retry_seconds * _JITTER:
            raise ValueError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.retry_seconds <= 0:
            raise ValueError("retryPeriod must be greater than zero")


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A lease and since when it has been observed unchanged."""

    spec: LeaseSpec
    since_seconds: float

    def updated(self, spec: LeaseSpec, now_seconds: float) -> "ObservedLease":
        """The observation after reading the lease again; the time starts over if it changed."""
        return self if spec == self.spec else ObservedLease(spec, now_seconds)

    def is_valid(self, now_seconds: float) -> bool:
        return self.since_seconds + (self.spec.lease_duration_seconds or 0) > now_seconds

    def is_held_by_other(self, identity: str, now_seconds: float) -> bool:
        """Whether another candidate holds a lease that has not expired."""
        holder = self.spec.holder_identity
        return bool(holder) and holder != identity and self.is_valid(now_seconds)


def claim(old: LeaseSpec | None, identity: str, timing: LeaderElectionConfig, now: datetime) -> LeaseSpec:
    """The spec that acquires or renews a lease; a change of holder is counted."""
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
    """The spec that releases a lease, so that the next candidate need not wait."""
    time = format_micro_time(now)
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=RELEASED_SECONDS,
        acquire_time=time,
        renew_time=time,
        lease_transitions=old.lease_transitions or 0,
    )


def identity_of(host_name: str, uid: str) -> str:
    """The identity of a candidate, different for each process of a host and after each restart."""
    return f"{host_name}_{uid}"


class LeadershipLostError(Exception):
    """The lease could not be renewed in time, or another candidate holds it."""


class _Attempt(Enum):
    """The result of an attempt to acquire or renew the lease."""

    HELD = auto()
    OTHERS = auto()
    UNKNOWN = auto()


class LeaderElector:
    """One candidate for one lease."""

    def __init__(
        self,
        *,
        client: Client,
        recorder: EventRecorder,
        clock: Clock,
        lease: tuple[str, str],
        identity: str,
        timing: LeaderElectionConfig | None = None,
        rand: Random = system_random,
    ) -> None:
        """`lease` is its namespace and name; `identity` must be unique among the candidates."""
        self._client, self._recorder, self._clock = client, recorder, clock
        self._namespace, self._name = lease
        self._identity, self._timing = identity, timing or LeaderElectionConfig()
        retry = self._timing.retry_seconds
        self._pause, self._rand = Backoff(first_seconds=retry, limit_seconds=retry, jitter=_JITTER), rand
        self._lease: Lease | None = None
        self._observed: ObservedLease | None = None

    @property
    def leader(self) -> str:
        """The identity of the leader, as far as known."""
        return (self._observed.spec.holder_identity or "") if self._observed is not None else ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for leadership, then run `lead` until it ends; LeadershipLostError if the lease was lost."""
        await self._acquire()
        self._report("became leader")
        try:
            await self._lead(lead)
        finally:
            self._report("stopped leading")
            await self._release()

    async def _acquire(self) -> None:
        log.info("waiting to become the leader", lease=self._name, identity=self._identity)
        while True:
            if await self._attempt() is _Attempt.HELD:
                return
            await asyncio.sleep(self._pause.delay_seconds(1, self._rand))

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Run the work under a deadline that every renewal extends."""
        failure: Exception | None = None
        async with asyncio.TaskGroup() as group:
            until = asyncio.get_running_loop().time() + self._timing.renew_seconds
            try:
                async with asyncio.timeout_at(until) as term:
                    renewal = group.create_task(self._renew(term), name=f"renewal of lease {self._name}")
                    try:
                        await lead()
                    finally:
                        renewal.cancel()
            except Exception as error:  # noqa: BLE001  raised again below: a group would wrap it
                failure = error
        if term.expired():
            raise LeadershipLostError(f"lost the lease {self._namespace}/{self._name} to lead") from failure
        if failure is not None:
            raise failure

    async def _renew(self, term: asyncio.Timeout) -> None:
        """Extend the deadline as long as the lease can be renewed."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._timing.retry_seconds)
            # Counted from the request: the response may have taken long.
            asked = loop.time()
            attempt = await self._attempt()
            if attempt is _Attempt.HELD:
                term.reschedule(asked + self._timing.renew_seconds)
            elif attempt is _Attempt.OTHERS:
                term.reschedule(asked)
                return

    async def _attempt(self) -> _Attempt:
        """Acquire or renew the lease if possible."""
        try:
            async with asyncio.timeout(self._timing.renew_seconds / 2):
                return await self._renewed_as_known() or await self._taken()
        except (ApiError, TimeoutError) as error:
            log.warning("leader lease not renewed", lease=self._name, cause=str(error) or "no answer in time")
            return _Attempt.UNKNOWN

    async def _renewed_as_known(self) -> _Attempt | None:
        """Renew a held lease without reading it first; None if it is not held or has changed."""
        lease, observed = self._lease, self._observed
        if lease is None or observed is None or observed.spec.holder_identity != self._identity:
            return None
        if not observed.is_valid(self._clock.monotonic()):
            return None
        with suppress(ApiError):
            return await self._write(lease, claim(observed.spec, self._identity, self._timing, self._clock.now()))
        return None

    async def _taken(self) -> _Attempt:
        """Read the lease and acquire it if no other candidate holds it."""
        now = self._clock.monotonic()
        try:
            lease = await self._client.get(LEASES, self._name, namespace=self._namespace)
        except NotFound:
            return await self._create()
        self._lease = lease
        self._observed = (
            self._observed.updated(lease.spec, now) if self._observed is not None else ObservedLease(lease.spec, now)
        )
        if self._observed.is_held_by_other(self._identity, now):
            return _Attempt.OTHERS
        return await self._write(lease, claim(lease.spec, self._identity, self._timing, self._clock.now()))

    async def _create(self) -> _Attempt:
        spec = claim(None, self._identity, self._timing, self._clock.now())
        body = Lease(metadata=ObjectMeta(name=self._name, namespace=self._namespace), spec=spec)
        now = self._clock.monotonic()
        self._lease = await self._client.create(LEASES, body, namespace=self._namespace)
        self._observed = ObservedLease(self._lease.spec, now)
        return _Attempt.HELD

    async def _write(self, lease: Lease, spec: LeaseSpec) -> _Attempt:
        """Write the lease as it was read; Conflict if another candidate was faster."""
        metadata = {"uid": lease.metadata.uid, "resourceVersion": lease.metadata.resource_version}
        now = self._clock.monotonic()
        self._lease = await self._client.patch(
            LEASES,
            self._name,
            {"metadata": metadata, "spec": to_document(spec)},
            namespace=self._namespace,
            patch_type=PatchType.MERGE,
        )
        self._observed = ObservedLease(self._lease.spec, now)
        return _Attempt.HELD

    async def _release(self) -> None:
        """Release the lease if it is held; if that fails, it expires."""
        try:
            async with asyncio.timeout(self._timing.renew_seconds):
                for _ in range(_RELEASE_TRIES):
                    if await self._is_released():
                        return
        except (ApiError, TimeoutError) as error:
            log.warning("leader lease not released", lease=self._name, cause=str(error) or "no answer in time")

    async def _is_released(self) -> bool:
        """One attempt; False if one of our own unfinished renewals came in between."""
        lease = await self._client.get(LEASES, self._name, namespace=self._namespace)
        if lease.spec.holder_identity != self._identity:
            return True
        try:
            await self._write(lease, release(lease.spec, self._clock.now()))
        except Conflict:
            return False
        return True

    def _report(self, what: str) -> None:
        log.info(what, lease=self._name, identity=self._identity)
        if self._lease is not None:
            self._recorder.event(reference_to(self._lease), NORMAL, "LeaderElection", f"{self._identity} {what}")
