"""Leader election by lease: of several that could work, one does.

In: a lease that all candidates know. Out: `run` waits until it leads, works, and ends the work when the lease could not
be renewed in time, well before anybody else may take it. Who stops lets the lease go, so that the next one starts at once.
Upstream: staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go, resourcelock/leaselock.go.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Protocol, TypeVar

from pykubelet.aio.backoff import Backoff, Random, system_random
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, Conflict, NotFound
from pykubelet.api.generated.coordination import Lease, LeaseSpec
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.typed import LEASES, Kind
from pykubelet.api.wire import to_document
from pykubelet.kube.client import PatchType
from pykubelet.kube.leader_plan import Sighting, Timing, claim, release
from pykubelet.kube.recorder import NORMAL, EventRecorder, reference_to

T = TypeVar("T")
log = get_logger(__name__)

_JITTER = 1.2
_RELEASE_TRIES = 3


class LeaseClient(Protocol):
    """What is needed of an API server."""

    async def get(self, kind: Kind[T], name: str, *, namespace: str = "") -> T:
        """One object; NotFound if there is none."""

    async def create(self, kind: Kind[T], body: T, *, namespace: str = "") -> T:
        """Create an object; AlreadyExists if the name is taken."""

    async def patch(
        self, kind: Kind[T], name: str, body: Any, *, namespace: str = "", patch_type: PatchType = PatchType.STRATEGIC
    ) -> T:
        """Change an object; Conflict if it is not of the version that the body names."""


class LeadershipLostError(Exception):
    """The lease could not be renewed in time, or somebody else has it."""


class _Attempt(Enum):
    """What came of a try to get or renew the lease."""

    HELD = auto()
    OTHERS = auto()
    UNKNOWN = auto()


class LeaderElector:
    """One candidate for one lease."""

    def __init__(
        self,
        *,
        client: LeaseClient,
        recorder: EventRecorder,
        clock: Clock,
        lease: tuple[str, str],
        identity: str,
        timing: Timing | None = None,
        rand: Random = system_random,
    ) -> None:
        """`lease` is its namespace and name; `identity` must be nobody else's."""
        self._client, self._recorder, self._clock = client, recorder, clock
        self._namespace, self._name = lease
        self._identity, self._timing = identity, timing or Timing()
        retry = self._timing.retry_seconds
        self._pause, self._rand = Backoff(first_seconds=retry, limit_seconds=retry, jitter=_JITTER), rand
        self._lease: Lease | None = None
        self._seen: Sighting | None = None

    @property
    def leader(self) -> str:
        """Who leads, as far as known."""
        return (self._seen.spec.holder_identity or "") if self._seen is not None else ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait until we lead, then lead until `lead` ends, or we are cancelled; LeadershipLostError if it was ended."""
        await self._acquire()
        self._tell("became leader")
        try:
            await self._lead(lead)
        finally:
            self._tell("stopped leading")
            await self._release()

    async def _acquire(self) -> None:
        log.info("waiting to become the leader", lease=self._name, identity=self._identity)
        while True:
            if await self._attempt() is _Attempt.HELD:
                return
            await asyncio.sleep(self._pause.delay_seconds(1, self._rand))

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Work under a deadline that every renewal moves."""
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
        """Move the end of the term as long as the lease can be renewed."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._timing.retry_seconds)
            # From when it was asked for: the answer may have taken long.
            asked = loop.time()
            attempt = await self._attempt()
            if attempt is _Attempt.HELD:
                term.reschedule(asked + self._timing.renew_seconds)
            elif attempt is _Attempt.OTHERS:
                term.reschedule(asked)
                return

    async def _attempt(self) -> _Attempt:
        """Get or renew the lease, if it is to be had."""
        try:
            async with asyncio.timeout(self._timing.renew_seconds / 2):
                return await self._renewed_as_known() or await self._taken()
        except (ApiError, TimeoutError) as error:
            log.warning("lease to lead not renewed", lease=self._name, cause=str(error) or "no answer in time")
            return _Attempt.UNKNOWN

    async def _renewed_as_known(self) -> _Attempt | None:
        """Renew what we hold without asking first; None if we do not, or it has changed meanwhile."""
        lease, seen = self._lease, self._seen
        if lease is None or seen is None or seen.spec.holder_identity != self._identity:
            return None
        if not seen.is_valid(self._clock.monotonic()):
            return None
        with suppress(ApiError):
            return await self._write(lease, claim(seen.spec, self._identity, self._timing, self._clock.now()))
        return None

    async def _taken(self) -> _Attempt:
        """Look at the lease, and take it if nobody else holds it."""
        now = self._clock.monotonic()
        try:
            lease = await self._client.get(LEASES, self._name, namespace=self._namespace)
        except NotFound:
            return await self._create()
        self._lease = lease
        self._seen = self._seen.updated(lease.spec, now) if self._seen is not None else Sighting(lease.spec, now)
        if self._seen.is_held_by_other(self._identity, now):
            return _Attempt.OTHERS
        return await self._write(lease, claim(lease.spec, self._identity, self._timing, self._clock.now()))

    async def _create(self) -> _Attempt:
        spec = claim(None, self._identity, self._timing, self._clock.now())
        body = Lease(metadata=ObjectMeta(name=self._name, namespace=self._namespace), spec=spec)
        now = self._clock.monotonic()
        self._lease = await self._client.create(LEASES, body, namespace=self._namespace)
        self._seen = Sighting(self._lease.spec, now)
        return _Attempt.HELD

    async def _write(self, lease: Lease, spec: LeaseSpec) -> _Attempt:
        """Write the lease as it was read; Conflict if somebody else was faster."""
        metadata = {"uid": lease.metadata.uid, "resourceVersion": lease.metadata.resource_version}
        now = self._clock.monotonic()
        self._lease = await self._client.patch(
            LEASES,
            self._name,
            {"metadata": metadata, "spec": to_document(spec)},
            namespace=self._namespace,
            patch_type=PatchType.MERGE,
        )
        self._seen = Sighting(self._lease.spec, now)
        return _Attempt.HELD

    async def _release(self) -> None:
        """Let the lease go, if it is ours; if that fails it runs out by itself."""
        try:
            async with asyncio.timeout(self._timing.renew_seconds):
                for _ in range(_RELEASE_TRIES):
                    if await self._is_released():
                        return
        except (ApiError, TimeoutError) as error:
            log.warning("lease to lead not let go", lease=self._name, cause=str(error) or "no answer in time")

    async def _is_released(self) -> bool:
        """One try; False if a renewal of ours that was given up came in between."""
        lease = await self._client.get(LEASES, self._name, namespace=self._namespace)
        if lease.spec.holder_identity != self._identity:
            return True
        try:
            await self._write(lease, release(lease.spec, self._clock.now()))
        except Conflict:
            return False
        return True

    def _tell(self, what: str) -> None:
        log.info(what, lease=self._name, identity=self._identity)
        if self._lease is not None:
            self._recorder.event(reference_to(self._lease), NORMAL, "LeaderElection", f"{self._identity} {what}")
