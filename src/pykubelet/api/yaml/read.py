"""Reads YAML and JSON streams into plain documents, like kubectl, and finds the positions of fields.

Every readable document is returned, along with the errors of the others. A text that starts with `{` is tried as JSON
first, with Go's numbers: 64-bit integers are ints, all others floats even if whole, because a Go int field rejects
`8.0`. Positions are needed only for errors, so reading does not compute them: `Source` keeps the text and parses it a
second time on the first query.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/yaml/decoder.go, vendor/sigs.k8s.io/json/json.go
"""

import json
import math
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple, NoReturn

from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from pykubelet.api.quantity import MAX_INT64, MIN_INT64
from pykubelet.api.yaml.parser import (
    MAX_DEPTH,
    MAX_NODES,
    PARSER_ERRORS,
    Builder,
    NextEvent,
    Position,
    YamlError,
    is_merge,
    open_events,
    position_of,
)
from pykubelet.api.yaml.scalars import ScalarError, as_key, resolve, without_surrogates

Path = tuple[str | int, ...]


class Duplicate(NamedTuple):
    """A key that occurs twice in one object, and the position of the first occurrence."""

    path: Path
    at: Position
    first: Position


class _ValuePosition(NamedTuple):
    """A value's position, and its fields or elements with the positions of their keys."""

    at: Position
    children: dict[str | int, tuple[Position, "_ValuePosition"]]
    key_text: str | None = None


_NONE: dict[str | int, tuple[Position, _ValuePosition]] = {}


class Source:
    """A text of one or more documents; computes positions on demand."""

    def __init__(self, text: bytes, start: Position) -> None:
        self._text = text
        self._start = start
        self._walked: list[_Walk] = []
        self._walks = self._walk_all()

    def duplicates(self, ordinal: int) -> list[Duplicate]:
        """Returns the repeated keys of a document."""
        walk = self._walk(ordinal)
        return walk.duplicates if walk else []

    def find(self, ordinal: int, path: Path) -> tuple[Position | None, Position | None]:
        """Returns the positions of a key (or list element) and its value; the nearest parent's if it has none."""
        walk = self._walk(ordinal)
        if walk is None:
            return None, None
        place = walk.root
        key = place.at
        for step in path:
            if step not in place.children:
                break
            key, place = place.children[step]
        return key, place.at

    def _walk(self, ordinal: int) -> "_Walk | None":
        # Only documents within the limits were read, so only those are parsed again.
        self._walked += islice(self._walks, max(0, ordinal + 1 - len(self._walked)))
        return self._walked[ordinal] if ordinal < len(self._walked) else None

    def _walk_all(self) -> Iterator["_Walk"]:
        try:
            next_event = open_events(self._text)
            while not isinstance(event := next_event(), StreamEndEvent):
                if isinstance(event, DocumentStartEvent):
                    yield _Walk(next_event, self._start)
        except PARSER_ERRORS:
            # A JSON text need not be valid YAML; its fields then have no positions.
            return


class _Walk:
    """Collects the positions and duplicate keys of one document."""

    def __init__(self, next_event: NextEvent, start: Position) -> None:
        self.duplicates: list[Duplicate] = []
        self._next = next_event
        self._start = start
        self._anchors: dict[str, _ValuePosition] = {}
        self.root = self._place(next_event(), ())

    def _place(self, event: Event, path: Path) -> _ValuePosition:
        line, column = position_of(event, self._start.line)
        # If the text starts within a line, only the columns of that line shift.
        at = Position(line, column + self._start.column - 1 if line == self._start.line else column)
        if isinstance(event, AliasEvent):
            target = self._anchors[event.anchor or ""]
            return _ValuePosition(at, target.children, target.key_text)
        # Most values are scalars, which share one empty dict.
        place = (
            _ValuePosition(at, _NONE, _key_text(event)) if isinstance(event, ScalarEvent) else _ValuePosition(at, {})
        )
        if anchor := getattr(event, "anchor", None):
            self._anchors[anchor] = place
        if isinstance(event, MappingStartEvent):
            self._mapping(place, path)
        elif isinstance(event, SequenceStartEvent):
            index = 0
            while not isinstance(item := self._next(), SequenceEndEvent):
                element = self._place(item, (*path, index))
                place.children[index] = (element.at, element)
                index += 1
        return place

    def _mapping(self, place: _ValuePosition, path: Path) -> None:
        own: dict[str, Position] = {}
        while not isinstance(event := self._next(), MappingEndEvent):
            if is_merge(event):
                self._merge(place, path)
                continue
            key = self._place(event, path)
            name = key.key_text or ""
            if name in own:
                self.duplicates.append(Duplicate((*path, name), key.at, own[name]))
            own.setdefault(name, key.at)
            place.children[name] = (key.at, self._place(self._next(), (*path, name)))

    def _merge(self, place: _ValuePosition, path: Path) -> None:
        event = self._next()
        merged = self._place(event, path)
        if not isinstance(event, SequenceStartEvent):
            place.children.update(merged.children)
            return
        for _, element in reversed(merged.children.values()):
            place.children.update(element.children)


def _key_text(event: ScalarEvent) -> str | None:
    try:
        return as_key(resolve(event.tag, event.value, plain=event.implicit[0]))
    except ScalarError:
        return None


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
    if len(digits) <= _LONGEST_INT and MIN_INT64 <= (number := int(digits)) <= MAX_INT64:
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
        return self.source.find(self.ordinal, path)[0] or self.at

    def value_position(self, path: Path) -> Position:
        """Returns the position of the value of a field, or of its nearest parent in the text."""
        return self.source.find(self.ordinal, path)[1] or self.at

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
