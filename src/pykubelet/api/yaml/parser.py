"""Builds plain documents from PyYAML's parser events, within limits.

The result is what go-yaml v2 and Kubernetes' conversion to JSON produce: string keys, merge keys resolved, aliases
copied. Depth, node count and alias expansion are limited, so no text takes long or exhausts memory. PyYAML only
provides events: its C parser emits them one at a time without recursion (the pure Python parser replaces it where
libyaml is missing).

Upstream: vendor/go.yaml.in/yaml/v2/decode.go
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import yaml
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
    StreamStartEvent,
)
from yaml.reader import ReaderError
from yaml.scanner import ScannerError

from pykubelet.api.serializer import copied
from pykubelet.api.yaml.scalars import (
    MERGE_TAG,
    JsonScalar,
    Scalar,
    ScalarError,
    as_json,
    as_key,
    resolve,
    resolve_plain,
)

_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

# Errors that the parser raises on bad input; Unicode errors come from percent escapes in tags.
PARSER_ERRORS = (yaml.YAMLError, UnicodeError)

NextEvent = Callable[[], Event]


class Position(NamedTuple):
    """A position in a text; both numbers count from 1."""

    line: int
    column: int


class YamlError(ValueError):
    """The text cannot be read. Line and column count from 1; 0 means unknown.

    `upstream` is the message of Go's reader, which gives fewer positions and counts lines differently.
    """

    def __init__(self, message: str, *, line: int = 0, column: int = 0, upstream: str = "") -> None:
        where = f"line {line}: " if line else ""
        super().__init__(f"yaml: {where}{message}")
        self.upstream = upstream or str(self)
        self.message = message
        self.line = line
        self.column = column


def open_events(text: bytes) -> NextEvent:
    """Returns a function that yields the next event of the text, after the start of the stream."""
    # The stubs allow None, which only occurs after the end of the stream.
    next_event = cast("NextEvent", _LOADER(text).get_event)
    start = next_event()
    assert isinstance(start, StreamStartEvent)
    return next_event


def is_merge(event: Event) -> bool:
    """Whether this key is `<<`, which merges another mapping."""
    return isinstance(event, ScalarEvent) and event.value == "<<" and bool(event.implicit[0] or event.tag == MERGE_TAG)


def position_of(event: Event, first_line: int) -> Position:
    """Returns the position of an event in a text that starts at `first_line`."""
    mark = event.start_mark
    assert mark is not None
    return Position(mark.line + first_line, mark.column + 1)


def parser_error(error: Exception, text: bytes, first_line: int) -> YamlError:
    """Converts an error of the parser, with its message and position."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark, opened = error.problem_mark, error.context_mark
        message = error.problem or "unknown problem parsing YAML content"
        upstream = _upstream_message(error, mark.line, message)
        if error.context and opened is not None and opened.line < mark.line:
            # For an open quote the parser reports the end of the text; the opening position is more useful.
            message += f" ({error.context} from line {opened.line + first_line})"
        return YamlError(message, line=mark.line + first_line, column=mark.column + 1, upstream=upstream)
    if isinstance(error, ReaderError):
        before = text[: error.position] if isinstance(error.position, int) else b""
        line_start = before.rfind(b"\n") + 1
        line = before.count(b"\n") + first_line
        return YamlError(str(error.reason), line=line, column=len(before) - line_start + 1)
    return YamlError(f"the text cannot be parsed: {error}")


def _upstream_message(error: yaml.MarkedYAMLError, line: int, message: str) -> str:
    if not line and error.context_mark is not None:
        line = error.context_mark.line
    elif line and isinstance(error, ScannerError):
        line += 1
    where = f"line {line}: " if line else ""
    return f"yaml: {where}{message}"


MAX_DEPTH = 100
# Two thousand full pods, or about 10 MiB; a node costs about 2 microseconds and 100 bytes.
MAX_NODES = 1_000_000
# As much as the largest text has; a long scalar could otherwise be repeated a hundred thousand times.
MAX_ALIAS_CHARACTERS = 10 * 1024 * 1024
# go-yaml allows 99 % of a small document's nodes to come from aliases, and less in larger ones.
_SMALL, _LARGE = 400_000, 4_000_000


class BuiltDocument(NamedTuple):
    """One document: its value, its position, and whether it repeats a key."""

    value: Any
    at: Position
    repeats_key: bool


class _Anchor(NamedTuple):
    """An anchored node; without nodes while it is still being read."""

    value: Any
    nodes: int
    height: int
    characters: int


class Builder:
    """Builds the documents of one text; raises YamlError at the first invalid one.

    `document_line` is the line of the newest document, `nodes` the number of nodes built so far.
    """

    def __init__(self, text: bytes, *, first_line: int = 1, nodes: int = 0) -> None:
        self._text = text
        self._first_line = first_line
        self.nodes = nodes
        self.document_line = 0
        self._begin_document()

    def documents(self) -> Iterator[BuiltDocument]:
        """Yields every document; an empty one has the value None."""
        try:
            self._next = open_events(self._text)
            while type(event := self._next()) is not StreamEndEvent:
                if type(event) is not DocumentStartEvent:
                    continue
                self.document_line = position_of(event, self._first_line).line
                self._begin_document()
                root = self._next()
                value = self._value(root)
                yield BuiltDocument(value, position_of(root, self._first_line), self._repeats_key)
        except PARSER_ERRORS as error:
            raise parser_error(error, self._text, self._first_line) from error

    def _begin_document(self) -> None:
        self._anchors: dict[str, _Anchor] = {}
        self._nodes_before = self.nodes
        self._alias_nodes = self._alias_characters = self._characters = 0
        self._depth = self._deepest = 0
        self._repeats_key = False

    def _error(self, event: Event, message: str) -> YamlError:
        line, column = position_of(event, self._first_line)
        return YamlError(message, line=line, column=column)

    def _value(self, event: Event) -> Any:
        kind = type(event)
        if kind is ScalarEvent:
            scalar = self._scalar(event)
            return scalar if type(scalar) is str else self._json(scalar, event)
        if kind is MappingStartEvent:
            return self._collection(event, self._mapping)
        if kind is SequenceStartEvent:
            return self._collection(event, self._sequence)
        target = self._alias(event).value
        return copied(target) if isinstance(target, dict | list) else self._json(target, event)

    def _json(self, scalar: Scalar, event: Event) -> JsonScalar:
        try:
            return as_json(scalar)
        except ScalarError as error:
            raise self._error(event, str(error)) from error

    def _scalar(self, event: Any) -> Scalar:
        self._count(event, 1)
        text: str = event.value
        self._characters += len(text)
        tag = event.tag
        if tag is None:
            value = resolve_plain(text) if event.implicit[0] else text
        else:
            try:
                value = resolve(tag, text, plain=event.implicit[0])
            except ScalarError as error:
                raise self._error(event, str(error)) from error
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(value, 1, 0, len(text))
        return value

    def _count(self, event: Event, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise self._error(event, f"the text has more than {MAX_NODES} nodes")

    def _collection(self, event: Event, build: Callable[[], Any]) -> Any:
        assert isinstance(event, MappingStartEvent | SequenceStartEvent)
        before, characters = self.nodes, self._characters
        self._count(event, 1)
        self._depth += 1
        self._check_depth(event, 0)
        anchor = event.anchor
        if anchor is None:
            value = build()
        else:
            outer, self._deepest = self._deepest, self._depth
            reading = self._anchors[anchor] = _Anchor(None, 0, 0, 0)
            value = build()
            if self._anchors[anchor] is reading:
                height = self._deepest - self._depth + 1
                size = self._characters - characters
                self._anchors[anchor] = _Anchor(value, self.nodes - before, height, size)
            self._deepest = max(outer, self._deepest)
        self._depth -= 1
        return value

    def _check_depth(self, event: Event, height: int) -> None:
        depth = self._depth + height
        if depth > MAX_DEPTH:
            raise self._error(event, f"nested more than {MAX_DEPTH} levels deep")
        self._deepest = max(self._deepest, depth)

    def _sequence(self) -> list[Any]:
        result = []
        while type(event := self._next()) is not SequenceEndEvent:
            result.append(self._value(event))
        return result

    def _mapping(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: set[str] = set()
        next_event = self._next
        while type(event := next_event()) is not MappingEndEvent:
            if type(event) is ScalarEvent and event.value == "<<" and is_merge(event):
                # A merged value replaces an earlier one and is replaced by a later one.
                for source in reversed(self._merge_sources(next_event())):
                    result.update(source)
                    merged.update(source)
                continue
            key = self._key(event)
            value = self._value(next_event())
            if key in result and key not in merged:
                self._repeats_key = True
            result[key] = value
        return result

    def _key(self, event: Event) -> str:
        kind = type(event)
        if kind is ScalarEvent:
            value = self._scalar(event)
        elif kind is AliasEvent:
            value = self._alias(event).value
        else:
            raise self._error(event, "invalid map key: it is an object or a list")
        if type(value) is str:
            return value
        if isinstance(value, dict | list):
            raise self._error(event, "invalid map key: it is an object or a list")
        try:
            return as_key(value)
        except ScalarError as error:
            raise self._error(event, str(error)) from error

    def _merge_sources(self, event: Event) -> list[dict[str, Any]]:
        if type(event) is SequenceStartEvent:
            sources: list[dict[str, Any]] = self._collection(event, self._merge_list)
            return sources
        return [self._merge_source(event)]

    def _merge_list(self) -> list[dict[str, Any]]:
        sources = []
        while type(event := self._next()) is not SequenceEndEvent:
            sources.append(self._merge_source(event))
        return sources

    def _merge_source(self, event: Event) -> dict[str, Any]:
        source = self._value(event) if type(event) in (MappingStartEvent, AliasEvent) else None
        if not isinstance(source, dict):
            raise self._error(event, "map merge requires map or sequence of maps as the value")
        return source

    def _alias(self, event: Event) -> _Anchor:
        assert isinstance(event, AliasEvent)
        anchor = self._anchors.get(event.anchor or "")
        if anchor is None:
            raise self._error(event, f"unknown anchor '{event.anchor}' referenced")
        if not anchor.nodes:
            raise self._error(event, f"anchor '{event.anchor}' value contains itself")
        self._count(event, 1 + anchor.nodes)
        self._characters += anchor.characters
        self._alias_characters += anchor.characters
        self._alias_nodes += anchor.nodes
        # go-yaml counts the document itself as well.
        nodes = self.nodes - self._nodes_before + 1
        has_many = self._alias_nodes > 100 and nodes > 1000 and self._alias_nodes / nodes > _allowed_alias_ratio(nodes)
        if has_many or self._alias_characters > MAX_ALIAS_CHARACTERS:
            raise self._error(event, "document contains excessive aliasing")
        self._check_depth(event, anchor.height)
        return anchor


def _allowed_alias_ratio(nodes: int) -> float:
    share = min(max((nodes - _SMALL) / (_LARGE - _SMALL), 0.0), 1.0)
    return 0.99 - 0.89 * share
