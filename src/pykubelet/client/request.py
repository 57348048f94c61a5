"""REST requests and responses as values: paths, queries, bodies, errors, watch events. No I/O.

Builds a `RestRequest` from a kind, names and options; BadRequest for names that must not appear in a path. Reads
objects, lists, errors and warnings from responses, and splits the bytes of a watch into events.

Upstream: staging/src/k8s.io/client-go/rest/request.go, staging/src/k8s.io/apimachinery/pkg/api/validation/path/name.go,
staging/src/k8s.io/client-go/rest/watch/decoder.go, staging/src/k8s.io/apimachinery/pkg/watch/streamwatcher.go
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from pykubelet.api import serializer
from pykubelet.api.errors import ApiError, BadRequest, InternalError, from_status
from pykubelet.api.generated.meta import DeleteOptions, ListMeta
from pykubelet.api.schema import NODES, Resource
from pykubelet.api.scheme import PartialObjectMetadata, TypedKind
from pykubelet.api.serializer import Document
from pykubelet.client import discovery
from pykubelet.client.interface import Listing, PatchType, Selection, WatchEvent

T = TypeVar("T")
JSON = "application/json"
FIELD_MANAGER = "pykubelet"
"""The field manager of server-side apply."""
SHOWN_TEXT = 2048
"""The number of characters of a non-Status response that an error message shows."""
_WARNING = re.compile(r'299 \S+ "(.*)"', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")
MAX_LINE_BYTES = 16 << 20
"""An object in etcd has at most 1.5 MB; its JSON is larger, but not ten times."""


@dataclass(frozen=True, slots=True)
class RestRequest:
    """One request; `target` is the quoted path with query. The body may hold secrets."""

    method: str
    target: str
    body: bytes | None = field(default=None, repr=False)
    content_type: str = JSON
    accept: str = ""
    """The Accept header, if not plain JSON."""

    @property
    def path(self) -> str:
        """The path without the query, for messages."""
        return self.target.partition("?")[0]


@dataclass(frozen=True, slots=True)
class RestResponse:
    """A successful response. Its body may hold secrets."""

    code: int
    body: bytes = field(repr=False)
    warnings: tuple[str, ...] = ()
    """The texts of the Warning headers."""


def accepting_metadata(plan: RestRequest, kind: TypedKind[Any], *, is_list: bool = False) -> RestRequest:
    """The request, asking for PartialObjectMetadata if its reader needs only metadata."""
    if kind.type is not PartialObjectMetadata:
        return plan
    form = "PartialObjectMetadataList" if is_list else "PartialObjectMetadata"
    return replace(plan, accept=f"{JSON};as={form};g=meta.k8s.io;v=v1,{JSON}")


def get_plan(resource: Resource, name: str, namespace: str, resource_version: str) -> RestRequest:
    return RestRequest("GET", object_path(resource, namespace, name) + query_text(resourceVersion=resource_version))


def list_plan(
    resource: Resource, namespace: str, selection: Selection, resource_version: str, limit: int, continue_token: str
) -> RestRequest:
    query = query_text(
        labelSelector=selection.labels,
        fieldSelector=selection.fields,
        resourceVersion=resource_version,
        limit=str(limit) if limit else "",
        **{"continue": continue_token},
    )
    return RestRequest("GET", collection_path(resource, namespace) + query)


def watch_plan(
    resource: Resource, namespace: str, selection: Selection, resource_version: str, timeout_seconds: float
) -> RestRequest:
    query = query_text(
        watch="true",
        allowWatchBookmarks="true",
        labelSelector=selection.labels,
        fieldSelector=selection.fields,
        resourceVersion=resource_version,
        # Zero means the server's own, much longer default.
        timeoutSeconds=str(max(1, int(timeout_seconds))),
    )
    return RestRequest("GET", collection_path(resource, namespace) + query)


def create_plan(resource: Resource, body: Any, namespace: str, name: str) -> RestRequest:
    if resource.namespaced and not namespace:
        raise BadRequest("an empty namespace may not be set during creation")
    target = object_path(resource, namespace, name) if resource.subresource else collection_path(resource, namespace)
    return RestRequest("POST", target, serializer.encode(body))


def patch_plan(
    resource: Resource, name: str, body: Any, namespace: str, patch_type: PatchType, subresource: str
) -> RestRequest:
    manager = FIELD_MANAGER if patch_type is PatchType.APPLY else ""
    target = object_path(resource, namespace, name, subresource) + query_text(fieldManager=manager)
    return RestRequest("PATCH", target, serializer.encode(body), patch_type.value)


def replace_plan(resource: Resource, name: str, body: Document, namespace: str, subresource: str) -> RestRequest:
    return RestRequest("PUT", object_path(resource, namespace, name, subresource), serializer.encode(body))


def apply_plan(
    resource: Resource, body: Document, namespace: str, field_manager: str, *, force: bool = True, dry_run: bool = False
) -> RestRequest:
    query = query_text(
        fieldManager=field_manager,
        # Always sent, as kubectl does.
        force="true" if force else "false",
        dryRun="All" if dry_run else "",
        fieldValidation="Strict",
    )
    name = str((body.get("metadata") or {}).get("name", ""))
    return RestRequest(
        "PATCH", object_path(resource, namespace, name) + query, serializer.encode(body), PatchType.APPLY.value
    )


def discovery_plan(path: str) -> RestRequest:
    return RestRequest("GET", path, accept=discovery.ACCEPT)


def schemas_plan(api_version: str) -> RestRequest:
    parts = ["apis" if "/" in api_version else "api", *api_version.split("/")]
    return RestRequest("GET", "/openapi/v3/" + "/".join(_part("path", part) for part in parts))


def read_schemas(body: bytes) -> dict[str, Document]:
    """The schemas in an OpenAPI v3 document."""
    found: dict[str, Document] = serializer.decode_document(body).get("components", {}).get("schemas", {})
    return found


def node_page_plan(node: str, path: Sequence[str]) -> RestRequest:
    page = "/".join(_part("path", part) for part in path)
    return RestRequest("GET", f"{object_path(NODES, '', node, 'proxy')}/{page}")


def delete_plan(resource: Resource, name: str, namespace: str, options: DeleteOptions | None) -> RestRequest:
    return RestRequest("DELETE", object_path(resource, namespace, name), serializer.encode(options or DeleteOptions()))


def collection_path(resource: Resource, namespace: str) -> str:
    """The path of a resource, in all namespaces or in one."""
    return resource.path(namespace=_part("namespace", namespace) if namespace else "")


def object_path(resource: Resource, namespace: str, name: str, subresource: str = "") -> str:
    """The path of one object; BadRequest for names that must not appear in a path."""
    if not name:
        raise BadRequest("resource name may not be empty")
    if resource.namespaced and not namespace:
        raise BadRequest("an empty namespace may not be set when a resource name is provided")
    return resource.path(
        namespace=_part("namespace", namespace) if namespace else "",
        name=_part("resource name", name),
        subresource=_part("subresource", subresource) if subresource else "",
    )


def _part(what: str, text: str) -> str:
    """One segment of a path; a name must not become another path."""
    if text in {".", ".."}:
        raise BadRequest(f"invalid {what} \"{text}\": may not be '{text}'")
    for forbidden in "/%":
        if forbidden in text:
            raise BadRequest(f"invalid {what} \"{text}\": may not contain '{forbidden}'")
    try:
        return quote(text, safe=":")
    except UnicodeEncodeError as error:
        raise BadRequest(f"invalid {what} {text!r}: it is no text") from error


def query_text(**parameters: str) -> str:
    """The non-empty parameters as a query string with its question mark."""
    given = {name: value for name, value in parameters.items() if value}
    return f"?{urlencode(given)}" if given else ""


class _List(msgspec.Struct, Generic[T], frozen=True):
    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] = ()


def read_object(kind: TypedKind[T], body: bytes) -> T:
    """The object in a response; InternalError if it cannot be decoded."""
    try:
        return serializer.decode(body, kind.type)
    except serializer.DecodeError as error:
        raise InternalError(f"the server's {kind.resource.kind} cannot be read: {error}") from error


def read_list(kind: TypedKind[T], body: bytes) -> Listing[T]:
    """The page in a response. Items carry apiVersion and kind only as Structs; documents get them here."""
    try:
        # mypy cannot express a Struct parametrised at run time.
        found = cast("_List[T]", serializer.decode(body, cast("type[Any]", _List[kind.type])))  # type: ignore[name-defined]
    except serializer.DecodeError as error:
        raise InternalError(f"the server's list of {kind.resource.plural} cannot be read: {error}") from error
    items = found.items
    if kind.type is dict or getattr(kind.type, "__origin__", None) is dict:
        named = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        items = tuple(cast("T", {**named, **cast("serializer.Document", item)}) for item in items)
    return Listing(items, found.metadata.resource_version, found.metadata.continue_)


def read_error(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The ApiError of an unsuccessful response."""
    after = retry_after_seconds(headers)
    try:
        status = serializer.decode_document(body)
    except serializer.DecodeError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        # Perhaps the response of a proxy: its text may help.
        is_text = headers.get("Content-Type", "text/").startswith("text/")
        text = body[:SHOWN_TEXT].decode(errors="replace").strip() if is_text else ""
        status = {"message": f"the server answered {code}: {text}"} if text else None
    elif after is None:
        after = _seconds(str((status.get("details") or {}).get("retryAfterSeconds", "")))
    return from_status(status, code, retry_after_seconds=after)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """The Retry-After header in seconds; None if it is absent or not a number."""
    return _seconds(headers.get("Retry-After", ""))


def read_warnings(headers: Sequence[str]) -> tuple[str, ...]:
    """The texts of Warning headers of the form `299 - "text"`."""
    texts = (_WARNING.fullmatch(header.strip()) for header in headers)
    return tuple(_ESCAPED.sub(r"\1", found[1]) for found in texts if found)


def _seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None


def may_repeat(plan: RestRequest, code: int) -> bool:
    """Whether a request may be repeated after a response with Retry-After.

    After 429 and 503 the server did nothing; after other failures only reads are safe to repeat.
    """
    return code in {429, 503} or (plan.method == "GET" and code >= 500)


class LineSplitter:
    """Splits chunks into whole lines and buffers the rest."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def lines(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that a chunk completes, without blank ones; InternalError if a line is too long."""
        *complete, rest = chunk.split(b"\n")
        for end in complete:
            self._keep(end)
            line, self._parts, self._size = b"".join(self._parts), [], 0
            if line.strip():
                yield line
        self._keep(rest)

    @property
    def is_within_line(self) -> bool:
        """Whether the stream so far ends in the middle of a line."""
        return self._size > 0

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            raise InternalError(f"a watch event has more than {self._max_bytes} bytes")
        if part:
            self._parts.append(part)


class _Envelope(msgspec.Struct, frozen=True):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


def read_event(kind: TypedKind[T], line: bytes) -> WatchEvent[T] | None:
    """The watch event of a line; None for an unknown type. An ERROR event is raised as its ApiError."""
    try:
        envelope = serializer.decode(line, _Envelope)
        match envelope.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                obj = serializer.decode(bytes(envelope.object), kind.type)
                return WatchEvent(envelope.type, obj, _resource_version(obj))
            case "BOOKMARK":
                document = serializer.decode(bytes(envelope.object), dict[str, Any])
                return WatchEvent("BOOKMARK", None, _resource_version(document))
            case "ERROR":
                status = serializer.decode_document(bytes(envelope.object))
            case _:
                return None
    except serializer.DecodeError as error:
        raise InternalError(f"unable to decode an event from the watch stream: {error}") from error
    code = status.get("code") if isinstance(status, dict) else None
    raise from_status(status, code if isinstance(code, int) else InternalError.code)


def _resource_version(obj: Any) -> str:
    if isinstance(obj, dict):
        return str((obj.get("metadata") or {}).get("resourceVersion", ""))
    return str(obj.metadata.resource_version)
