"""The parts of a regular expression (pure).

Upstream: regexp/syntax of Go's standard library (Regexp)
"""

import unicodedata
from dataclasses import dataclass
from enum import Enum

Range = tuple[int, int]
LAST = 0x10FFFF


class Place(Enum):
    """What an expression may say of a place between two characters."""

    TEXT_START = r"\A"
    TEXT_END = r"\z"
    LINE_START = "^"
    LINE_END = "$"
    WORD_EDGE = r"\b"
    NO_WORD_EDGE = r"\B"


@dataclass(frozen=True, slots=True)
class Category:
    """A Unicode category, `L` or `Lu` say, or all characters outside of it."""

    name: str
    negated: bool = False

    def has(self, char: str) -> bool:
        """Whether the character belongs to it."""
        return unicodedata.category(char).startswith(self.name) != self.negated


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of a set."""

    ranges: tuple[Range, ...]
    categories: tuple[Category, ...] = ()
    negated: bool = False
    any_case: bool = False

    def has(self, char: str) -> bool:
        """Whether the character is in the set."""
        found = self._has(char)
        if not found and self.any_case:
            found = any(self._has(other) for other in (char.lower(), char.upper()) if len(other) == 1)
        return found != self.negated

    def _has(self, char: str) -> bool:
        code = ord(char)
        return any(low <= code <= high for low, high in self.ranges) or any(each.has(char) for each in self.categories)


@dataclass(frozen=True, slots=True)
class Row:
    """One after another; nothing at all if there are none."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several, the first that leads to a match."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same so many times; as many as possible, or if `lazy` as few."""

    part: "Node"
    least: int
    most: int | None
    lazy: bool = False


Node = Chars | Place | Row | Choice | Repeat


def outside(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """All characters that are in none of the ranges."""
    found: list[Range] = []
    start = 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    return (*found, (start, LAST)) if start <= LAST else tuple(found)
