"""Event, in the two groups that serve it: `v1` (CORE_EVENT) and `events.k8s.io/v1` (EVENT).

Both groups share one collection, stored in the core form. The core group accepts what old recorders send; the newer
group requires complete events. Validation uses the field names of the core form in both.

Upstream: pkg/registry/core/event/strategy.go, pkg/apis/core/validation/events.go, pkg/apis/events/v1/conversion.go
"""

from collections.abc import Mapping
from typing import Any

from pykubelet.api.field_errors import FieldError, TypedString, each_invalid, invalid, required
from pykubelet.api.names import byte_length, dns1123_subdomain_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import name_of
from pykubelet.kinds.kind import Kind, StoredForm, Strategy, metadata_fields, normalized
from pykubelet.kinds.metadata import (
    IMMUTABLE,
    immutable_errors,
    label_name_errors,
    metadata_errors,
    metadata_update_errors,
)

_EVENTS_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {new: old for old, new in _EVENTS_NAMES.items()}
_REFERENCE_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_REFERENCE_TITLES = ("Kind", "Namespace", "Name", "UID", "APIVersion", "ResourceVersion", "FieldPath")
# Maximum lengths in bytes.
_LONGEST = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}


def _validate(event: Document) -> list[FieldError]:
    return _event_errors(event, "reportingComponent")


def _event_errors(event: Document, controller_name: str) -> list[FieldError]:
    """Validates what holds for all events; an event with `eventTime` must name its reporter, action and reason."""
    namespace = event["metadata"].get("namespace", "")
    involved = event.get("involvedObject", {}).get("namespace", "")
    errors: list[FieldError] = []
    if event.get("eventTime"):
        fits = bool(involved) or namespace in {"default", "kube-system"}
    else:
        fits = involved == namespace or (not involved and namespace == "default")
    if not fits:
        errors.append(invalid("involvedObject.namespace", involved, "does not match event.namespace"))
    if event.get("eventTime"):
        controller = event.get("reportingComponent", "")
        errors += [] if controller else [required(controller_name)]
        errors += label_name_errors(controller, controller_name)
        for name, limit in _LONGEST.items():
            value = event.get(name, "")
            if not value and name != "message":
                errors.append(required(name))
            if byte_length(value) > limit:
                errors.append(invalid(name, "", f"can have at most {limit} characters"))
    return errors + each_invalid("namespace", namespace, dns1123_subdomain_errors(namespace))


def _fields(event: Document) -> Mapping[str, str]:
    component = event.get("reportingComponent", "")
    return {
        **metadata_fields(event),
        **_reference_fields("involvedObject", event),
        "reason": event.get("reason", ""),
        "reportingComponent": component,
        "source": event.get("source", {}).get("component") or component,
        "type": event.get("type", ""),
    }


def _reference_fields(field: str, event: Document) -> Mapping[str, str]:
    reference = event.get(field, {})
    return {f"{field}.{name}": reference.get(name, "") for name in _REFERENCE_FIELDS}


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: last seen, type, reason, object, subobject, source, message, first seen, count, name; in either form."""

    def either(old: str, new: str) -> Any:
        return document.get(old) or document.get(new)

    first = age(either("firstTimestamp", "deprecatedFirstTimestamp") or document.get("eventTime"))
    last_time = either("lastTimestamp", "deprecatedLastTimestamp")
    last = age(last_time) if last_time else first
    count = either("count", "deprecatedCount") or 1
    if series := document.get("series"):
        last, count = age(series.get("lastObservedTime")), series.get("count", 0)
    about = either("involvedObject", "regarding") or {}
    kind = about.get("kind", "").lower()
    source = either("source", "deprecatedSource") or {}
    host = source.get("host") or document.get("reportingInstance") or ""
    component = source.get("component") or either("reportingComponent", "reportingController") or ""
    return [
        last,
        document.get("type", ""),
        document.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (either("message", "note") or "").strip(),
        first,
        count,
        name_of(document),
    ]


def _validate_v1(document: Document) -> list[FieldError]:
    event = to_core_v1(document)
    errors = _event_errors(event, "reportingController") + metadata_errors(event["metadata"]) + _series_errors(event)
    if not event.get("eventTime"):
        errors.append(required("eventTime"))
    if (kind := event.get("type", "")) not in {"Normal", "Warning"}:
        errors.append(invalid("type", "", f"has invalid value: {kind}"))
    legacy = ("firstTimestamp", "lastTimestamp", "count", "source")
    return errors + [invalid(name, "", "needs to be unset") for name in legacy if event.get(name)]


def to_core_v1(document: Document) -> Document:
    """Converts an event of `events.k8s.io/v1` to `v1`."""
    return normal_form(_renamed(document, _CORE_NAMES, "v1"), "core.v1.Event")


def _renamed(document: Document, names: dict[str, str], api_version: str) -> Document:
    renamed = {names.get(key, key): value for key, value in document.items() if key != "apiVersion"}
    return {"kind": "Event", "apiVersion": api_version, **renamed}


def _series_errors(event: Document) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    errors: list[FieldError] = []
    if series.get("count", 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


def _validate_v1_update(document: Document, old_document: Document) -> list[FieldError]:
    new, old = to_core_v1(document), to_core_v1(old_document)
    errors = _event_errors(new, "reportingController") + metadata_update_errors(new["metadata"], old["metadata"])
    if new.get("series") != old.get("series"):
        errors += _series_errors(new)
    errors += _same_errors(new, old, "involvedObject", _reference_value(new.get("involvedObject", {})))
    for name in ("reason", "message"):
        errors += _same_errors(new, old, name, new.get(name, ""))
    source = new.get("source", {})
    shown = {"Component": source.get("component", ""), "Host": source.get("host", "")}
    errors += _same_errors(new, old, "source", shown)
    for name in ("firstTimestamp", "lastTimestamp"):
        errors += _same_errors(new, old, name, _time_value(new.get(name)))
    errors += _same_errors(new, old, "count", new.get("count", 0))
    for name in ("reason", "type"):
        errors += _same_errors(new, old, name, new.get(name, ""))
    errors += _same_errors(new, old, "eventTime", _time_value(new.get("eventTime")))
    errors += _same_errors(new, old, "action", new.get("action", ""))
    related = new.get("related")
    errors += _same_errors(new, old, "related", None if related is None else _reference_value(related))
    controller, before = (each.get("reportingComponent", "") for each in (new, old))
    errors += immutable_errors(controller, before, "reportingController")
    return errors + _same_errors(new, old, "reportingInstance", new.get("reportingInstance", ""))


def _same_errors(new: Document, old: Document, name: str, shown: object) -> list[FieldError]:
    return [] if new.get(name) == old.get(name) else [invalid(name, shown, IMMUTABLE)]


def _reference_value(reference: Document) -> Document:
    return {title: reference.get(name, "") for title, name in zip(_REFERENCE_TITLES, _REFERENCE_FIELDS, strict=True)}


def _time_value(text: str | None) -> TypedString | None:
    return None if text is None else TypedString(text)


def _v1_fields(event: Document) -> Mapping[str, str]:
    return {
        **metadata_fields(event),
        **_reference_fields("regarding", event),
        "reason": event.get("reason", ""),
        "reportingController": event.get("reportingController", ""),
        "type": event.get("type", ""),
    }


def to_events_v1(document: Document) -> Document:
    """Converts an event of `v1` to `events.k8s.io/v1`."""
    return normal_form(_renamed(document, _EVENTS_NAMES, "events.k8s.io/v1"), "events.v1.Event")


CORE_EVENT = Kind(
    resource=Resource("", "v1", "events", "Event"),
    definition="core.v1.Event",
    short_names=("ev",),
    strategy=Strategy(
        default=normalized("core.v1.Event"),
        validate_create=_validate,
        validate_update=lambda new, _old: _validate(new),
        fields=_fields,
        allows_create_on_update=True,
    ),
    cells=_cells,
)
EVENT = Kind(
    resource=Resource("events.k8s.io", "v1", "events", "Event"),
    definition="events.v1.Event",
    short_names=("ev",),
    strategy=Strategy(
        default=normalized("events.v1.Event"),
        validate_create=_validate_v1,
        validate_update=_validate_v1_update,
        fields=_v1_fields,
        allows_create_on_update=True,
    ),
    cells=_cells,
    stored=StoredForm(collection="events", to_served=to_events_v1, to_stored=to_core_v1),
)
