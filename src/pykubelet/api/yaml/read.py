"""Reads YAML and JSON streams into plain documents, like kubectl.

Every readable document is returned, along with the errors of the others. A text that starts with `{` is tried as JSON
first, with Go's numbers: 64-bit integers are ints, all others floats even if whole, because a Go int field rejects
`8.0`.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/yaml/decoder.go, vendor/sigs.k8s.io/json/json.go
"""

import json
import math
import re
from typing import Any, NamedTuple, NoReturn

from pykubelet.api.yaml.parser import MAX_DEPTH, MAX_NODES, Builder, Position, YamlError
from pykubelet.api.yaml.positions import Duplicate, Path, Source
from pykubelet.api.yaml.scalars import INT_MAX, INT_MIN, without_surrogates

_SPACE = re.compile(r"[ \t\r\n]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# An int64 has at most 19 digits and a sign.
_LONGEST_INT = 20


class JsonObject(NamedTuple):
    """One object of a JSON stream: its value, its offsets, and whether it repeats a key."""

    value: Any
    start: int
    end: int
    repeats_key: bool


def read_json_stream(text: str, max_objects: int) -> list[JsonObject] | None:
    """Reads every object of a JSON text; None if it is not JSON, YamlError if it exceeds the limits."""
    repeated: list[bool] = []
    decoder = _decoder(repeated)
    found: list[JsonObject] = []
    nodes = 0
    start = _skip_space(text, 0)
    try:
        while start < len(text):
            if len(found) == max_objects:
                raise YamlError(f"the text has more than {max_objects} documents")
            repeated.clear()
            value, end = decoder.raw_decode(text, start)
            nodes += _count_nodes(value)
            if nodes > MAX_NODES:
                raise YamlError(f"the text has more than {MAX_NODES} nodes")
            if _SURROGATE.search(text, start, end):
                value = _without_lone_surrogates(value)
            found.append(JsonObject(value, start, end, bool(repeated)))
            start = _skip_space(text, end)
    except json.JSONDecodeError:
        return None
    except RecursionError as error:
        raise _too_deep() from error
    return found


def _too_deep() -> YamlError:
    return YamlError(f"nested more than {MAX_DEPTH} levels deep")


def _decoder(repeated: list[bool]) -> json.JSONDecoder:
    def unite(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        united = dict(pairs)
        if len(united) != len(pairs):
            repeated.append(True)
        return united

    return json.JSONDecoder(
        object_pairs_hook=unite, parse_int=_integer, parse_float=_floating, parse_constant=_refuse_constant
    )


def _skip_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _integer(digits: str) -> int | float:
    if len(digits) <= _LONGEST_INT and INT_MIN <= (number := int(digits)) <= INT_MAX:
        return number
    return _floating(digits)


def _floating(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise YamlError(f"the number {digits:.20} is too large")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is not JSON", name, 0)


def _count_nodes(value: Any) -> int:
    """Counts values and keys; raises YamlError if they are nested too deeply."""
    nodes, level = 1, [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH + 1):
        children = [parent.values() if isinstance(parent, dict) else parent for parent in level]
        nodes += sum(len(parent) * (2 if isinstance(parent, dict) else 1) for parent in level)
        level = [child for family in children for child in family if isinstance(child, dict | list)]
        if not level:
            return nodes
    raise _too_deep()


def _without_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [_without_lone_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {without_surrogates(key): _without_lone_surrogates(item) for key, item in value.items()}
    return value


__all__ = ["MAX_BYTES", "YamlDocument", "YamlError", "YamlStream", "read_stream", "read_yaml"]

# The kubelet reads at most this much of a manifest.
MAX_BYTES = 10 * 1024 * 1024
# Far more than fit into MAX_BYTES if each is a real object.
MAX_DOCUMENTS = 100_000
# A text with more broken documents is not a manifest.
_MAX_ERRORS = 20
_SEPARATOR = re.compile(rb"^---(?=\s|\Z)", re.MULTILINE)


class YamlDocument(NamedTuple):
    """One document of a stream: its value, its position, and the source of its fields' positions."""

    value: Any
    at: Position
    source: Source
    ordinal: int
    repeats_key: bool

    def key_position(self, path: Path) -> Position:
        """Returns the position of the key of a field, or of its nearest parent in the text."""
        return self.source.key(self.ordinal, path) or self.at

    def value_position(self, path: Path) -> Position:
        """Returns the position of the value of a field, or of its nearest parent in the text."""
        return self.source.value(self.ordinal, path) or self.at

    def duplicates(self) -> tuple[Duplicate, ...]:
        """Returns the keys given twice in one object."""
        if not self.repeats_key:
            return ()
        # A JSON text that the YAML parser rejects repeats a key at an unknown position.
        return tuple(self.source.duplicates(self.ordinal)) or (Duplicate((), self.at, self.at),)


class YamlStream(NamedTuple):
    """The documents that could be read, and the errors of the others."""

    documents: list[YamlDocument]
    errors: list[YamlError]


def read_yaml(data: bytes, *, strict: bool = False, max_bytes: int = MAX_BYTES) -> Any:
    """Reads a text with one document (None if empty); raises YamlError.

    Of a repeated key the last value counts, as for kubectl; `strict` rejects it.
    """
    documents, errors = read_stream(data, max_bytes=max_bytes)
    if errors:
        raise errors[0]
    if not documents:
        return None
    document, *others = documents
    if others:
        line, column = others[0].at
        raise YamlError("expected one document, found a second", line=line, column=column)
    for path, at, first in document.duplicates() if strict else ():
        name = f'key "{path[-1]}"' if path else "a key"
        raise YamlError(f"{name} is already set at line {first.line}", line=at.line, column=at.column)
    return document.value


def read_stream(data: bytes, *, max_bytes: int = MAX_BYTES) -> YamlStream:
    """Reads every document of a YAML or JSON text. After an error, reading continues at the next `---`."""
    if len(data) > max_bytes:
        return YamlStream([], [YamlError(f"the text has {len(data)} bytes, more than {max_bytes}")])
    if data.lstrip().startswith(b"{"):
        try:
            documents = _read_json(data)
        except YamlError as error:
            return YamlStream([], [error])
        if documents is not None:
            return YamlStream(documents, [])
    return _read_yaml_stream(data)


def _read_json(data: bytes) -> list[YamlDocument] | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    found = read_json_stream(text, MAX_DOCUMENTS)
    if found is None:
        return None
    documents = []
    line, line_start, counted = 1, 0, 0
    for value, start, end, repeats_key in found:
        if newlines := text.count("\n", counted, start):
            line += newlines
            line_start = text.rindex("\n", counted, start) + 1
        counted = start
        at = Position(line, start - line_start + 1)
        documents.append(YamlDocument(value, at, Source(text[start:end].encode(), at), 0, repeats_key))
    return documents


def _read_yaml_stream(data: bytes) -> YamlStream:
    stream = YamlStream([], [])
    offset, first_line, nodes = 0, 1, 0
    while len(stream.errors) < _MAX_ERRORS:
        text = data[offset:]
        builder = Builder(text, first_line=first_line, nodes=nodes)
        error = _collect(builder, Source(text, Position(first_line, 1)), stream.documents)
        if error is None:
            break
        stream.errors.append(error)
        resume = _next_document(text, max(error.line, builder.document_line + 1) - first_line)
        if not error.line or resume is None:
            break
        offset, first_line, nodes = offset + resume, first_line + text.count(b"\n", 0, resume), builder.nodes
    return stream


def _collect(builder: Builder, source: Source, into: list[YamlDocument]) -> YamlError | None:
    try:
        for ordinal, (value, at, repeats_key) in enumerate(builder.documents()):
            into.append(YamlDocument(value, at, source, ordinal, repeats_key))
            if len(into) > MAX_DOCUMENTS:
                return YamlError(f"the text has more than {MAX_DOCUMENTS} documents")
    except YamlError as error:
        return error
    return None


def _next_document(text: bytes, lines: int) -> int | None:
    """Returns the offset of the first `---` after this many lines."""
    position = 0
    for _ in range(lines):
        position = text.find(b"\n", position) + 1
        if not position:
            return None
    # The parser reads ahead: an error may be reported before the start of its own document.
    match = _SEPARATOR.search(text, max(position, 1))
    return match.start() if match else None
