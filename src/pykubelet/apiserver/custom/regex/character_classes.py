"""Characters and sets of characters with names and escapes of their own (pure).

Upstream: regexp/syntax/{parse,perl_groups}.go of Go's standard library
"""

import re
from typing import NamedTuple

from pykubelet.apiserver.custom.regex.tree import LAST, Category, Range, outside

_DIGITS: tuple[Range, ...] = ((48, 57),)
_LOWER: tuple[Range, ...] = ((97, 122),)
_UPPER: tuple[Range, ...] = ((65, 90),)
_SPACE: tuple[Range, ...] = ((9, 10), (12, 13), (32, 32))
_WORD: tuple[Range, ...] = (*_DIGITS, *_UPPER, (95, 95), *_LOWER)

PERL = {"d": _DIGITS, "D": outside(_DIGITS), "s": _SPACE, "S": outside(_SPACE), "w": _WORD, "W": outside(_WORD)}
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


class FoundCategory(NamedTuple):
    """A category, and where the text goes on behind it; `everything` stands for any character."""

    category: Category
    end: int
    everything: bool = False


class FoundChar(NamedTuple):
    """A character, and where the text goes on behind its escape."""

    char: str
    end: int


def category(text: str, at: int) -> FoundCategory | None:
    r"""The category of `\pL`, `\p{Lu}` or `\P{^L}`; None if there is no such one."""
    found = _CATEGORY.match(text, at)
    if found is None:
        return None
    name = found[3] or found[4]
    negated = (found[1] == "P") != bool(found[2])
    if name == "Any":
        return FoundCategory(Category("", negated), found.end(), everything=not negated)
    return FoundCategory(Category(name, negated), found.end()) if name in _CATEGORIES else None


def escaped_char(text: str, at: int) -> FoundChar | None:
    """The one character that an escape stands for; None if it is none of Go's."""
    if found := _OCTAL.match(text, at):
        return FoundChar(chr(int(found[1], 8)), found.end())
    if found := _HEX.match(text, at):
        digits = found[1] or found[2]
        code = int(digits, 16) if len(digits) <= 8 else LAST + 1
        return FoundChar(chr(code), found.end()) if code <= LAST else None
    char = text[at + 1]
    if char in _CONTROLS:
        return FoundChar(_CONTROLS[char], at + 2)
    return FoundChar(char, at + 2) if char.isascii() and not char.isalnum() else None
