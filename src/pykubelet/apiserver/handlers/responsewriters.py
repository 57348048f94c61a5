"""Responses in the accepted form: JSON, YAML or protobuf, Table, metadata only; watch events.

Protobuf is made of the stored JSON when a client first asks for an object, and kept with it. Custom resources have no
messages; of them, protobuf can only show the metadata. Tables are never protobuf.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go,
staging/src/k8s.io/apiserver/pkg/endpoints/filters/warning.go,
staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/collections.go
"""

import math
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple, TypeVar

from pykubelet.api.errors import ApiError, NotAcceptable
from pykubelet.api.serializer import Document, decode_document, encode, indented
from pykubelet.api.yaml.write import to_yaml
from pykubelet.apiserver.request import ApiResponse, SerializedEvent
from pykubelet.apiserver.serializer.protobuf_encoder import (
    document_bytes,
    item_bytes,
    list_start,
    message_bytes,
    message_encoder,
    watch_frame,
    with_type,
)
from pykubelet.apiserver.storage.codec import StoredList, list_kind, served_document
from pykubelet.apiserver.storage.interfaces import StoreEntry
from pykubelet.httpserver.response import JSON, HttpResponse
from pykubelet.kinds.kind import MAX_LONG_WARNING_CHARACTERS, MAX_WARNING_CHARACTERS, Kind

T = TypeVar("T")
META_GROUP = "meta.k8s.io"
META_VERSIONS = ("v1", "v1beta1")
DISCOVERY_GROUP = "apidiscovery.k8s.io"
TABLE = "Table"
PARTIAL = "PartialObjectMetadata"
PARTIAL_LIST = "PartialObjectMetadataList"
GROUP_DISCOVERY = "APIGroupDiscoveryList"
_PARTIAL_MESSAGE = f"meta.v1.{PARTIAL}"
# Upstream indents responses to these user agents: a person reads them.
_HUMAN_AGENTS = ("curl", "Wget", "Mozilla/5.0")
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
YAML, PROTOBUF = "application/yaml", "application/vnd.kubernetes.protobuf"
_SUBTYPES = {"json", "yaml", "vnd.kubernetes.protobuf"}
_TYPES = (JSON, YAML, PROTOBUF)
_STREAM_TYPES = tuple(f"{name};stream=watch" for name in (JSON, PROTOBUF))


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """The negotiated form of a response: the kind to convert to (empty: none), its version, the encoding, indented or not."""

    kind: str = ""
    version: str = ""
    yaml: bool = False
    protobuf: bool = False
    pretty: bool = False


PLAIN = ResponseFormat()
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
Lines = Callable[[Iterable[SerializedEvent]], bytes]
"""Encodes a batch of events as lines of JSON, or as frames of protobuf."""
_HEADS = {
    kind: f'{{"type":"{kind}","object":'.encode() for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
}
_TAIL = b"}\n"
Now = Callable[[], datetime]
InThread = Callable[[Callable[[Sequence[StoreEntry]], bytes], Sequence[StoreEntry]], Awaitable[bytes]]
"""Runs a conversion of items in a thread."""
# About two hundred pods, whose table takes a few milliseconds.
_LONG_BYTES = 256 * 1024


class ResponseView(NamedTuple):
    """The form in which a client wants a resource."""

    form: ResponseFormat
    pretty: bool
    served: Kind
    include: str = ""


def view_of(form: ResponseFormat, served: Kind, query: Mapping[str, str], *, pretty: bool) -> ResponseView:
    return ResponseView(form, pretty, served, query.get("includeObject", ""))


def encode_response(answer: ApiResponse, view: ResponseView, now: Now) -> HttpResponse:
    form = view.form
    if form.protobuf and not form.kind:
        reply = HttpResponse(answer.code, _protobuf_of(answer, view.served), PROTOBUF)
    elif form.kind or form.yaml:
        document = answer.document
        if form.kind:
            document = _shown(document, view, now(), headers=True)
        reply = document_response(document, form, pretty=view.pretty, code=answer.code)
    else:
        text = answer.text
        reply = HttpResponse(answer.code, indented(text) if view.pretty else text)
    return reply._replace(headers=warning_headers(answer.warnings)) if answer.warnings else reply


def encode_list(answer: ApiResponse, view: ResponseView, now: Now, in_thread: InThread) -> HttpResponse:
    """A large list in parts of some items each; those that need conversion are converted in a thread."""
    found, form, at = answer.body, view.form, now()
    assert isinstance(found, StoredList)
    empty = found._replace(entries=()).document
    if form.kind:
        empty = _shown(empty, view, at, headers=True)
    # The field with the items is the last one.
    field = [*empty][-1]
    frame = _frame({**empty, field: []}, form, pretty=view.pretty)
    is_as_stored = frame.write is None and not (form.kind or form.protobuf or view.served.stored)

    def shown(entries: Sequence[StoreEntry]) -> list[Document]:
        items: list[Document] = _shown(found._replace(entries=entries).document, view, at, headers=False)[field]
        return items

    def texts(entries: Sequence[StoreEntry]) -> bytes:
        items = encode(shown(entries))[1:-1] if form.kind else found._replace(entries=entries).items
        return items if frame.write is None else frame.write(items)

    def messages(entries: Sequence[StoreEntry]) -> bytes:
        if form.kind:
            return item_bytes(message_bytes(item, _PARTIAL_MESSAGE) for item in shown(entries))
        return item_bytes(_messages(entries, view.served))

    async def parts() -> AsyncGenerator[bytes, None]:
        before, convert = frame.start, messages if form.protobuf else texts
        if form.protobuf:
            # The length of all items is sent before the first one; the second time, most objects have their bytes.
            size = 0
            for entries in in_parts(found.entries, _stored_bytes):
                size += len(await in_thread(convert, entries))
            before = list_start(empty["apiVersion"], empty["kind"], empty["metadata"], size)
        for entries in in_parts(found.entries, _stored_bytes):
            yield before + (convert(entries) if is_as_stored else await in_thread(convert, entries))
            before = frame.between
        yield frame.end

    content_type = PROTOBUF if form.protobuf else YAML if form.yaml else JSON
    return HttpResponse(answer.code, b"", content_type, warning_headers(answer.warnings), parts())


def _stored_bytes(entry: StoreEntry) -> int:
    return len(entry.text)


class _Frame(NamedTuple):
    """What is before, between and after the items of a list; `write` converts their JSON texts, if it must."""

    start: bytes
    between: bytes
    end: bytes
    write: Callable[[bytes], bytes] | None = None


def _frame(empty: Document, form: ResponseFormat, *, pretty: bool) -> _Frame:
    """The frame of a list, which is given without items. The start of one in protobuf depends on the items."""
    if form.protobuf:
        return _Frame(b"", b"", b"")
    if form.yaml:
        return _Frame(to_yaml(empty).removesuffix(" []\n").encode() + b"\n", b"", b"", _yaml_items)
    if pretty:
        return _Frame(indented(encode(empty)).removesuffix(b"]\n}"), b",", b"\n  ]\n}", _indented_items)
    return _Frame(encode(empty).removesuffix(b"]}"), b",", b"]}")


def _yaml_items(texts: bytes) -> bytes:
    return to_yaml(decode_document(b"[%b]" % texts)).encode()


def _indented_items(texts: bytes) -> bytes:
    return indented(b"[%b]" % texts)[1:-2].replace(b"\n", b"\n  ")


def in_parts(items: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Groups items or events into lists of about 256 KB."""
    part: list[T] = []
    total = 0
    for item in items:
        part.append(item)
        total += size(item)
        if total > _LONG_BYTES:
            yield part
            part, total = [], 0
    if part:
        yield part


def is_sent_in_parts(answer: ApiResponse) -> bool:
    """Whether the response is a list that is too large to be in memory as a whole."""
    return isinstance(answer.body, StoredList) and answer.body.size > _LONG_BYTES


def is_slow_to_encode(answer: ApiResponse, view: ResponseView) -> bool:
    """Whether encoding the response, which is not sent in parts, takes long enough to run in a thread."""
    body, form = answer.body, view.form
    if isinstance(body, StoreEntry):
        if form.protobuf and not form.kind and body.is_encoded:
            return False
        body = body.text
    is_as_stored = not (form.kind or form.yaml or form.protobuf or view.pretty)
    return not is_as_stored and isinstance(body, bytes) and len(body) > _LONG_BYTES


def _protobuf_of(answer: ApiResponse, served: Kind) -> bytes:
    body = answer.body
    if isinstance(body, StoreEntry):
        return _protobuf_of_entry(body, served)
    if not isinstance(body, StoredList):
        return document_bytes(answer.document)
    items = item_bytes(_messages(body.entries, served))
    return list_start(served.resource.api_version, list_kind(served), body.metadata, len(items)) + items


def _messages(entries: Iterable[StoreEntry], served: Kind) -> Iterator[bytes]:
    """The message of each object; it is kept with the entry if the resource serves that as it is."""
    if served.stored is None:
        encode_item = message_encoder(served.definition)
        return (entry.encoded(encode_item) for entry in entries)
    return (message_bytes(served_document(served, entry), served.definition) for entry in entries)


def _protobuf_of_entry(entry: StoreEntry, served: Kind) -> bytes:
    resource = served.resource
    return with_type(resource.api_version, resource.kind, entry.encoded(message_encoder(served.definition)))


def stream_type(form: ResponseFormat) -> str:
    """The content type of a watch."""
    return f"{PROTOBUF};stream=watch" if form.protobuf else JSON


def watch_lines(view: ResponseView, now: Now) -> Lines:
    """The encoder of a watch's events; only the first line of a Table has column definitions."""
    if view.form.protobuf:
        return lambda events: b"".join([_watch_frame(event, view, now) for event in events])
    if not view.form.kind:
        return plain_lines
    headers = True

    def lines(events: Iterable[SerializedEvent]) -> bytes:
        nonlocal headers
        parts: list[bytes] = []
        for event in events:
            text = event.object
            if event.type != "ERROR":
                text = encode(_shown(decode_document(text), view, now(), headers=headers))
                headers = False
            parts += (_HEADS[event.type], text, _TAIL)
        return b"".join(parts)

    return lines


def _watch_frame(event: SerializedEvent, view: ResponseView, now: Now) -> bytes:
    if event.entry is not None and not view.form.kind:
        return watch_frame(event.type, _protobuf_of_entry(event.entry, view.served))
    document = decode_document(event.object)
    if view.form.kind and event.type != "ERROR":
        document = _shown(document, view, now(), headers=False)
    return watch_frame(event.type, document_bytes(document))


def document_response(document: Document, form: ResponseFormat, *, pretty: bool, code: int = 200) -> HttpResponse:
    if form.yaml:
        return HttpResponse(code, to_yaml(document).encode(), YAML)
    if form.protobuf:
        return HttpResponse(code, document_bytes(document), PROTOBUF)
    text = encode(document)
    return HttpResponse(code, indented(text) if pretty else text)


def status_response(error: ApiError, accept: str, query: Mapping[str, str], user_agent: str) -> HttpResponse:
    form = error_form(accept)
    reply = document_response(error.to_status(), form, pretty=wants_pretty(form, query, user_agent), code=error.code)
    headers = warning_headers(error.warnings)
    if error.retry_after_seconds is not None:
        headers += (("Retry-After", str(math.ceil(error.retry_after_seconds))),)
    return reply._replace(headers=headers) if headers else reply


def warning_headers(warnings: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Encodes warnings as Warning headers, each text once."""
    texts = [text for text in dict.fromkeys(warnings) if text and not _UNFIT.search(text)]
    return tuple(("Warning", f"299 - {_quoted(text)}") for text in _within_bounds(texts))


@dataclass(frozen=True, slots=True)
class _Clause:
    type: str
    subtype: str
    quality: float
    parameters: Mapping[str, str]


@lru_cache(maxsize=256)
def object_form(
    accept: str, *, stream: bool = False, has_message: bool = True, has_table: bool = True
) -> ResponseFormat:
    """Negotiates the form of objects, lists and watches; raises NotAcceptable.

    `has_message`: whether the objects of the kind can be protobuf. Their metadata always can, tables never.
    `has_table`: whether the resource can be a table; what is only created, such as a review, cannot.
    """

    def fits(form: ResponseFormat) -> bool:
        if form.kind == TABLE and not has_table:
            return False
        if form.protobuf and form.kind not in (PARTIAL, PARTIAL_LIST):
            return has_message and not form.kind
        return form.kind != GROUP_DISCOVERY and not (stream and form.yaml)

    return _negotiated(accept, fits, stream=stream)


@lru_cache(maxsize=256)
def plain_form(accept: str) -> ResponseFormat:
    """Negotiates the form of responses that are never converted, such as discovery; raises NotAcceptable."""
    return _negotiated(accept, lambda form: not form.kind)


@lru_cache(maxsize=64)
def discovery_form(accept: str) -> ResponseFormat:
    """Negotiates the form of /api and /apis: aggregated if the client prefers it to plain; raises NotAcceptable."""
    return _negotiated(accept, lambda form: form.kind in ("", GROUP_DISCOVERY))


def error_form(accept: str) -> ResponseFormat:
    """Negotiates the form of a Status. JSON if the client accepts nothing we have, so that the error itself is seen."""
    try:
        return plain_form(accept)
    except NotAcceptable:
        return PLAIN


def _negotiated(accept: str, fits: Callable[[ResponseFormat], bool], *, stream: bool = False) -> ResponseFormat:
    """The first form in the Accept header's order of preference that fits."""
    if not accept:
        return PLAIN
    for form in map(_as_form, _clauses(accept)):
        if form is not None and fits(form):
            return form
    types = _STREAM_TYPES if stream else _TYPES
    raise NotAcceptable(f"only the following media types are accepted: {', '.join(types)}")


def wants_pretty(form: ResponseFormat, query: Mapping[str, str], user_agent: str) -> bool:
    """Whether to indent: as the parameter `pretty` says, else for user agents of people."""
    if form.pretty:
        return True
    if pretty := query.get("pretty"):
        return pretty in _TRUE
    return user_agent.startswith(_HUMAN_AGENTS)


@lru_cache(maxsize=64)
def accepts_gzip(accept_encoding: str) -> bool:
    for part in accept_encoding.split(","):
        coding, _, parameters = part.strip().partition(";")
        if coding.strip().lower() == "gzip":
            return _quality(parameters.strip().removeprefix("q=")) > 0
    return False


def _as_form(clause: _Clause) -> ResponseFormat | None:
    is_any = clause.subtype == "*" and clause.type in ("*", "application")
    if not is_any and not (clause.type == "application" and clause.subtype in _SUBTYPES):
        return None
    yaml, protobuf = clause.subtype == "yaml", clause.subtype == "vnd.kubernetes.protobuf"
    parameters = clause.parameters
    if parameters.get("stream", "watch") != "watch" or parameters.get("sv"):
        return None
    pretty = parameters.get("pretty") == "1"
    if not ({"as", "g", "v"} & parameters.keys()):
        return ResponseFormat(yaml=yaml, protobuf=protobuf, pretty=pretty)
    kind, group, version = (parameters.get(key, "") for key in ("as", "g", "v"))
    known = (group == META_GROUP and kind in (TABLE, PARTIAL, PARTIAL_LIST) and version in META_VERSIONS) or (
        group == DISCOVERY_GROUP and kind == GROUP_DISCOVERY and version == "v2" and not protobuf
    )
    return ResponseFormat(kind, version, yaml=yaml, protobuf=protobuf, pretty=pretty) if known else None


def _clauses(accept: str) -> list[_Clause]:
    """The clauses of an Accept header by quality, then specificity, then order."""
    found = [_clause(part) for part in accept.split(",")]
    return sorted(
        (clause for clause in found if clause is not None),
        key=lambda clause: (-clause.quality, clause.type == "*", clause.subtype == "*"),
    )


def _clause(text: str) -> _Clause | None:
    media, *rest = (part.strip() for part in text.split(";"))
    kind, slash, subtype = (part.strip() for part in media.partition("/"))
    if kind == "*" and not slash:
        subtype = "*"
    elif not slash or "/" in subtype:
        return None
    parameters = {}
    quality = 1.0
    for part in rest:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key == "q" and equals:
            quality = _quality(value)
        elif equals:
            parameters[key] = value
    return _Clause(kind, subtype, quality, parameters)


def _quality(text: str) -> float:
    try:
        return float(text) if text else 1.0
    except ValueError:
        return 1.0


def _within_bounds(texts: list[str]) -> list[str]:
    """Truncates the warnings if they are too long together, and drops those that still do not fit."""
    total = fitting = 0
    for text in texts:
        fitting += 1
        total += len(text)
        if total > MAX_WARNING_CHARACTERS:
            break
    else:
        return texts
    # The warning that exceeds the limit is still sent, truncated.
    cut = [text[:MAX_LONG_WARNING_CHARACTERS] for text in texts]
    written = sum(map(len, cut[:fitting]))
    while fitting < len(cut) and written < MAX_WARNING_CHARACTERS:
        written += len(cut[fitting])
        fitting += 1
    return cut[:fitting]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def plain_lines(events: Iterable[SerializedEvent]) -> bytes:
    """Encodes events with their objects as stored."""
    parts: list[bytes] = []
    for event in events:
        parts += (_HEADS[event.type], event.object, _TAIL)
    return b"".join(parts)


def _shown(document: Document, view: ResponseView, now: datetime, *, headers: bool) -> Document:
    # Few clients ask for tables or metadata, so these modules are loaded on first use.
    from pykubelet.apiserver.tables.table import as_partial, as_partial_list, as_table

    kind, version = view.form.kind, view.form.version
    if kind == TABLE:
        return as_table(document, view.served, include=view.include, now=now, headers=headers, version=version)
    if kind == PARTIAL_LIST:
        return as_partial_list(document, version=version)
    assert kind == PARTIAL
    return as_partial(document, version=version)
