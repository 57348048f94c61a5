"""Decodes request bodies into documents of an expected kind, strictly if the client asks for it.

Unknown fields and nulls stay in the document. A megabyte of JSON takes 50 ms to decode and check, a megabyte of YAML
ten times that, so large bodies are decoded in a thread.

Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self, TypeVar, TypeVarTuple

import msgspec

from pykubelet.api.errors import BadRequest, Invalid
from pykubelet.api.field_errors import go_quote
from pykubelet.api.field_errors import invalid as invalid_value
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import OBJECT_META, definition_of
from pykubelet.api.serializer import Document
from pykubelet.api.strict import StrictDecodingError, check_metadata, check_object
from pykubelet.api.yaml.parser import YamlError
from pykubelet.api.yaml.read import read_json_stream, read_stream
from pykubelet.apiserver.errors import invalid, namespace_mismatch, unknown_format
from pykubelet.apiserver.handlers.options import IGNORE, STRICT, WriteOptions, write_options
from pykubelet.apiserver.request import ApiRequest, ApiResponse
from pykubelet.apiserver.serializer.decode_errors import fatal_error, path_text, unknown_fields
from pykubelet.apiserver.serializer.json_syntax import syntax_error
from pykubelet.apiserver.serializer.protobuf_decoder import read_protobuf
from pykubelet.kinds.kind import Kind

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
_SHOWN_BYTES = 30
_INTERNAL_PACKAGES = {"": "core", "events": "core"}
_TYPE_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
Describe = Callable[[Any, str, list[StrictDecodingError]], str | None]
_VALUE_NAMES = {list: "array", str: "string", int: "number", float: "number", bool: "bool"}


class ParsedBody(NamedTuple):
    """A decoded value, and the paths of fields that appeared more than once."""

    value: Any
    duplicates: list[str]


def parse_json(body: bytes) -> ParsedBody:
    """Decodes JSON; ValueError with Go's message if it is invalid."""
    try:
        value = msgspec.json.decode(body)
        # Decoding drops repeated keys, so fewer quotes come out than went in; only an escaped quote could hide that.
        if b"\\u0022" not in body and body.count(b'"') == msgspec.json.encode(value).count(b'"'):
            return ParsedBody(value, [])
        return ParsedBody(value, _duplicates(body.decode()))
    except (ValueError, OverflowError, RecursionError):
        # Go accepts invalid UTF-8 and some numbers that msgspec rejects.
        pass
    return _parse_slowly(body)


def parse_yaml(body: bytes) -> ParsedBody:
    """Decodes a single YAML document; ValueError if it is invalid."""
    documents, errors = read_stream(body)
    if errors:
        raise ValueError(errors[0].upstream)
    if not documents:
        return ParsedBody(None, [])
    first = documents[0]
    return ParsedBody(first.value, [path_text(duplicate.path) for duplicate in first.duplicates()])


PARSERS: Mapping[str, Callable[[bytes], ParsedBody]] = {
    JSON: parse_json,
    "": parse_json,
    YAML: parse_yaml,
    PROTOBUF: lambda body: ParsedBody(read_protobuf(body), []),
}
"""The parser of each media type; each raises ValueError."""
# Fields that a client cannot set.
_SYSTEM_FIELDS = frozenset({"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"})
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
# Below this size a thread costs more than it saves: 3 ms of JSON.
LARGE_BYTES = 64 * 1024
# More threads would only take turns with the event loop more often, and hold more memory.
_THREADS = ThreadPoolExecutor(2, "large-object")
# YAML takes ten times as long, and its aliases can stand for a hundred times as many values.
_LARGE_YAML_BYTES = 4 * 1024


class ExpectedKind(NamedTuple):
    """The kind that a body must be of; `definition` is empty for a custom resource."""

    api_version: str
    kind: str
    definition: str = ""

    @classmethod
    def of(cls, served: Kind) -> Self:
        return cls(served.resource.api_version, served.resource.kind, served.definition)


class DecodedObject(NamedTuple):
    """An object of the expected kind, and the problems that strict decoding found."""

    document: Document
    problems: list[str]


def read_object(body: bytes, content_type: str, expected: ExpectedKind) -> DecodedObject:
    """Decodes an object; BadRequest if it is not of the kind, UnsupportedMediaType for an unknown content type."""
    media_type = content_type.partition(";")[0].strip().lower()
    parse = PARSERS.get(media_type)
    if parse is None or (media_type == PROTOBUF and not expected.definition):
        raise unknown_format(JSON, YAML, PROTOBUF) if expected.definition else unknown_format(JSON, YAML)
    try:
        value, duplicates = parse(body)
    except ValueError as error:
        why = _unreadable(media_type, str(error))
        raise _unrecognized(expected, why, body) from error
    document = _typed(value, expected, body)
    problems = check_types(document, expected)
    repeated = [f'duplicate field "{path}"' for path in duplicates]
    if problems and repeated and parse is parse_json:
        # Upstream decodes a custom resource into a map first, and checks its fields afterwards.
        return DecodedObject(
            document, _in_order_of_text(problems, body) if expected.definition else repeated + problems
        )
    return DecodedObject(document, problems + repeated)


def is_large(request: ApiRequest) -> bool:
    """Whether the object in the request's body may take long to decode and check."""
    return len(request.body) > (_LARGE_YAML_BYTES if "yaml" in request.content_type.lower() else LARGE_BYTES)


async def decode_in_thread(request: ApiRequest, read: Callable[[*Ts], T], *args: *Ts) -> T:
    """Runs `read`, in a thread if the request's body is large; `read` must not change anything but the request."""
    return await in_thread(read, *args) if is_large(request) else read(*args)


async def in_thread(work: Callable[[*Ts], T], *args: *Ts) -> T:
    """Runs work on a large object in one of the few threads for it."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work, *args)


def check_types(document: Document, expected: ExpectedKind) -> list[str]:
    """The problems that strict decoding finds in a document; BadRequest if a value has the wrong type."""
    fatal, unknown = type_problems(document, expected)
    if fatal:
        raise BadRequest(_not_a(expected, fatal))
    return unknown


def type_problems(
    document: Document, expected: ExpectedKind, describe: Describe = fatal_error
) -> tuple[str | None, list[str]]:
    """Go's message for the first value of the wrong type, and the unknown fields."""
    definition = expected.definition
    findings = check_object(document, definition) if definition else check_metadata(document, OBJECT_META)
    if not findings:
        return None, []
    # Only the metadata of a custom resource has a definition, the same as that of any kind.
    return describe(document, definition or "core.v1.ConfigMap", findings), unknown_fields(findings)


def warnings_of(problems: list[str], validation: str, expected: ExpectedKind) -> tuple[str, ...]:
    """The warnings for the client; BadRequest if it asked for strict validation."""
    if not problems or validation == IGNORE:
        return ()
    if validation == STRICT:
        raise BadRequest(_not_a(expected, f"strict decoding error: {', '.join(problems)}"))
    return tuple(problems)


def _unreadable(media_type: str, why: str) -> str:
    if media_type == PROTOBUF:
        return why
    return f"error converting YAML to JSON: {why}" if media_type == YAML else _no_version(why)


def _parse_slowly(body: bytes) -> ParsedBody:
    if problem := syntax_error(body):
        raise ValueError(problem)
    text = body.decode("utf-8", "replace")
    try:
        found = read_json_stream(text, 1)
    except YamlError as error:
        raise ValueError(error.message) from error
    assert found
    return ParsedBody(found[0].value, _duplicates(text) if found[0].repeats_key else [])


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as a list of pairs, repeated keys included."""


def _duplicates(text: str) -> list[str]:
    """The paths of repeated keys, each once, in the order of the text."""
    repeated = dict.fromkeys(path for path, is_repeated in _keys(text) if is_repeated)
    return list(dict.fromkeys(map(path_text, repeated)))


def _in_order_of_text(unknown: list[str], body: bytes) -> list[str]:
    """The messages for unknown and repeated fields in Go's order; Go does not descend into unknown fields."""
    found: dict[str, None] = {}
    messages = frozenset(unknown)
    within = "\0"
    for parts, is_repeated in _keys(body.decode("utf-8", "replace")):
        path = path_text(parts)
        message = f'unknown field "{path}"'
        if message in messages:
            found[message] = None
            within = path
        elif is_repeated and not path.startswith((f"{within}.", f"{within}[")):
            found[f'duplicate field "{path}"'] = None
    return list(found)


def _keys(text: str) -> Iterator[tuple[tuple[str | int, ...], bool]]:
    """The paths of all keys in the order of the text, and whether each repeats an earlier one."""
    pending: list[tuple[tuple[str | int, ...], Any, bool]] = [((), json.loads(text, object_pairs_hook=_Pairs), False)]
    while pending:
        path, value, is_repeated = pending.pop()
        if path and isinstance(path[-1], str):
            yield path, is_repeated
        inner: list[tuple[tuple[str | int, ...], Any, bool]] = []
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for key, item in value:
                inner.append(((*path, key), item, key in seen))
                seen.add(key)
        elif isinstance(value, list):
            inner = [((*path, index), item, False) for index, item in enumerate(value)]
        pending += reversed(inner)


def _typed(value: Any, expected: ExpectedKind, body: bytes) -> Document:
    """The value as an object of the expected kind; missing kind and apiVersion are filled in."""
    if value is None:
        value = {}
    if not isinstance(value, dict):
        text = f"json: cannot unmarshal {_VALUE_NAMES[type(value)]} into Go value of type {_TYPE_META}"
        raise _unrecognized(expected, _no_version(text), body)
    for name in ("apiVersion", "kind"):
        if not isinstance(value.get(name) or "", str):
            shown = _VALUE_NAMES.get(type(value[name]), "object")
            text = f"json: cannot unmarshal {shown} into Go struct field .{name} of type string"
            raise _unrecognized(expected, _no_version(text), body)
    kind, api_version = value.get("kind"), value.get("apiVersion")
    if not kind and not expected.definition:
        text = body.decode("utf-8", "replace")
        raise _unrecognized(expected, f"Object 'Kind' is missing in '{text}'", body)
    if api_version and api_version.count("/") > 1:
        raise _unrecognized(expected, f"unexpected GroupVersion string: {api_version}", body)
    kind, api_version = kind or expected.kind, api_version or expected.api_version
    if not expected.definition and kind != expected.kind and api_version == expected.api_version:
        raise other_kind(value, kind, expected)
    if (kind, api_version) != (expected.kind, expected.api_version):
        raise BadRequest(_mismatch(kind, api_version, expected))
    rest = {key: item for key, item in value.items() if key not in ("kind", "apiVersion", "metadata")}
    # Later steps rely on metadata being present, though not on its type.
    metadata = {} if value.get("metadata") is None else value["metadata"]
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata, **rest}


def other_kind(document: Document, kind: str, expected: ExpectedKind) -> Invalid:
    """Upstream's error for a custom resource of another kind, which it validates as a field."""
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    errors = [invalid_value("kind", kind, f"must be {expected.kind}")]
    return invalid(kind, expected.api_version.rpartition("/")[0], name if isinstance(name, str) else "", errors)


def _mismatch(kind: str, api_version: str, expected: ExpectedKind) -> str:
    """Upstream's error for an object of another kind or version."""
    same_kind = kind == expected.kind
    if not expected.definition or (same_kind and definition_of(api_version, kind)):
        return f"the API version in the data ({api_version}) does not match the expected API version ({expected.api_version})"
    version = api_version.rpartition("/")[2]
    if definition_of(api_version, kind) or _is_list(api_version, kind):
        group = expected.api_version.rpartition("/")[0].partition(".")[0]
        package = _INTERNAL_PACKAGES.get(group, group)
        why = f"converting ({version}.{kind}) to ({package}.{expected.kind}): unknown conversion"
    else:
        scheme = '"pkg/api/legacyscheme/scheme.go:30"'
        why = f"no kind {go_quote(kind)} is registered for version {go_quote(api_version)} in scheme {scheme}"
    return f"{kind} in version {go_quote(version)} cannot be handled as a {expected.kind}: {why}"


def _is_list(api_version: str, kind: str) -> bool:
    """Whether upstream has a list type of this name."""
    item = kind.removesuffix("List")
    return item != kind and ((api_version, kind) == ("v1", "List") or bool(definition_of(api_version, item)))


def _not_a(expected: ExpectedKind, why: str) -> str:
    version = expected.api_version.rpartition("/")[2]
    return f'{expected.kind} in version "{version}" cannot be handled as a {expected.kind}: {why}'


def _no_version(why: str) -> str:
    return f"couldn't get version/kind; json parse error: {why}"


def _unrecognized(expected: ExpectedKind, why: str, body: bytes) -> BadRequest:
    shown = "<empty>"
    if body:
        start = body[:_SHOWN_BYTES]
        shown = start.decode("utf-8", "replace") if body.startswith(b"{") else start.hex()
        shown += " ..." if len(body) > _SHOWN_BYTES else ""
    return BadRequest(f"the object provided is unrecognized (must be of type {expected.kind}): {why} ({shown})")


class PostedObject(NamedTuple):
    """An object posted to a resource that stores nothing, such as a review, and its options."""

    document: Document
    options: WriteOptions
    definition: str

    def answer(self, document: Document) -> ApiResponse:
        """The 201 response with the completed object."""
        return ApiResponse(body=normal_form(document, self.definition), code=201)


def read_posted_object(request: ApiRequest, expected: ExpectedKind) -> PostedObject:
    """Decodes a posted object; raises ApiError if it is of another kind or namespace."""
    options = write_options(request.query, "CreateOptions")
    decoded = read_object(request.body, request.content_type, expected)
    request.warnings.extend(warnings_of(decoded.problems, options.field_validation, expected))
    document = normal_form(decoded.document, expected.definition)
    # The uid stays: a token request names its account by it, and a review must not have one.
    metadata = {field: value for field, value in document["metadata"].items() if field not in _SYSTEM_FIELDS}
    if not request.subresource:
        metadata.pop("uid", None)
    if request.namespace and metadata.setdefault("namespace", request.namespace) != request.namespace:
        raise namespace_mismatch()
    if not request.namespace:
        metadata.pop("namespace", None)
    return PostedObject(document | {"metadata": metadata}, options, expected.definition)
