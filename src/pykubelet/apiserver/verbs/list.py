"""List objects: the texts of a snapshot, joined. Only a selector makes it look into them.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/get.go (ListResource), storage/etcd3/store.go (GetList), storage/util.go
"""

from typing import NamedTuple

from pykubelet.api.errors import BadRequest, Expired
from pykubelet.api.wire import Document, encode
from pykubelet.apiserver.call import Answer, Call
from pykubelet.apiserver.failures import too_large_version
from pykubelet.apiserver.objects.stored_forms import collection_of, item_text, list_head, served_document
from pykubelet.apiserver.requests.continue_token import NEWEST, continue_token, read_continue_token
from pykubelet.apiserver.requests.query import EXACT, ListOptions, list_options
from pykubelet.apiserver.requests.revisions import parse_revision, unreadable_revision
from pykubelet.apiserver.requests.selection import Selection, selection
from pykubelet.apiserver.served import Served
from pykubelet.apiserver.store import Entry, Snapshot, Store
from pykubelet.apiserver.verbs.means import Means

_TOO_OLD = "The resourceVersion for the provided list is too old."
_INCONSISTENT = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class Page(NamedTuple):
    """The selected objects of a snapshot up to a limit, and what a list says about itself."""

    entries: tuple[Entry, ...] | list[Entry]
    metadata: Document


class TooOldToGoOn(Expired):
    """A list cannot go on where it was cut, but may do so in the newest state, by the token of the Status."""

    def __init__(self, token: str) -> None:
        super().__init__(_INCONSISTENT)
        self._token = token

    def to_status(self) -> Document:
        """The Status with the token to go on by."""
        return super().to_status() | {"metadata": {"continue": self._token}}


async def list_objects(means: Means, call: Call) -> Answer:
    """The selected objects, or a page of them."""
    served = call.served
    options = list_options(call.query)
    chosen = selection(options.labels, options.fields, served)
    page = page_of(means.store, served, call.namespace, options, chosen)
    items = b",".join([item_text(served, entry.text) for entry in page.entries])
    body = b"".join((list_head(served), encode(page.metadata), b',"items":[', items, b"]}"))
    return Answer(body=body)


def page_of(store: Store, served: Served, namespace: str, options: ListOptions, chosen: Selection) -> Page:
    """The page of a list that the options ask for."""
    if not served.resource.namespaced:
        namespace = ""
    start = ""
    if options.continue_token:
        start, revision = read_continue_token(options.continue_token)
        if options.resource_version not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue")
        snapshot = _snapshot(store, served, namespace, None if revision == NEWEST else revision, start)
    else:
        snapshot = _snapshot(store, served, namespace, _revision(store, options), "")
    entries = snapshot.entries if not start else _behind(snapshot, namespace, start)
    return _cut(entries, served, namespace, options, chosen, snapshot.revision)


def _revision(store: Store, options: ListOptions) -> int | None:
    """As of when the list is wanted; None for now."""
    asked = parse_revision(options.resource_version)
    if asked is None:
        raise BadRequest(f"invalid resource version: {unreadable_revision(options.resource_version)}")
    if asked > store.revision:
        raise too_large_version(asked, store.revision)
    exact = options.resource_version_match == EXACT
    legacy = not options.resource_version_match and options.limit > 0 and asked > 0
    return asked if exact or legacy else None


def _snapshot(store: Store, served: Served, namespace: str, revision: int | None, start: str) -> Snapshot:
    try:
        return store.list(collection_of(served), namespace, at=revision)
    except Expired as error:
        if start:
            raise TooOldToGoOn(continue_token(start, NEWEST)) from error
        raise Expired(_TOO_OLD) from error


def _behind(snapshot: Snapshot, namespace: str, start: str) -> tuple[Entry, ...]:
    """The entries behind the last one given."""
    last = (namespace, start) if namespace or "/" not in start else tuple(start.split("/", 1))
    return tuple(entry for entry in snapshot.entries if (entry.key.namespace, entry.key.name) > last)


def _cut(
    entries: tuple[Entry, ...], served: Served, namespace: str, options: ListOptions, chosen: Selection, revision: int
) -> Page:
    """The selected entries up to the limit, which does not count for a list of any revision."""
    metadata: Document = {"resourceVersion": str(revision)}
    limit = options.limit if options.limit > 0 and options.resource_version != "0" else 0
    if chosen.is_everything:
        if not limit or len(entries) <= limit:
            return Page(entries, metadata)
        page = entries[:limit]
        metadata |= {"continue": _token(page[-1], namespace, revision), "remainingItemCount": len(entries) - limit}
        return Page(page, metadata)
    if chosen.name is not None:
        entries = tuple(entry for entry in entries if entry.key.name == chosen.name)
    found: list[Entry] = []
    for place, entry in enumerate(entries, start=1):
        if chosen.matches(served_document(served, entry), served):
            found.append(entry)
            if len(found) == limit and place < len(entries):
                # Upstream sees only whether more objects follow, not whether one of them is selected.
                return Page(found, metadata | {"continue": _token(entry, namespace, revision)})
    return Page(found, metadata)


def _token(last: Entry, namespace: str, revision: int) -> str:
    key = last.key
    start = key.name if namespace or not key.namespace else f"{key.namespace}/{key.name}"
    return continue_token(start, revision)
