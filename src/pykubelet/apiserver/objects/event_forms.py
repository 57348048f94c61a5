"""Events in the forms of both groups that serve them; the older one is stored.

In: an Event of `v1` or of `events.k8s.io/v1`. Out: the same event in the other form. There and back gives what was.

Upstream: pkg/apis/events/v1/conversion.go
"""

from pykubelet.api.normal_form import normal_form
from pykubelet.api.wire import Document

_NEW_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_OLD_NAMES = {new: old for old, new in _NEW_NAMES.items()}


def to_new_form(document: Document) -> Document:
    """An event of `v1` as one of `events.k8s.io/v1`."""
    return normal_form(_renamed(document, _NEW_NAMES, "events.k8s.io/v1"), "events.v1.Event")


def to_old_form(document: Document) -> Document:
    """An event of `events.k8s.io/v1` as one of `v1`."""
    return normal_form(_renamed(document, _OLD_NAMES, "v1"), "core.v1.Event")


def _renamed(document: Document, names: dict[str, str], api_version: str) -> Document:
    renamed = {names.get(key, key): value for key, value in document.items() if key != "apiVersion"}
    return {"kind": "Event", "apiVersion": api_version, **renamed}
