"""What becomes of an event: a new object, a higher count, or nothing.

In: an event and the time, in nanoseconds since 1970. Out: the event to create or the patch for the one that is there,
or nothing where the source has said too much about one object. Same events are counted on one object; events that
differ only in their message become one after the tenth within ten minutes.

Upstream: staging/src/k8s.io/client-go/tools/record/events_cache.go, event.go (makeEvent), util/util.go
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
"""So many events about one object are told at once, of one source."""
# One in five minutes, as upstream's 32-bit float has it.
_REFILL_PER_SECOND = 0.0033333334140479565


@dataclass(frozen=True, slots=True)
class Correlation:
    """What to write: the event as it now stands, and, if the server has it already, the patch that makes it so."""

    event: Event
    patch: Document | None = None


@dataclass(frozen=True, slots=True)
class _Observation:
    """What is remembered of an event that was written."""

    count: int
    first_timestamp: str | None
    name: str
    resource_version: str


class _Similar(NamedTuple):
    """The messages of events that are alike otherwise, and when the last came."""

    messages: set[str]
    last_nanoseconds: int


class _Bucket(NamedTuple):
    """How many events a source may still send about an object, as of some time."""

    tokens: float
    last_nanoseconds: int


class _RecentRecords(Generic[Record]):
    """Records by key; the one not used for the longest goes when there are too many."""

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
    """Remembers recent events and decides about new ones; owned by one task."""

    def __init__(self) -> None:
        self._similar: _RecentRecords[_Similar] = _RecentRecords()
        self._observations: _RecentRecords[_Observation] = _RecentRecords()
        self._buckets: _RecentRecords[_Bucket] = _RecentRecords()

    def correlate(self, event: Event, now_nanoseconds: int) -> Correlation | None:
        """What to write for an event; None if its source has used up its budget for the object."""
        combined, key = self._combined(event, now_nanoseconds)
        correlation = self._counted(combined, key)
        return correlation if self._is_within_budget(correlation.event, now_nanoseconds) else None

    def update_state(self, written: Event) -> None:
        """Take over what the server answered, so that the next patch is for that object."""
        self._observations.put(_event_key(written), _observation(written))

    def _combined(self, event: Event, now_nanoseconds: int) -> tuple[Event, Key]:
        """The event, or the one that stands for all like it, and the key under which it is counted."""
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
        # A lack that less than a nanosecond would make up for is none.
        is_within = -tokens / _REFILL_PER_SECOND * 10**9 < 1
        self._buckets.put(key, _Bucket(tokens, now_nanoseconds) if is_within else bucket)
        return is_within


def new_event(
    involved: ObjectReference, event_type: str, reason: str, message: str, *, source: EventSource, now_nanoseconds: int
) -> Event:
    """A first event about an object; one about an object without namespace goes to `default`."""
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
    """The name of an event: the object's and the time, or a UUID of both where that would not be a valid name."""
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
    # The last word keeps these apart from the keys of similar events, with which they share a cache.
    return (*_budget_key(event), event.reason, event.involved_object.field_path, event.message, "exact")


def _time(nanoseconds: int) -> str:
    return format_time(datetime.fromtimestamp(nanoseconds // 10**9, UTC))
