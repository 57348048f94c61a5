"""Regular expressions as Go writes them, for patterns in schemas and rules.

In: a pattern of Go's syntax (RE2). Out: the same for Python, or a complaint. What both have means the same but for the end
of a text, the classes in words and what RE2 leaves out: looking around and references back.

Upstream: regexp/syntax of Go's standard library
"""

import re
from functools import lru_cache

_WORD_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
# Unicode categories that patterns use in practice, as ranges that cover Latin, Greek and Cyrillic.
_CATEGORIES = {
    "L": "A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02c1\u0370-\u0373\u0386-\u0481\u048a-\uffdc",
    "Lu": "A-Z\u00c0-\u00d6\u00d8-\u00de",
    "Ll": "a-z\u00df-\u00f6\u00f8-\u00ff",
    "N": "0-9",
    "Nd": "0-9",
}
_CLASS = re.compile(r"\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]", re.DOTALL)
_IN_CLASS = re.compile(
    r"\[:(?P<words>\w+):\]|\\p\{(?P<category>\w+)\}|(?P<escape>\\.)|(?P<open>\[)|(?P<pair>--|&&|~~|\|\|)", re.DOTALL
)
_OUTSIDE = re.compile(
    r"\\(?P<sign>[pP])\{(?P<category>\w+)\}|\\(?P<escaped>.)|(?P<group>\(\?<?[=!#(P>]?)|(?P<end>\$)|(?P<open>\[)"
    r"|(?P<possessive>[*+?]\+|\{\d+(?:,\d*)?\}\+)",
    re.DOTALL,
)
_NO_GROUPS = ("(?=", "(?!", "(?<=", "(?<!", "(?#", "(?(", "(?>")
_NO_ESCAPES = frozenset("123456789kZGX")


class PatternError(ValueError):
    """The pattern is none of Go's; the message is Go's as far as it goes."""


@lru_cache(maxsize=1024)
def go_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern for `search`; PatternError if Go would not take it."""
    parts: list[str] = []
    at = 0
    for found in _CLASS.finditer(pattern):
        if _is_escaped(pattern, found.start()):
            continue
        parts += [_OUTSIDE.sub(_outside, pattern[at : found.start()]), _in_brackets(found[0])]
        at = found.end()
    parts.append(_OUTSIDE.sub(_outside, pattern[at:]))
    try:
        return re.compile("".join(parts), re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"error parsing regexp: {error}") from error


def _is_escaped(pattern: str, at: int) -> bool:
    before = pattern[:at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _in_brackets(text: str) -> str:
    start = text[: 2 if text.startswith("[^") else 1]
    rest = text[len(start) : -1]
    if rest.startswith("]"):
        # A bracket that closes at once stands for itself.
        rest = "\\" + rest
    return f"{start}{_IN_CLASS.sub(_inside, rest)}]"


def _inside(match: re.Match[str]) -> str:
    if match["words"]:
        return _known(_WORD_CLASSES, match["words"], match[0])
    if match["category"]:
        return _known(_CATEGORIES, match["category"], match[0])
    if pair := match["pair"]:
        # Python means to give these a meaning some day.
        return f"{pair[0]}\\{pair[1]}"
    return "\\[" if match["open"] else match["escape"]


def _outside(match: re.Match[str]) -> str:
    if match["end"]:
        return r"\Z"
    if match["open"]:
        raise PatternError(f"error parsing regexp: missing closing ]: `{match.string[match.start() :]}`")
    if category := match["category"]:
        return f"[{'^' if match['sign'] == 'P' else ''}{_known(_CATEGORIES, category, match[0])}]"
    if escaped := match["escaped"]:
        if escaped in _NO_ESCAPES:
            raise PatternError(f"error parsing regexp: invalid escape sequence: `\\{escaped}`")
        return r"\Z" if escaped == "z" else match[0]
    if match["possessive"]:
        raise PatternError(f"error parsing regexp: invalid nested repetition operator: `{match[0]}`")
    if match[0] in _NO_GROUPS:
        raise PatternError(f"error parsing regexp: invalid or unsupported Perl syntax: `{match[0]}`")
    return "(?P<" if match[0] == "(?<" else match[0]


def _known(classes: dict[str, str], name: str, text: str) -> str:
    if name not in classes:
        raise PatternError(f"error parsing regexp: invalid character class range: `{text}`")
    return classes[name]
