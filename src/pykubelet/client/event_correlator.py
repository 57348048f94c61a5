"""The event correlator: turns an event into a new object, a patch of its count, or nothing.

Repeated events increase the count of one object. Events that differ only in their message are aggregated from the tenth
within ten minutes. A source that reports too much about one object is rate limited.

Upstream: staging/src/k8s.io/client-go/tools/record/events_cache.go, staging/src/k8s.io/client-go/tools/record/event.go,
staging/src/k8s.io/client-go/tools/record/util/util.go
"""

import uuid
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from pykubelet.api.generated.core import Event, EventSource, ObjectReference
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.names import dns1123_subdomain_errors
from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time

Record = TypeVar("Record")
Key = tuple[str, ...]

_CACHE_SIZE = 4096
_MAX_SIMILAR = 10
_SIMILAR_NANOSECONDS = 600 * 10**9
SPAM_BURST = 25
"""The burst of events about one object that a source may write."""
# One in five minutes, in upstream's 32-bit float.
_REFILL_PER_SECOND = 0.0033333334140479565


@dataclass(frozen=True, slots=True)
class Correlation:
    """The event to write and, if the server already has it, the patch that updates it."""

    event: Event
    patch: Document | None = None


@dataclass(frozen=True, slots=True)
class _Observation:
    """What is remembered of a written event."""

    count: int
    first_timestamp: str | None
    name: str
    resource_version: str


class _Similar(NamedTuple):
    """The messages of otherwise equal events, and the time of the last one."""

    messages: set[str]
    last_nanoseconds: int


class _Bucket(NamedTuple):
    """A token bucket: the events a source may still write about an object, as of a time."""

    tokens: float
    last_nanoseconds: int


class _RecentRecords(Generic[Record]):
    """An LRU cache of records by key."""

    def __init__(self) -> None:
        self._records: OrderedDict[Key, Record] = OrderedDict()

    def get(self, key: Key) -> Record | None:
        if key not in self._records:
            return None
        self._records.move_to_end(key)
        return self._records[key]

    def put(self, key: Key, record: Record) -> None:
        self._records[key] = record
        self._records.move_to_end(key)
        if len(self._records) > _CACHE_SIZE:
            self._records.popitem(last=False)


class EventCorrelator:
    """Remembers recent events and decides what to write for new ones. Owned by one task."""

    def __init__(self) -> None:
        self._similar: _RecentRecords[_Similar] = _RecentRecords()
        self._observations: _RecentRecords[_Observation] = _RecentRecords()
        self._buckets: _RecentRecords[_Bucket] = _RecentRecords()

    def correlate(self, event: Event, now_nanoseconds: int) -> Correlation | None:
        """The write for an event; None if its source exceeds its rate limit for the object."""
        combined, key = self._combined(event, now_nanoseconds)
        correlation = self._counted(combined, key)
        return correlation if self._is_within_budget(correlation.event, now_nanoseconds) else None

    def update_state(self, written: Event) -> None:
        """Remember the event as the server stored it, so that the next patch applies to it."""
        self._observations.put(_event_key(written), _observation(written))

    def _combined(self, event: Event, now_nanoseconds: int) -> tuple[Event, Key]:
        """The event or its aggregate, and the key under which it is counted."""
        key = _similarity_key(event)
        known = self._similar.get(key)
        is_stale = known is None or now_nanoseconds - known.last_nanoseconds > _SIMILAR_NANOSECONDS
        messages: set[str] = set() if known is None or is_stale else known.messages
        self._similar.put(key, _Similar(messages, now_nanoseconds))
        if event.message not in messages and len(messages) == _MAX_SIMILAR - 1:
            return _combination(event, now_nanoseconds), key
        messages.add(event.message)
        return event, _event_key(event)

    def _counted(self, event: Event, key: Key) -> Correlation:
        known = self._observations.get(key)
        if known is None or not known.count:
            self._observations.put(key, _observation(event))
            return Correlation(event)
        again = replace(
            event,
            metadata=replace(event.metadata, name=known.name, resource_version=known.resource_version),
            first_timestamp=known.first_timestamp,
            count=known.count + 1,
        )
        self._observations.put(key, _observation(again))
        patch: Document = {"count": again.count, "lastTimestamp": again.last_timestamp}
        if again.message:
            patch["message"] = again.message
        return Correlation(again, patch)

    def _is_within_budget(self, event: Event, now_nanoseconds: int) -> bool:
        key = _budget_key(event)
        bucket = self._buckets.get(key) or _Bucket(SPAM_BURST, now_nanoseconds)
        elapsed_seconds = max(0, now_nanoseconds - bucket.last_nanoseconds) / 10**9
        tokens = min(SPAM_BURST, bucket.tokens + elapsed_seconds * _REFILL_PER_SECOND) - 1
        # A shortfall of less than a nanosecond's refill counts as a full token.
        is_within = -tokens / _REFILL_PER_SECOND * 10**9 < 1
        self._buckets.put(key, _Bucket(tokens, now_nanoseconds) if is_within else bucket)
        return is_within


def new_event(
    involved: ObjectReference, event_type: str, reason: str, message: str, *, source: EventSource, now_nanoseconds: int
) -> Event:
    """A new event about an object; cluster-scoped objects have theirs in namespace `default`."""
    now = _time(now_nanoseconds)
    return Event(
        metadata=ObjectMeta(name=event_name(involved.name, now_nanoseconds), namespace=involved.namespace or "default"),
        involved_object=involved,
        reason=reason,
        message=message,
        first_timestamp=now,
        last_timestamp=now,
        count=1,
        type=event_type,
        source=source,
        reporting_component=source.component,
        reporting_instance=source.host,
    )


def event_name(object_name: str, now_nanoseconds: int) -> str:
    """The name of an event: the object's name and the time, or a UUID of both if that is not a valid name."""
    name = f"{object_name}.{now_nanoseconds:x}"
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name)) if dns1123_subdomain_errors(name) else name


def _combination(event: Event, now_nanoseconds: int) -> Event:
    now = _time(now_nanoseconds)
    return Event(
        metadata=ObjectMeta(
            name=f"{event.involved_object.name}.{now_nanoseconds:x}", namespace=event.metadata.namespace
        ),
        count=1,
        first_timestamp=now,
        involved_object=event.involved_object,
        last_timestamp=now,
        message=f"(combined from similar events): {event.message}",
        type=event.type,
        reason=event.reason,
        source=event.source,
    )


def _observation(event: Event) -> _Observation:
    return _Observation(event.count, event.first_timestamp, event.metadata.name, event.metadata.resource_version)


def _budget_key(event: Event) -> Key:
    involved, source = event.involved_object, event.source
    return (
        source.component,
        source.host,
        involved.kind,
        involved.namespace,
        involved.name,
        involved.uid,
        involved.api_version,
        event.type,
    )


def _similarity_key(event: Event) -> Key:
    return (*_budget_key(event), event.reason, event.reporting_component, event.reporting_instance)


def _event_key(event: Event) -> Key:
    # The last element separates these keys from those of aggregates in the same cache.
    return (*_budget_key(event), event.reason, event.involved_object.field_path, event.message, "exact")


def _time(nanoseconds: int) -> str:
    return format_time(datetime.fromtimestamp(nanoseconds // 10**9, UTC))
