r"""The text of a regular expression to its parts (pure).

In: a pattern of Go's syntax (RE2). Out: a tree, or PatternError with Go's complaint. Scripts (`\p{Greek}`) are not known;
categories (`\p{Lu}`) are.

Upstream: regexp/syntax/parse.go of Go's standard library, with the flags of regexp.Compile
"""

import re
from dataclasses import dataclass, replace

from pykubelet.apiserver.custom.regex.character_classes import PERL, POSIX, category, escaped_char
from pykubelet.apiserver.custom.regex.tree import (
    LAST,
    Category,
    Chars,
    Choice,
    Node,
    Place,
    Range,
    Repeat,
    Row,
    outside,
)

MAX_REPEAT = 1000
MAX_DEPTH = 100
_REPEAT = re.compile(r"[*+?]|\{([0-9]+)(,([0-9]*))?\}", re.ASCII)
_GROUP = re.compile(r"\(\?(?:P?<(?P<name>\w+)>|(?P<flags>[imsU]*(?:-[imsU]+)?)(?P<end>[:)]))", re.ASCII)
_POSIX = re.compile(r"\[:(\^?)(\w+):\]", re.ASCII)
_LINE_FEED: Range = (10, 10)


class PatternError(ValueError):
    """The pattern is none of Go's; the message is Go's as far as it goes."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(f"error parsing regexp: {what}: `{text}`")


@dataclass(frozen=True, slots=True)
class _Flags:
    i: bool = False
    m: bool = False
    s: bool = False
    U: bool = False


def parse(pattern: str) -> Node:
    """The tree of a pattern."""
    parser = _Parser(pattern)
    node = parser.choice(_Flags(), 0)
    if parser.at < len(pattern):
        raise PatternError("unexpected )", pattern)
    return node


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def choice(self, flags: _Flags, depth: int) -> Node:
        """Alternatives up to the end of the group."""
        if depth > MAX_DEPTH:
            raise PatternError("expression nests too deeply", self._text)
        rows: list[Node] = []
        parts: list[Node] = []
        while self.at < len(self._text) and self._text[self.at] != ")":
            if self._taken("|"):
                rows.append(_row(parts))
                parts = []
                continue
            changed = self._flag_change(flags)
            if changed is not None:
                flags = changed
                continue
            parts += self._repeated(self._piece(flags, depth), flags)
        rows.append(_row(parts))
        return rows[0] if len(rows) == 1 else Choice(tuple(rows))

    def _flag_change(self, flags: _Flags) -> _Flags | None:
        """The flags after `(?i)`; None if that is not what comes."""
        found = _GROUP.match(self._text, self.at)
        if found is None or found["end"] != ")" or not found["flags"]:
            return None
        self.at = found.end()
        return _changed(flags, found["flags"])

    def _piece(self, flags: _Flags, depth: int) -> list[Node]:
        """One part that can be repeated, or a quoted text, of which the last character can."""
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
                return [Chars(((0, LAST),) if flags.s else outside((_LINE_FEED,)))]
            case "^":
                return [Place.LINE_START if flags.m else Place.TEXT_START]
            case "$":
                return [Place.LINE_END if flags.m else Place.TEXT_END]
            case "*" | "+" | "?":
                raise PatternError("missing argument to repetition operator", char)
        if char == "{" and (found := _REPEAT.match(self._text, start)):
            raise PatternError("missing argument to repetition operator", found[0])
        return [_literal(char, flags)]

    def _repeated(self, parts: list[Node], flags: _Flags) -> list[Node]:
        """The parts, the last of them repeated if the pattern goes on so."""
        found = _REPEAT.match(self._text, self.at)
        if found is None or not parts:
            return parts
        start, self.at = self.at, found.end()
        least, most = _counts(found)
        lazy = self._taken("?") != flags.U
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
        if not self._taken(")"):
            raise PatternError("missing closing )", self._text)
        return inside

    def _escape(self, flags: _Flags) -> list[Node]:
        """What follows a backslash outside of a class."""
        start = self.at - 1
        char = self._text[self.at : self.at + 1]
        if char == "Q":
            quoted, _, _ = self._text[self.at + 1 :].partition(r"\E")
            self.at = min(len(self._text), self.at + 1 + len(quoted) + 2)
            return [_literal(each, flags) for each in quoted]
        if char and char in "AzbB":
            self.at += 1
            return [Place(f"\\{char}")]
        if isinstance(found := self._one_escape(start), str):
            return [_literal(found, flags)]
        ranges, categories = found
        return [Chars(ranges, categories, any_case=flags.i)]

    def _one_escape(self, start: int) -> str | tuple[tuple[Range, ...], tuple[Category, ...]]:
        """The character or the set of characters that an escape stands for."""
        char = self._text[self.at : self.at + 1]
        if not char:
            raise PatternError("trailing backslash at end of expression", "")
        if char in PERL:
            self.at += 1
            return PERL[char], ()
        if char in "pP":
            found = category(self._text, start)
            if found is None:
                raise PatternError("invalid character class range", self._text[start : start + 3])
            self.at = found.end
            return ((0, LAST),) if found.everything else (), () if found.everything else (found.category,)
        one = escaped_char(self._text, start)
        if one is None:
            raise PatternError("invalid escape sequence", self._text[start : start + 2])
        self.at = one.end
        return one.char

    def _class(self, flags: _Flags) -> Chars:
        start = self.at - 1
        negated = self._taken("^")
        ranges: list[Range] = []
        categories: list[Category] = []
        first = True
        while first or not self._taken("]"):
            first = False
            if self.at >= len(self._text):
                raise PatternError("missing closing ]", self._text[start:])
            if posix := _POSIX.match(self._text, self.at):
                if posix[2] not in POSIX:
                    raise PatternError("invalid character class range", posix[0])
                self.at = posix.end()
                ranges += outside(POSIX[posix[2]]) if posix[1] else POSIX[posix[2]]
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

    def _class_char(self) -> str | tuple[tuple[Range, ...], tuple[Category, ...]]:
        char = self._text[self.at]
        self.at += 1
        return self._one_escape(self.at - 1) if char == "\\" else char

    def _range_end(self) -> str:
        """The last character of a range; empty if there is none."""
        if not self._text.startswith("-", self.at) or self._text[self.at + 1 : self.at + 2] in ("", "]"):
            return ""
        start = self.at
        self.at += 1
        last = self._class_char()
        if not isinstance(last, str):
            raise PatternError("invalid character class range", self._text[start - 1 : self.at])
        return last

    def _taken(self, text: str) -> bool:
        """Whether this comes next, and then it is behind us."""
        if not self._text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True


def _row(parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Row(tuple(parts))


def _literal(char: str, flags: _Flags) -> Chars:
    return Chars(((ord(char), ord(char)),), any_case=flags.i)


def _changed(flags: _Flags, text: str) -> _Flags:
    on, _, off = text.partition("-")
    return replace(flags, **dict.fromkeys(on, True), **dict.fromkeys(set(off) - set(on), False))


def _counts(found: re.Match[str]) -> tuple[int, int | None]:
    """How often at least and at most; beyond what is allowed it does not matter how far."""
    if found[0] in "*+?":
        return int(found[0] == "+"), 1 if found[0] == "?" else None
    least = int(found[1][:6])
    if found[2] is None:
        return least, least
    return least, int(found[3][:6]) if found[3] else None


def _repeats(node: Node) -> int:
    """How many times the most repeated part of a node is repeated."""
    match node:
        case Repeat():
            return max(node.least, node.most or 1, 1) * _repeats(node.part)
        case Row() | Choice():
            return max(map(_repeats, node.parts), default=1)
    return 1
