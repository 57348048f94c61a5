"""The Accept header to the form of an answer.

In: the header, and what the place it was sent to can give. Out: a `Form`, or NotAcceptable if a client takes nothing
we have. Protobuf is passed over, so a client that also takes JSON gets that.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go, munnerz/goautoneg.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pykubelet.api.errors import NotAcceptable

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
class Form:
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


PLAIN = Form()


@lru_cache(maxsize=256)
def object_form(accept: str, *, stream: bool = False) -> Form:
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
def plain_form(accept: str) -> Form:
    """The form for what is never shown as another kind, discovery below /api and /apis say; raises NotAcceptable."""
    if not accept:
        return PLAIN
    for form in map(_as_form, _clauses(accept)):
        if form is not None and not form.kind:
            return form
    raise NotAcceptable(_acceptable(stream=False))


def error_form(accept: str) -> Form:
    """The form for a Status: JSON if nothing the client takes can be had, so that an error never hides behind another."""
    try:
        return plain_form(accept)
    except NotAcceptable:
        return PLAIN


@lru_cache(maxsize=64)
def discovery_form(accept: str) -> Form:
    """The form for /api and /apis: aggregated if asked for before anything plain; raises NotAcceptable."""
    forms = [form for form in map(_as_form, _clauses(accept)) if form is not None] if accept else [PLAIN]
    for form in forms:
        if form.kind == GROUP_DISCOVERY or not form.kind:
            return form
    raise NotAcceptable(_acceptable(stream=False))


def wants_pretty(form: Form, query: Mapping[str, str], user_agent: str) -> bool:
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


def _as_form(clause: _Clause) -> Form | None:
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
        return Form(yaml=yaml, pretty=pretty)
    kind, group, version = (parameters.get(key, "") for key in ("as", "g", "v"))
    known = (group == META_GROUP and kind in (TABLE, PARTIAL, PARTIAL_LIST) and version in META_VERSIONS) or (
        group == DISCOVERY_GROUP and kind == GROUP_DISCOVERY and version == "v2"
    )
    return Form(kind, version, yaml=yaml, pretty=pretty) if known else None


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
