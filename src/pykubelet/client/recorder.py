"""The event recorder: reports what happened to objects as Events, without blocking the reporter.

`run` writes the events of one object in order, and those of several objects concurrently once many wait. While the
server is unreachable a writer retries an event for two minutes; events that do not fit into the queue are dropped.
References to pods and containers are made here too.

Upstream: staging/src/k8s.io/client-go/tools/record/event.go, staging/src/k8s.io/client-go/tools/reference/ref.go,
pkg/kubelet/container/ref.go, pkg/kubelet/util/format/pod.go
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
from pykubelet.api.generated.core import Event, EventSource, ObjectReference, Pod
from pykubelet.api.scheme import EVENTS, ApiObject, TypedKind
from pykubelet.client.event_correlator import Correlation, EventCorrelator, new_event

log = get_logger(__name__)

NORMAL = "Normal"
WARNING = "Warning"
# Upstream's 1,000 overflow when a few hundred pods start at once with three or four events each.
_MAX_QUEUED = 10_000
_WRITERS = 4
# One writer is enough up to this many: events must not delay the requests that pods wait for.
_FEW = 100
_MAX_TRIES = 12
_RETRY_SECONDS = 10.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Object: TypeAlias = tuple[str, str, str, str]


class EventSink(Protocol):
    """Stores events: the part of a `Writer` that events need."""

    async def create(self, kind: TypedKind[Event], body: Event, *, namespace: str = "") -> Event:
        """Create an event and return it as stored."""

    async def patch(self, kind: TypedKind[Event], name: str, body: Any, *, namespace: str = "") -> Event:
        """Patch an event with a strategic merge patch; NotFound if it has expired."""


class EventRecorder(Protocol):
    """Reports what happened to an object as an event."""

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        """Report an event; `event_type` is NORMAL or WARNING. Never waits, never raises."""


class AnnotatingRecorder(EventRecorder, Protocol):
    """Reports events with annotations too, for programs that read events."""

    def event(
        self,
        involved: ObjectReference,
        event_type: str,
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Report an event with these annotations."""


class _Report(NamedTuple):
    """A reported event before it becomes an object: smaller, because many may wait."""

    involved: ObjectReference
    event_type: str
    reason: str
    message: str
    annotations: Mapping[str, str] | None
    at_nanoseconds: int


class Recorder:
    """Records events of one source; an AnnotatingRecorder."""

    def __init__(self, *, sink: EventSink, source: EventSource, clock: Clock, rand: Random = system_random) -> None:
        self._sink, self._source, self._clock, self._rand = sink, source, clock, rand
        self._reports: dict[_Object, deque[_Report]] = {}
        self._objects: KeyedQueue[_Object, None] = KeyedQueue()
        self._queued = 0
        self._are_many = asyncio.Event()
        self._correlator = EventCorrelator()
        self._last_microsecond = 0
        self._within_microsecond = 0
        self._unlogged_drops = 0
        self.dropped = 0
        """The number of events dropped because the queue was full."""

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
            self._unlogged_drops += 1
            return
        key = (involved.kind, involved.namespace, involved.name, involved.uid)
        report = _Report(involved, event_type, reason, message, annotations, self._nanoseconds())
        self._reports.setdefault(key, deque()).append(report)
        self._queued += 1
        if self._queued > _FEW:
            self._are_many.set()
        self._objects.put(key, None)

    async def run(self, ready: asyncio.Event) -> None:
        """Write the reported events, those of one object in order, until cancelled."""
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
                    # Queued behind the others, so that an object with many events does not delay them.
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
        if self._unlogged_drops and self._queued <= _MAX_QUEUED // 2:
            # Logged once per burst, when it is over.
            log.warning("too many queued events, some were dropped", dropped=self._unlogged_drops)
            self._unlogged_drops = 0
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
                    # The first wait is random, so that many nodes do not retry in step.
                    await asyncio.sleep(_RETRY_SECONDS * (self._rand() if tries == 1 else 1))
            except ApiError as error:
                # A response is final: the client already honoured Retry-After.
                is_expected = isinstance(error, AlreadyExists) or error.has_cause("NamespaceTerminating")
                (log.debug if is_expected else log.warning)("server rejected event", cause=str(error), **facts)
                return
            else:
                self._correlator.update_state(written)
                return
        log.error("event dropped after too many attempts", tries=_MAX_TRIES, **facts)

    async def _write(self, correlation: Correlation) -> Event:
        event = correlation.event
        name, namespace = event.metadata.name, event.metadata.namespace
        if correlation.patch is not None:
            try:
                return await self._sink.patch(EVENTS, name, correlation.patch, namespace=namespace)
            except NotFound:
                log.debug("event expired, creating it again", **_facts(event))
        first = replace(event, metadata=replace(event.metadata, resource_version=""))
        return await self._sink.create(EVENTS, first, namespace=namespace)

    def _nanoseconds(self) -> int:
        """The current time, never the same twice in a row, because event names are made of it."""
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
    """Writes events to the log, for a node without an API server; an AnnotatingRecorder."""

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


def container_reference(pod: Pod, name: str) -> ObjectReference:
    """A reference to a container of a pod; one that its spec does not list is implicitly required by it."""
    spec = pod.spec
    for field, containers in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        if any(container.name == name for container in containers):
            return replace(reference_to(pod), field_path=f"spec.{field}{{{name}}}")
    return replace(reference_to(pod), field_path=f"implicitly required container {name}")


def format_pod(pod: Pod) -> str:
    """A pod in messages: `name_namespace(uid)`."""
    metadata = pod.metadata
    return f"{metadata.name}_{metadata.namespace}({metadata.uid})"


def without_id(message: str, container_id: str, name: str) -> str:
    """A message with the container's name in place of its id, so that repeated events are aggregated."""
    return message.replace(container_id, name) if container_id else message
