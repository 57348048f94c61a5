"""Gets one object and lists collections, from the stored texts; only selectors decode them.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/get.go,
staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go, staging/src/k8s.io/apiserver/pkg/storage/continue.go
"""

import base64
import posixpath
import re
from typing import Any, NamedTuple

from pykubelet.api.errors import ApiError, BadRequest, Expired
from pykubelet.api.serializer import DecodeError, Document, decode_document, encode
from pykubelet.apiserver.errors import not_found, too_large_version
from pykubelet.apiserver.handlers.options import (
    EXACT,
    ListOptions,
    ObjectSelector,
    list_options,
    object_selector,
    parse_revision,
    revision_error,
)
from pykubelet.apiserver.handlers.write import RequestScope
from pykubelet.apiserver.request import ApiRequest, ApiResponse
from pykubelet.apiserver.serializer.json_syntax import syntax_error
from pykubelet.apiserver.storage.codec import StoredList, collection_of, key_of, served_document, served_entry
from pykubelet.apiserver.storage.interfaces import Snapshot, Store, StoreEntry
from pykubelet.kinds.kind import Kind

_VERSION = "meta.k8s.io/v1"
_INVALID = "continue key is not valid"
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9_-]")
NEWEST = -1
"""A continue token with this revision continues in the newest state."""
_TOO_OLD = "The resourceVersion for the provided list is too old."
_INCONSISTENT = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


async def get(scope: RequestScope, request: ApiRequest) -> ApiResponse:
    """Returns the object at least as new as the requested revision. A subresource such as status returns the whole object."""
    if "export" in request.query:
        raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
    return ApiResponse(body=served_entry(request.served, stored_entry(scope, request)))


def stored_entry(scope: RequestScope, request: ApiRequest) -> StoreEntry:
    """The stored entry of the requested object; NotFound if there is none."""
    if version := request.query.get("resourceVersion", ""):
        revision = parse_revision(version)
        if revision is None:
            # Upstream sends no reason with this error.
            raise ApiError(revision_error(version))
        if revision > scope.store.revision:
            raise too_large_version(revision, scope.store.revision)
    entry = scope.store.get(key_of(request.served, request.namespace, request.name))
    if entry is None:
        raise not_found(request.served.resource, request.name)
    return entry


async def list_objects(scope: RequestScope, request: ApiRequest) -> ApiResponse:
    served = request.served
    options = list_options(request.query)
    chosen = object_selector(options.labels, options.fields, served)
    page = list_page(scope.store, served, request.namespace, options, chosen)
    return list_response(served, page)


class ListPage(NamedTuple):
    """The selected entries of a snapshot up to a limit, and the list's metadata."""

    entries: tuple[StoreEntry, ...] | list[StoreEntry]
    metadata: Document


def list_response(served: Kind, page: ListPage) -> ApiResponse:
    return ApiResponse(body=StoredList(served, page.metadata, page.entries))


def list_page(store: Store, served: Kind, namespace: str, options: ListOptions, chosen: ObjectSelector) -> ListPage:
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
    entries = snapshot.entries
    if start:
        last = (namespace, start) if namespace or "/" not in start else tuple(start.split("/", 1))
        entries = tuple(entry for entry in entries if (entry.key.namespace, entry.key.name) > last)
    return _limited(entries, served, namespace, options, chosen, snapshot.revision)


class ContinuePosition(NamedTuple):
    """A list continues with the first object after `start`, at a revision."""

    start: str
    revision: int


def continue_token(start: str, revision: int) -> str:
    """Encodes a continue token. `start` is `namespace/name`, or a name for a list of one namespace."""
    text = encode({"v": _VERSION, "rv": revision, "start": f"{start}\x00"})
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def read_continue_token(token: str) -> ContinuePosition:
    """Decodes a continue token; BadRequest if it is invalid."""
    value = _decoded(token)
    fields = value if isinstance(value, dict) else {}
    version, revision, start = fields.get("v", ""), fields.get("rv", 0), fields.get("start", "")
    if not isinstance(version, str) or type(revision) is not int or not isinstance(start, str):
        raise _refused(f"{_INVALID}: json: cannot unmarshal it into Go value of type storage.continueToken")
    if version != _VERSION:
        raise _refused(f"{_INVALID}: server does not recognize this encoded version {version}")
    if revision == 0:
        raise _refused(f"{_INVALID}: incorrect encoded start resourceVersion (version {_VERSION})")
    if not start:
        raise _refused(f"{_INVALID}: encoded start key empty (version {_VERSION})")
    key = start if start.startswith("/") else f"/{start}"
    if posixpath.normpath(key) != key or key.startswith("//"):
        raise _refused(f"{_INVALID}: {start}")
    return ContinuePosition(key[1:].removesuffix("\x00"), revision)


def _decoded(token: str) -> Any:
    invalid = _NOT_BASE64.search(token)
    if invalid or len(token) % 4 == 1:
        place = invalid.start() if invalid else len(token) // 4 * 4
        raise _refused(f"{_INVALID}: illegal base64 data at input byte {place}")
    text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    try:
        return decode_document(text)
    except (DecodeError, ValueError) as error:
        raise _refused(f"{_INVALID}: {syntax_error(text) or 'it is not UTF-8'}") from error


def _refused(why: str) -> BadRequest:
    return BadRequest(f"invalid continue token: {why}")


class ContinueTokenExpired(Expired):
    """The continue token's revision is compacted; the Status has a token that continues in the newest state."""

    def __init__(self, token: str) -> None:
        super().__init__(_INCONSISTENT)
        self._token = token

    def to_status(self) -> Document:
        return super().to_status() | {"metadata": {"continue": self._token}}


def _revision(store: Store, options: ListOptions) -> int | None:
    """The revision of the requested snapshot; None for the newest."""
    revision = parse_revision(options.resource_version)
    if revision is None:
        raise BadRequest(f"invalid resource version: {revision_error(options.resource_version)}")
    if revision > store.revision:
        raise too_large_version(revision, store.revision)
    exact = options.resource_version_match == EXACT
    legacy = not options.resource_version_match and options.limit > 0 and revision > 0
    return revision if exact or legacy else None


def _snapshot(store: Store, served: Kind, namespace: str, revision: int | None, start: str) -> Snapshot:
    try:
        return store.list(collection_of(served), namespace, at=revision)
    except Expired as error:
        if start:
            raise ContinueTokenExpired(continue_token(start, NEWEST)) from error
        raise Expired(_TOO_OLD) from error


def _limited(
    entries: tuple[StoreEntry, ...],
    served: Kind,
    namespace: str,
    options: ListOptions,
    chosen: ObjectSelector,
    revision: int,
) -> ListPage:
    """The selected entries up to the limit. A list at any revision (resourceVersion "0") ignores the limit."""
    metadata: Document = {"resourceVersion": str(revision)}
    limit = options.limit if options.limit > 0 and options.resource_version != "0" else 0
    if chosen.is_everything:
        if not limit or len(entries) <= limit:
            return ListPage(entries, metadata)
        page = entries[:limit]
        metadata |= {"continue": _token(page[-1], namespace, revision), "remainingItemCount": len(entries) - limit}
        return ListPage(page, metadata)
    if chosen.name is not None:
        entries = tuple(entry for entry in entries if entry.key.name == chosen.name)
    found: list[StoreEntry] = []
    for place, entry in enumerate(entries, start=1):
        if chosen.matches(served_document(served, entry), served):
            found.append(entry)
            if len(found) == limit and place < len(entries):
                # Upstream checks only whether more objects follow, not whether one of them is selected.
                return ListPage(found, metadata | {"continue": _token(entry, namespace, revision)})
    return ListPage(found, metadata)


def _token(last: StoreEntry, namespace: str, revision: int) -> str:
    key = last.key
    start = key.name if namespace or not key.namespace else f"{key.namespace}/{key.name}"
    return continue_token(start, revision)
