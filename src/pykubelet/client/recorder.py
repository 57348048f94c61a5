"""Tells the API server what happened, as Events, without ever holding up who tells.

In: facts about objects, from anywhere on the loop. Out: Events, written by `run`: those of one object one after the
other, of several objects side by side once many wait. A server that cannot be reached holds a writer up for two minutes
per event, and what does not fit in the queue is dropped.

Upstream: staging/src/k8s.io/client-go/tools/record/event.go, tools/reference/ref.go

Tells the log what an API server would be told: for a node without one.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec.structs import replace

from pykubelet.aio.backoff import Random, system_random
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.errors import AlreadyExists, ApiError, NotFound, NotReached
from pykubelet.api.generated.core import Event, EventSource, ObjectReference
from pykubelet.api.scheme import EVENTS, ApiObject, TypedKind
from pykubelet.client.event_correlator import Correlation, EventCorrelator, new_event

log = get_logger(__name__)

NORMAL = "Normal"
WARNING = "Warning"

# Upstream's 1,000 are gone when a few hundred pods start at once, of each of which three or four things are told.
_MAX_QUEUED = 10_000
_WRITERS = 4
# As long as no more wait, one writer is enough: events must not hold up what pods wait for.
_FEW = 100
_MAX_TRIES = 12
_RETRY_SECONDS = 10.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventSink(Protocol):
    """Where events are written: the part of a `Writer` that they need."""

    async def create(self, kind: TypedKind[Event], body: Event, *, namespace: str = "") -> Event:
        """Create an event; the answer is what the server stored."""

    async def patch(self, kind: TypedKind[Event], name: str, body: Any, *, namespace: str = "") -> Event:
        """Change an event by a strategic merge patch; NotFound if it has expired."""


class EventRecorder(Protocol):
    """Tells users what happened to an object: what most callers need of a `Recorder`."""

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        """Report it as an event on the object; `event_type` is NORMAL or WARNING. Never waits, never raises."""


class AnnotatingRecorder(EventRecorder, Protocol):
    """One that also takes annotations, for machines that read events."""

    def event(
        self,
        involved: ObjectReference,
        event_type: str,
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Report it, with these annotations on the event."""


class _Report(NamedTuple):
    """What somebody told: less than an event, for many may wait."""

    involved: ObjectReference
    event_type: str
    reason: str
    message: str
    annotations: Mapping[str, str] | None
    at_nanoseconds: int


_Object: TypeAlias = tuple[str, str, str, str]


class Recorder:
    """Records events on behalf of one source; an AnnotatingRecorder."""

    def __init__(self, *, sink: EventSink, source: EventSource, clock: Clock, rand: Random = system_random) -> None:
        self._sink, self._source, self._clock, self._rand = sink, source, clock, rand
        self._reports: dict[_Object, deque[_Report]] = {}
        self._objects: KeyedQueue[_Object, None] = KeyedQueue()
        self._queued = 0
        self._are_many = asyncio.Event()
        self._correlator = EventCorrelator()
        self._last_microsecond = 0
        self._within_microsecond = 0
        self._untold_drops = 0
        self.dropped = 0
        """How many events found the queue full."""

    def event(
        self,
        involved: ObjectReference,
        event_type: str,
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        if event_type not in {NORMAL, WARNING}:
            log.error("unsupported event type", event_type=event_type, reason=reason)
            return
        if self._queued >= _MAX_QUEUED:
            self.dropped += 1
            self._untold_drops += 1
            return
        key = (involved.kind, involved.namespace, involved.name, involved.uid)
        report = _Report(involved, event_type, reason, message, annotations, self._nanoseconds())
        self._reports.setdefault(key, deque()).append(report)
        self._queued += 1
        if self._queued > _FEW:
            self._are_many.set()
        self._objects.put(key, None)

    async def run(self, ready: asyncio.Event) -> None:
        """Write what is reported, of each object in order, until cancelled."""
        async with asyncio.TaskGroup() as group:
            start_supervised(group, "event writer", self._write_reports)
            for number in range(1, _WRITERS):
                start_supervised(group, f"event writer {number}", partial(self._write_reports, self._are_many))
            ready.set()

    async def _write_reports(self, is_needed: asyncio.Event | None = None) -> None:
        while True:
            if is_needed is not None:
                await is_needed.wait()
            key, _ = await self._objects.get()
            try:
                await self._write_report(self._take(key))
            finally:
                if key in self._reports:
                    # Behind the others: one object of which much is told holds up nobody.
                    self._objects.put(key, None)
                self._objects.done(key)

    def _take(self, key: _Object) -> _Report:
        line = self._reports[key]
        report = line.popleft()
        if not line:
            del self._reports[key]
        self._queued -= 1
        if self._queued <= _FEW:
            self._are_many.clear()
        if self._untold_drops and self._queued <= _MAX_QUEUED // 2:
            # Once for a burst, when it is over.
            log.warning("too many queued events, some were dropped", dropped=self._untold_drops)
            self._untold_drops = 0
        return report

    async def _write_report(self, report: _Report) -> None:
        involved, event_type, reason, message, annotations, at = report
        event = new_event(involved, event_type, reason, message, source=self._source, now_nanoseconds=at)
        if annotations:
            event = replace(event, metadata=replace(event.metadata, annotations=annotations))
        correlation = self._correlator.correlate(event, self._nanoseconds())
        if correlation is not None:
            await self._write_with_retries(correlation)

    async def _write_with_retries(self, correlation: Correlation) -> None:
        facts = _facts(correlation.event)
        for tries in range(1, _MAX_TRIES + 1):
            try:
                written = await self._write(correlation)
            except NotReached as error:
                log.warning("event not written, server not reached", tries=tries, cause=str(error), **facts)
                if tries < _MAX_TRIES:
                    # The first wait is random, so that many nodes do not come back in step.
                    await asyncio.sleep(_RETRY_SECONDS * (self._rand() if tries == 1 else 1))
            except ApiError as error:
                # An answer is final: the client has waited already where the server asked for it.
                is_expected = isinstance(error, AlreadyExists) or error.has_cause("NamespaceTerminating")
                (log.debug if is_expected else log.warning)("server rejected event", cause=str(error), **facts)
                return
            else:
                self._correlator.update_state(written)
                return
        log.error("event given up, too many tries", tries=_MAX_TRIES, **facts)

    async def _write(self, correlation: Correlation) -> Event:
        event = correlation.event
        name, namespace = event.metadata.name, event.metadata.namespace
        if correlation.patch is not None:
            try:
                return await self._sink.patch(EVENTS, name, correlation.patch, namespace=namespace)
            except NotFound:
                log.debug("event expired meanwhile, created anew", **_facts(event))
        first = replace(event, metadata=replace(event.metadata, resource_version=""))
        return await self._sink.create(EVENTS, first, namespace=namespace)

    def _nanoseconds(self) -> int:
        """The time; never the same twice in a row, for the names of events are made of it."""
        microsecond = (self._clock.now() - _EPOCH) // timedelta(microseconds=1)
        is_same = microsecond == self._last_microsecond
        self._within_microsecond = self._within_microsecond + 1 if is_same else 0
        self._last_microsecond = microsecond
        return microsecond * 1000 + self._within_microsecond


def reference_to(involved: ApiObject) -> ObjectReference:
    """A reference to an object, for events about it."""
    metadata = involved.metadata
    return ObjectReference(
        api_version=involved.api_version,
        kind=involved.kind,
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def _facts(event: Event) -> dict[str, Any]:
    involved = event.involved_object
    return {"object": f"{involved.kind} {involved.namespace}/{involved.name}", "reason": event.reason}


class LogRecorder:
    """Writes events to the log; an AnnotatingRecorder."""

    def event(
        self,
        involved: ObjectReference,
        event_type: str,
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        object_name = "/".join(filter(None, (involved.namespace, involved.name)))
        write = log.warning if event_type == WARNING else log.info
        write("event", object=f"{involved.kind} {object_name}", reason=reason, event=message, **(annotations or {}))
