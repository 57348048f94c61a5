"""Positions of fields in a YAML or JSON text: line and column of each key and value.

Positions are needed only for errors, so reading does not compute them: `Source` keeps the text and parses it a second
time on the first query.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

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

from pykubelet.api.yaml.parser import PARSER_ERRORS, NextEvent, Position, is_merge, open_events, position_of
from pykubelet.api.yaml.scalars import ScalarError, as_key, resolve

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

    def key(self, ordinal: int, path: Path) -> Position | None:
        """Returns the position of a key, or of a list element; the nearest parent's if it has none."""
        return self._find(ordinal, path)[0]

    def value(self, ordinal: int, path: Path) -> Position | None:
        """Returns the position of a value; the nearest parent's if it has none."""
        return self._find(ordinal, path)[1]

    def duplicates(self, ordinal: int) -> list[Duplicate]:
        """Returns the repeated keys of a document."""
        walk = self._walk(ordinal)
        return walk.duplicates if walk else []

    def _find(self, ordinal: int, path: Path) -> tuple[Position | None, Position | None]:
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
