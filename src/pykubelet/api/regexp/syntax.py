r"""Parses Go's regular expressions (RE2 syntax) into a tree.

Ports Go's regexp/syntax with the flags of regexp.Compile; errors have Go's messages. Unicode categories (`\p{Lu}`) are
supported, scripts (`\p{Greek}`) are not.
"""

import re
import unicodedata
from dataclasses import dataclass, replace
from enum import Enum

Range = tuple[int, int]
LAST = 0x10FFFF


class EmptyWidth(Enum):
    """Assertions about a position, which consume no character."""

    TEXT_START = r"\A"
    TEXT_END = r"\z"
    LINE_START = "^"
    LINE_END = "$"
    WORD_EDGE = r"\b"
    NO_WORD_EDGE = r"\B"


@dataclass(frozen=True, slots=True)
class CharCategory:
    r"""A Unicode category such as `L` or `Lu`, possibly negated; `\p{Any}` has an empty name."""

    name: str
    negated: bool = False

    def has(self, char: str) -> bool:
        return unicodedata.category(char).startswith(self.name) != self.negated


@dataclass(frozen=True, slots=True)
class Chars:
    """A character class: matches one character."""

    ranges: tuple[Range, ...]
    categories: tuple[CharCategory, ...] = ()
    negated: bool = False
    any_case: bool = False

    def has(self, char: str) -> bool:
        found = self._has(char)
        if not found and self.any_case:
            found = any(self._has(other) for other in (char.lower(), char.upper()) if len(other) == 1)
        return found != self.negated

    def _has(self, char: str) -> bool:
        code = ord(char)
        return any(low <= code <= high for low, high in self.ranges) or any(each.has(char) for each in self.categories)


@dataclass(frozen=True, slots=True)
class Concat:
    """A sequence, possibly empty."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Alternate:
    """Alternatives; the first that leads to a match is preferred."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repetition, greedy unless `lazy`."""

    part: "Node"
    least: int
    most: int | None
    lazy: bool = False


Node = Chars | EmptyWidth | Concat | Alternate | Repeat


def complement(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    found: list[Range] = []
    start = 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    return (*found, (start, LAST)) if start <= LAST else tuple(found)


_DIGITS: tuple[Range, ...] = ((48, 57),)
_LOWER: tuple[Range, ...] = ((97, 122),)
_UPPER: tuple[Range, ...] = ((65, 90),)
_SPACE: tuple[Range, ...] = ((9, 10), (12, 13), (32, 32))
_WORD: tuple[Range, ...] = (*_DIGITS, *_UPPER, (95, 95), *_LOWER)

_PERL = {"d": _DIGITS, "s": _SPACE, "w": _WORD}
PERL = _PERL | {name.upper(): complement(ranges) for name, ranges in _PERL.items()}
POSIX: dict[str, tuple[Range, ...]] = {
    "alnum": (*_DIGITS, *_UPPER, *_LOWER),
    "alpha": (*_UPPER, *_LOWER),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": _DIGITS,
    "graph": ((33, 126),),
    "lower": _LOWER,
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": (*_DIGITS, (65, 70), (97, 102)),
}
_CATEGORY = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|(\w))", re.ASCII)
_PARTS = {"C": "cfos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}
_CATEGORIES = frozenset(f"{whole}{part}" for whole, parts in _PARTS.items() for part in ("", *parts))
_OCTAL = re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})", re.ASCII)
_HEX = re.compile(r"\\x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))", re.ASCII)
_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}


def parse_category(text: str, at: int) -> tuple[CharCategory, int] | None:
    r"""Parses `\pL`, `\p{Lu}` or `\P{^L}` into a category and the end of the escape; None if it is unknown."""
    found = _CATEGORY.match(text, at)
    if found is None:
        return None
    name = found[3] or found[4]
    negated = (found[1] == "P") != bool(found[2])
    if name != "Any" and name not in _CATEGORIES:
        return None
    return (CharCategory("" if name == "Any" else name, negated), found.end())


def parse_escape(text: str, at: int) -> tuple[str, int] | None:
    """Parses the escape of a single character; returns it and the end of the escape, None if Go has no such escape."""
    if found := _OCTAL.match(text, at):
        return (chr(int(found[1], 8)), found.end())
    if found := _HEX.match(text, at):
        digits = found[1] or found[2]
        code = int(digits, 16) if len(digits) <= 8 else LAST + 1
        return (chr(code), found.end()) if code <= LAST else None
    char = text[at + 1]
    if char in _CONTROLS:
        return (_CONTROLS[char], at + 2)
    return (char, at + 2) if char.isascii() and not char.isalnum() else None


MAX_REPEAT = 1000
MAX_DEPTH = 100
_REPEAT = re.compile(r"[*+?]|\{([0-9]+)(,([0-9]*))?\}", re.ASCII)
_GROUP = re.compile(r"\(\?(?:P?<(?P<name>\w+)>|(?P<flags>[imsU]*(?:-[imsU]+)?)(?P<end>[:)]))", re.ASCII)
_POSIX = re.compile(r"\[:(\^?)(\w+):\]", re.ASCII)
_LINE_FEED: Range = (10, 10)


class PatternError(ValueError):
    """Go would reject the pattern; the message follows Go's."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(f"error parsing regexp: {what}: `{text}`")


@dataclass(frozen=True, slots=True)
class _Flags:
    i: bool = False
    m: bool = False
    s: bool = False
    U: bool = False


def parse(pattern: str) -> Node:
    parser = _PatternParser(pattern)
    node = parser.choice(_Flags(), 0)
    if parser.at < len(pattern):
        raise PatternError("unexpected )", pattern)
    return node


class _PatternParser:
    """Recursive descent over the pattern."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def choice(self, flags: _Flags, depth: int) -> Node:
        """Parses alternatives up to the end of the group."""
        if depth > MAX_DEPTH:
            raise PatternError("expression nests too deeply", self._text)
        rows: list[Node] = []
        parts: list[Node] = []
        while self.at < len(self._text) and self._text[self.at] != ")":
            if self._accept("|"):
                rows.append(_concat(parts))
                parts = []
                continue
            changed = self._flag_change(flags)
            if changed is not None:
                flags = changed
                continue
            parts += self._repeated(self._piece(flags, depth), flags)
        rows.append(_concat(parts))
        return rows[0] if len(rows) == 1 else Alternate(tuple(rows))

    def _flag_change(self, flags: _Flags) -> _Flags | None:
        """Parses a flag change such as `(?i)`; None if there is none."""
        found = _GROUP.match(self._text, self.at)
        if found is None or found["end"] != ")" or not found["flags"]:
            return None
        self.at = found.end()
        return _changed(flags, found["flags"])

    def _piece(self, flags: _Flags, depth: int) -> list[Node]:
        """Parses one repeatable part, or a quoted text, whose last character is repeatable."""
        start = self.at
        char = self._text[start]
        self.at += 1
        match char:
            case "(":
                return [self._group(flags, depth)]
            case "[":
                return [self._class(flags)]
            case "\\":
                return self._escape(flags)
            case ".":
                return [Chars(((0, LAST),) if flags.s else complement((_LINE_FEED,)))]
            case "^":
                return [EmptyWidth.LINE_START if flags.m else EmptyWidth.TEXT_START]
            case "$":
                return [EmptyWidth.LINE_END if flags.m else EmptyWidth.TEXT_END]
            case "*" | "+" | "?":
                raise PatternError("missing argument to repetition operator", char)
        if char == "{" and (found := _REPEAT.match(self._text, start)):
            raise PatternError("missing argument to repetition operator", found[0])
        return [_literal(char, flags)]

    def _repeated(self, parts: list[Node], flags: _Flags) -> list[Node]:
        """Applies a repetition operator, if one follows, to the last part."""
        found = _REPEAT.match(self._text, self.at)
        if found is None or not parts:
            return parts
        start, self.at = self.at, found.end()
        least, most = _counts(found)
        lazy = self._accept("?") != flags.U
        if again := _REPEAT.match(self._text, self.at):
            raise PatternError("invalid nested repetition operator", self._text[start : again.end()])
        if max(least, most or 0) * _repeats(parts[-1]) > MAX_REPEAT or (most is not None and least > most):
            raise PatternError("invalid repeat count", found[0])
        return [*parts[:-1], Repeat(parts[-1], least, most, lazy)]

    def _group(self, flags: _Flags, depth: int) -> Node:
        start = self.at - 1
        if self._text.startswith("?", self.at):
            found = _GROUP.match(self._text, start)
            if found is None or (found["end"] == ")" and not found["flags"]):
                raise PatternError("invalid or unsupported Perl syntax", self._text[start : start + 3])
            self.at = found.end()
            flags = _changed(flags, found["flags"] or "")
        inside = self.choice(flags, depth + 1)
        if not self._accept(")"):
            raise PatternError("missing closing )", self._text)
        return inside

    def _escape(self, flags: _Flags) -> list[Node]:
        start = self.at - 1
        char = self._text[self.at : self.at + 1]
        if char == "Q":
            quoted, _, _ = self._text[self.at + 1 :].partition(r"\E")
            self.at = min(len(self._text), self.at + 1 + len(quoted) + 2)
            return [_literal(each, flags) for each in quoted]
        if char and char in "AzbB":
            self.at += 1
            return [EmptyWidth(f"\\{char}")]
        if isinstance(found := self._one_escape(start), str):
            return [_literal(found, flags)]
        ranges, categories = found
        return [Chars(ranges, categories, any_case=flags.i)]

    def _one_escape(self, start: int) -> str | tuple[tuple[Range, ...], tuple[CharCategory, ...]]:
        """Parses an escape into a character or a set of characters."""
        char = self._text[self.at : self.at + 1]
        if not char:
            raise PatternError("trailing backslash at end of expression", "")
        if char in PERL:
            self.at += 1
            return PERL[char], ()
        if char in "pP":
            found = parse_category(self._text, start)
            if found is None:
                raise PatternError("invalid character class range", self._text[start : start + 3])
            category, self.at = found
            return (), (category,)
        one = parse_escape(self._text, start)
        if one is None:
            raise PatternError("invalid escape sequence", self._text[start : start + 2])
        char, self.at = one
        return char

    def _class(self, flags: _Flags) -> Chars:
        start = self.at - 1
        negated = self._accept("^")
        ranges: list[Range] = []
        categories: list[CharCategory] = []
        first = True
        while first or not self._accept("]"):
            first = False
            if self.at >= len(self._text):
                raise PatternError("missing closing ]", self._text[start:])
            if posix := _POSIX.match(self._text, self.at):
                if posix[2] not in POSIX:
                    raise PatternError("invalid character class range", posix[0])
                self.at = posix.end()
                ranges += complement(POSIX[posix[2]]) if posix[1] else POSIX[posix[2]]
                continue
            begin = self.at
            low = self._class_char()
            if not isinstance(low, str):
                ranges += low[0]
                categories += low[1]
                continue
            high = self._range_end() or low
            if high < low:
                raise PatternError("invalid character class range", self._text[begin : self.at])
            ranges.append((ord(low), ord(high)))
        return Chars(tuple(ranges), tuple(categories), negated=negated, any_case=flags.i)

    def _class_char(self) -> str | tuple[tuple[Range, ...], tuple[CharCategory, ...]]:
        char = self._text[self.at]
        self.at += 1
        return self._one_escape(self.at - 1) if char == "\\" else char

    def _range_end(self) -> str:
        """Parses the end of a character range; empty if there is none."""
        if not self._text.startswith("-", self.at) or self._text[self.at + 1 : self.at + 2] in ("", "]"):
            return ""
        start = self.at
        self.at += 1
        last = self._class_char()
        if not isinstance(last, str):
            raise PatternError("invalid character class range", self._text[start - 1 : self.at])
        return last

    def _accept(self, text: str) -> bool:
        """Consumes `text` if it comes next; returns whether it did."""
        if not self._text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True


def _concat(parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Concat(tuple(parts))


def _literal(char: str, flags: _Flags) -> Chars:
    return Chars(((ord(char), ord(char)),), any_case=flags.i)


def _changed(flags: _Flags, text: str) -> _Flags:
    on, _, off = text.partition("-")
    return replace(flags, **dict.fromkeys(on, True), **dict.fromkeys(set(off) - set(on), False))


def _counts(found: re.Match[str]) -> tuple[int, int | None]:
    """Returns minimum and maximum repetition; numbers above the limit are not converted."""
    if found[0] in "*+?":
        return int(found[0] == "+"), 1 if found[0] == "?" else None
    least = int(found[1][:6])
    if found[2] is None:
        return least, least
    return least, int(found[3][:6]) if found[3] else None


def _repeats(node: Node) -> int:
    """Returns how often the most repeated part of a node is repeated in total."""
    match node:
        case Repeat():
            return max(node.least, node.most or 1, 1) * _repeats(node.part)
        case Concat() | Alternate():
            return max(map(_repeats, node.parts), default=1)
    return 1
