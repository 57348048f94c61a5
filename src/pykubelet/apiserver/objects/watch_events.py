"""What a watcher sees of a change: an event, or nothing.

In: a change of the store, and which objects the watcher follows. Out: the event. An object that comes into the selection
looks added, one that leaves it looks deleted, and looks as it did before it left.

Upstream: k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go (convertToWatchEvent)
"""

from dataclasses import dataclass
from typing import Literal

from pykubelet.api.errors import ApiError
from pykubelet.api.wire import Document, encode
from pykubelet.apiserver.call import Event
from pykubelet.apiserver.fields.schema_types import schema_of
from pykubelet.apiserver.objects.stored_forms import in_order, served_form, served_text
from pykubelet.apiserver.requests.selection import Selection
from pykubelet.apiserver.served import Served
from pykubelet.apiserver.store import Entry, StoreChange

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class View:
    """What a watcher follows; an empty namespace or name is any."""

    served: Served
    namespace: str
    name: str
    selection: Selection

    def event(self, change: StoreChange) -> Event | None:
        """The event of a change."""
        if not self._covers(change.key.namespace, change.key.name):
            return None
        was, now = change.before is not None, change.after is not None
        if not self.selection.is_everything:
            was = was and self._selects(change.before_document)
            now = now and self._selects(change.document)
        if now:
            return Event("MODIFIED" if was else "ADDED", served_text(self.served, change.text))
        if not was:
            return None
        return Event("DELETED", served_text(self.served, _last_text(change)))

    def initial(self, entry: Entry) -> Event | None:
        """The event that tells of an object which was there already."""
        if not self._covers(entry.key.namespace, entry.key.name):
            return None
        if not self.selection.is_everything and not self._selects(entry.document):
            return None
        return Event("ADDED", served_text(self.served, entry.text))

    def _covers(self, namespace: str, name: str) -> bool:
        return self.namespace in ("", namespace) and self.name in ("", name)

    def _selects(self, stored: Document | None) -> bool:
        return stored is not None and self.selection.matches(served_form(self.served, stored), self.served)


def bookmark(served: Served, revision: int, *, ends_initial_events: bool = False) -> Event:
    """The event that says how far a watch has come: an object with nothing but that in it."""
    empty = schema_of(served.definition).empty if served.definition else {}
    metadata: Document = {"resourceVersion": str(revision)}
    if ends_initial_events:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    resource = served.resource
    document = {**empty, "kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return Event("BOOKMARK", encode(in_order(document)))


def failure(error: ApiError) -> Event:
    """The event that ends a watch which cannot go on."""
    kind: Literal["ERROR"] = "ERROR"
    return Event(kind, encode(error.to_status()))


def _last_text(change: StoreChange) -> bytes:
    """The object as it was before the change, at the revision of the change."""
    if change.after is None:
        return change.text
    before = change.before_document
    assert before is not None
    return encode({**before, "metadata": {**before["metadata"], "resourceVersion": str(change.revision)}})
