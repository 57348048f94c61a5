"""Responses in the accepted form: JSON, YAML or protobuf, Table, metadata only; watch events.

Protobuf is made of the stored JSON when a client first asks for an object, and kept with it. Custom resources have no
messages; of them, protobuf can only show the metadata. Tables are never protobuf.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go,
staging/src/k8s.io/apiserver/pkg/endpoints/filters/warning.go
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from pykubelet.api.errors import ApiError, NotAcceptable
from pykubelet.api.serializer import Document, decode_by_item, decode_document, encode, indented, split_list
from pykubelet.api.yaml.write import list_to_yaml, to_yaml
from pykubelet.apiserver.request import ApiResponse, SerializedEvent
from pykubelet.apiserver.serializer.protobuf_encoder import (
    document_bytes,
    list_bytes,
    message_bytes,
    message_encoder,
    watch_frame,
    with_type,
)
from pykubelet.apiserver.storage.codec import StoredList, list_kind, served_document
from pykubelet.apiserver.storage.interfaces import StoreEntry
from pykubelet.httpserver.response import JSON, HttpResponse
from pykubelet.kinds.kind import MAX_LONG_WARNING_CHARACTERS, MAX_WARNING_CHARACTERS, Kind

META_GROUP = "meta.k8s.io"
META_VERSIONS = ("v1", "v1beta1")
DISCOVERY_GROUP = "apidiscovery.k8s.io"
TABLE = "Table"
PARTIAL = "PartialObjectMetadata"
PARTIAL_LIST = "PartialObjectMetadataList"
GROUP_DISCOVERY = "APIGroupDiscoveryList"
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
        is_large = _convertible_bytes(answer, form) > _LONG_BYTES
        if is_large and form.yaml and not form.kind:
            document, items = split_list(answer.text)
            reply = HttpResponse(answer.code, list_to_yaml(document, items), YAML)
        else:
            document = decode_by_item(answer.text) if is_large else answer.document
            if form.kind:
                document = _shown(document, view, now(), headers=True)
            reply = document_response(document, form, pretty=view.pretty, code=answer.code)
    else:
        text = answer.text
        reply = HttpResponse(answer.code, indented(text) if view.pretty else text)
    return reply._replace(headers=warning_headers(answer.warnings)) if answer.warnings else reply


def is_slow_to_encode(answer: ApiResponse, view: ResponseView) -> bool:
    """Whether encoding the response takes long enough to run in a thread."""
    is_as_stored = not (view.form.kind or view.form.yaml or view.form.protobuf or view.pretty)
    return not is_as_stored and _convertible_bytes(answer, view.form) > _LONG_BYTES


def _convertible_bytes(answer: ApiResponse, form: ResponseFormat) -> int:
    """How much JSON the response is made of; an object that has its protobuf already is not converted again."""
    body = answer.body
    if isinstance(body, bytes):
        return len(body)
    if isinstance(body, dict):
        return 0
    entries = body.entries if isinstance(body, StoredList) else (body,)
    is_kept = form.protobuf and not form.kind
    return sum(len(entry.text) for entry in entries if not (is_kept and entry.is_encoded))


def _protobuf_of(answer: ApiResponse, served: Kind) -> bytes:
    body, resource = answer.body, served.resource
    if isinstance(body, StoreEntry):
        return _protobuf_of_entry(body, served)
    if not isinstance(body, StoredList):
        return document_bytes(answer.document)
    encode_item = message_encoder(served.definition)
    if served.stored is None:
        items = (entry.encoded(encode_item) for entry in body.entries)
    else:
        items = (message_bytes(served_document(served, entry), served.definition) for entry in body.entries)
    return list_bytes(resource.api_version, list_kind(served), body.metadata, items)


def _protobuf_of_entry(entry: StoreEntry, served: Kind) -> bytes:
    resource = served.resource
    return with_type(resource.api_version, resource.kind, entry.encoded(message_encoder(served.definition)))


def stream_type(form: ResponseFormat) -> str:
    """The content type of a watch."""
    return f"{PROTOBUF};stream=watch" if form.protobuf else JSON


def watch_lines(view: ResponseView, now: Now) -> Lines:
    """The encoder of a watch's events; only the first line of a Table has column definitions."""
    if view.form.protobuf:
        return lambda events: b"".join([_frame(event, view, now) for event in events])
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


def _frame(event: SerializedEvent, view: ResponseView, now: Now) -> bytes:
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
    `has_table`: whether the resource can be a table; reviews and subresources that are no objects cannot.
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
