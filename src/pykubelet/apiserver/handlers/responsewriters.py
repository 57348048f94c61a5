"""The Accept header to the form of an answer.

In: the header, and what the place it was sent to can give. Out: a `Form`, or NotAcceptable if a client takes nothing
we have. Protobuf is passed over, so a client that also takes JSON gets that.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go, munnerz/goautoneg.

Answers and events as a client wants them: as they are, a Table, metadata alone; JSON or YAML.

In: what the verbs answered, the negotiated `Form`, the query and the time. Out: a `Reply`, or the lines of a watch.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go.

The events of a watch as the lines of its answer.

In: events, each with the JSON text of its object. Out: one text for each batch, so that a batch is one write.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{watch,response}.go.

An HTTP answer as a value, and the few that are the same everywhere.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/{writers,errors}.go.

Warnings as HTTP headers: each once, none that a header cannot hold, and not endlessly many.

In: texts in the order in which they were found. Out: values of headers.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/warning.go, NewWarningHeader in apimachinery/pkg/util/net/http.go
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from pykubelet.api.errors import ApiError, NotAcceptable
from pykubelet.api.serializer import Document, decode_document, encode, indented
from pykubelet.api.yaml.write import to_yaml
from pykubelet.apiserver.request import ApiResponse, SerializedEvent
from pykubelet.httpserver.response import HttpResponse
from pykubelet.kinds.kind import Kind

META_GROUP = "meta.k8s.io"
META_VERSIONS = ("v1", "v1beta1")
DISCOVERY_GROUP = "apidiscovery.k8s.io"
TABLE = "Table"
PARTIAL = "PartialObjectMetadata"
PARTIAL_LIST = "PartialObjectMetadataList"
GROUP_DISCOVERY = "APIGroupDiscoveryList"

# People who type a URL into one of these want to read the answer.
_HUMAN_AGENTS = ("curl", "Wget", "Mozilla/5.0")
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_SUBTYPES = {"json": False, "yaml": True}
_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_STREAM_TYPES = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """How an answer is written: as what kind (empty: as it is), of which version, as YAML or JSON, indented or not."""

    kind: str = ""
    version: str = ""
    yaml: bool = False
    pretty: bool = False


@dataclass(frozen=True, slots=True)
class _Clause:
    type: str
    subtype: str
    quality: float
    parameters: Mapping[str, str]


PLAIN = ResponseFormat()


@lru_cache(maxsize=256)
def object_form(accept: str, *, stream: bool = False) -> ResponseFormat:
    """The form for objects, lists and watches; raises NotAcceptable."""
    if not accept:
        return PLAIN
    for clause in _clauses(accept):
        form = _as_form(clause)
        if form is None or (stream and form.yaml):
            continue
        if not form.kind or (form.kind in (TABLE, PARTIAL, PARTIAL_LIST) and form.version in META_VERSIONS):
            return form
    raise NotAcceptable(_acceptable(stream=stream))


@lru_cache(maxsize=256)
def plain_form(accept: str) -> ResponseFormat:
    """The form for what is never shown as another kind, discovery below /api and /apis say; raises NotAcceptable."""
    if not accept:
        return PLAIN
    for form in map(_as_form, _clauses(accept)):
        if form is not None and not form.kind:
            return form
    raise NotAcceptable(_acceptable(stream=False))


def error_form(accept: str) -> ResponseFormat:
    """The form for a Status: JSON if nothing the client takes can be had, so that an error never hides behind another."""
    try:
        return plain_form(accept)
    except NotAcceptable:
        return PLAIN


@lru_cache(maxsize=64)
def discovery_form(accept: str) -> ResponseFormat:
    """The form for /api and /apis: aggregated if asked for before anything plain; raises NotAcceptable."""
    forms = [form for form in map(_as_form, _clauses(accept)) if form is not None] if accept else [PLAIN]
    for form in forms:
        if form.kind == GROUP_DISCOVERY or not form.kind:
            return form
    raise NotAcceptable(_acceptable(stream=False))


def wants_pretty(form: ResponseFormat, query: Mapping[str, str], user_agent: str) -> bool:
    """Whether the answer is indented: the parameter `pretty` decides, else whether a person seems to ask."""
    if form.pretty:
        return True
    if asked := query.get("pretty"):
        return asked in _TRUE
    return user_agent.startswith(_HUMAN_AGENTS)


@lru_cache(maxsize=64)
def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an Accept-Encoding header allows gzip."""
    for part in accept_encoding.split(","):
        coding, _, parameters = part.strip().partition(";")
        if coding.strip().lower() == "gzip":
            return _quality(parameters.strip().removeprefix("q=")) > 0
    return False


def _acceptable(*, stream: bool) -> str:
    # Upstream's words. They name protobuf, which we give nobody: a client that takes nothing else is one we cannot serve.
    types = _STREAM_TYPES if stream else _TYPES
    return f"only the following media types are accepted: {', '.join(types)}"


def _as_form(clause: _Clause) -> ResponseFormat | None:
    if clause.subtype == "*" and clause.type in ("*", "application"):
        yaml = False
    elif clause.type == "application" and clause.subtype in _SUBTYPES:
        yaml = _SUBTYPES[clause.subtype]
    else:
        return None
    parameters = clause.parameters
    if parameters.get("stream", "watch") != "watch" or parameters.get("sv"):
        return None
    pretty = parameters.get("pretty") == "1"
    if not ({"as", "g", "v"} & parameters.keys()):
        return ResponseFormat(yaml=yaml, pretty=pretty)
    kind, group, version = (parameters.get(key, "") for key in ("as", "g", "v"))
    known = (group == META_GROUP and kind in (TABLE, PARTIAL, PARTIAL_LIST) and version in META_VERSIONS) or (
        group == DISCOVERY_GROUP and kind == GROUP_DISCOVERY and version == "v2"
    )
    return ResponseFormat(kind, version, yaml=yaml, pretty=pretty) if known else None


def _clauses(accept: str) -> list[_Clause]:
    """The clauses of a header: better quality first, then the more specific, then in their order."""
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


# All texts together, and each of them once they are more than that; in characters.
_MOST_WARNINGS = 4096
_LONGEST_WARNING = 256
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def warning_headers(warnings: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The headers that tell a client of these."""
    texts = [text for text in dict.fromkeys(warnings) if text and not _UNFIT.search(text)]
    return tuple(("Warning", f"299 - {_quoted(text)}") for text in _within_bounds(texts))


def _within_bounds(texts: list[str]) -> list[str]:
    """The texts; all of them cut short if they are too much together, and so many of these as fit."""
    total = fitting = 0
    for text in texts:
        fitting += 1
        total += len(text)
        if total > _MOST_WARNINGS:
            break
    else:
        return texts
    # Those up to the one that was too much are told in any case.
    cut = [text[:_LONGEST_WARNING] for text in texts]
    written = sum(map(len, cut[:fitting]))
    while fitting < len(cut) and written < _MOST_WARNINGS:
        written += len(cut[fitting])
        fitting += 1
    return cut[:fitting]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


YAML = "application/yaml"


def document_reply(document: Document, form: ResponseFormat, *, pretty: bool, code: int = 200) -> HttpResponse:
    """A document in the form asked for, as JSON or YAML."""
    if form.yaml:
        return HttpResponse(code, to_yaml(document).encode(), YAML)
    text = encode(document)
    return HttpResponse(code, indented(text) if pretty else text)


def error_reply(error: ApiError, accept: str, query: Mapping[str, str], user_agent: str) -> HttpResponse:
    """An error as a Status."""
    form = error_form(accept)
    reply = document_reply(error.to_status(), form, pretty=wants_pretty(form, query, user_agent), code=error.code)
    headers = warning_headers(error.warnings)
    if error.retry_after_seconds is not None:
        headers += (("Retry-After", str(math.ceil(error.retry_after_seconds))),)
    return reply._replace(headers=headers) if headers else reply


Lines = Callable[[Iterable[SerializedEvent]], bytes]
"""Makes the lines of a batch."""
Shown = Callable[[bytes], bytes]
"""The object of an event in another form, as JSON."""

_HEADS = {
    kind: f'{{"type":"{kind}","object":'.encode() for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
}
_TAIL = b"}\n"


def plain_lines(events: Iterable[SerializedEvent]) -> bytes:
    """Each object as it is stored."""
    parts: list[bytes] = []
    for event in events:
        parts += (_HEADS[event.type], event.object, _TAIL)
    return b"".join(parts)


def shown_lines(shown: Shown) -> Lines:
    """Each object in another form; an error stays the Status that it is."""

    def lines(events: Iterable[SerializedEvent]) -> bytes:
        parts: list[bytes] = []
        for event in events:
            text = event.object if event.type == "ERROR" else shown(event.object)
            parts += (_HEADS[event.type], text, _TAIL)
        return b"".join(parts)

    return lines


Now = Callable[[], datetime]
# Two hundred pods or so, whose table takes a few milliseconds.
_LONG_BYTES = 256 * 1024


class ResponseView(NamedTuple):
    """How a client wants to see what it asked for."""

    form: ResponseFormat
    pretty: bool
    served: Kind
    include: str = ""


def view_of(form: ResponseFormat, served: Kind, query: Mapping[str, str], *, pretty: bool) -> ResponseView:
    """How this request wants to see a resource."""
    return ResponseView(form, pretty, served, query.get("includeObject", ""))


def takes_long(answer: ApiResponse, view: ResponseView) -> bool:
    """Whether it takes so long to show an answer that others must not wait for it."""
    is_as_stored = not (view.form.kind or view.form.yaml or view.pretty)
    return not is_as_stored and isinstance(answer.body, bytes) and len(answer.body) > _LONG_BYTES


def answer_reply(answer: ApiResponse, view: ResponseView, now: Now) -> HttpResponse:
    """The HTTP answer."""
    form = view.form
    if form.kind or form.yaml:
        document = _shown(answer.document, view, now(), headers=True) if form.kind else answer.document
        reply = document_reply(document, form, pretty=view.pretty, code=answer.code)
    else:
        text = answer.text
        reply = HttpResponse(answer.code, indented(text) if view.pretty else text)
    return reply._replace(headers=warning_headers(answer.warnings)) if answer.warnings else reply


def watch_lines(view: ResponseView, now: Now) -> Lines:
    """What makes the lines of a watch; a Table has its columns in the first of them only."""
    if not view.form.kind:
        return plain_lines
    headers = True

    def shown(text: bytes) -> bytes:
        nonlocal headers
        document = _shown(decode_document(text), view, now(), headers=headers)
        headers = False
        return encode(document)

    return shown_lines(shown)


def _shown(document: Document, view: ResponseView, now: datetime, *, headers: bool) -> Document:
    # Most programs never ask for another form, so what makes them is loaded when one does.
    from pykubelet.apiserver.tables.table import as_partial, as_partial_list, as_table

    kind, version = view.form.kind, view.form.version
    if kind == TABLE:
        return as_table(document, view.served, include=view.include, now=now, headers=headers, version=version)
    if kind == PARTIAL_LIST:
        return as_partial_list(document, version=version)
    assert kind == PARTIAL
    return as_partial(document, version=version)
