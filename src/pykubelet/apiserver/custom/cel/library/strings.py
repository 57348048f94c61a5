"""Functions on texts, regular expressions among them.

Upstream: common/stdlib/standard.go and ext/strings.go of github.com/google/cel-go,
staging/src/k8s.io/apiserver/pkg/cel/library/regex.go
"""

from collections.abc import Callable
from typing import Any

from pykubelet.api.validation.field_errors import SHORT_ESCAPES
from pykubelet.apiserver.custom.cel.faults import CelError, OutOfBudgetError
from pykubelet.apiserver.custom.cel.library.formatting import formatted
from pykubelet.apiserver.custom.go_regex import GoPattern, PatternError, go_pattern

_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_UPPER = {lower: upper for upper, lower in _LOWER.items()}
# What Go takes for white space.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
_QUOTED = str.maketrans(SHORT_ESCAPES)
# No text that a rule is about is so long; a text that a rule makes could be.
_MAX_LENGTH = 10_000_000


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start) if start < len(text) else -1


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if not part:
        return len(text) if start is None else start
    if start is None:
        return text.rfind(part)
    if start < 0:
        raise _out_of_range(start)
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def _replaced(text: str, old: str, new: str, count: int = -1) -> str:
    times = text.count(old) if old else len(text) + 1
    if count >= 0:
        times = min(times, count)
    if len(text) + times * len(new) > _MAX_LENGTH:
        raise OutOfBudgetError
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if count < 0 or count > len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if end is not None and start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, last):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:last]


def _joined(parts: list[Any], separator: str = "") -> str:
    for each in parts:
        if not isinstance(each, str):
            raise CelError(f"join: invalid input: {each}")
    return separator.join(parts)


def _pattern(text: str, prefix: str = "") -> GoPattern:
    try:
        return go_pattern(text)
    except PatternError as error:
        raise CelError(f"{prefix}{error}") from None


def _matches(text: str, pattern: str) -> bool:
    return _pattern(pattern).matches(text)


def _find(text: str, pattern: str) -> str:
    return _pattern(pattern, "Illegal regex: ").find(text) or ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return _pattern(pattern, "Illegal regex: ").find_all(text, limit)


OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("(string).contains(string) -> bool", lambda text, part: part in text),
    ("(string).endsWith(string) -> bool", str.endswith),
    ("(string).startsWith(string) -> bool", str.startswith),
    ("(string).matches(string) -> bool", _matches),
    ("matches(string, string) -> bool", _matches),
    ("(string).charAt(int) -> string", _char_at),
    ("(string).indexOf(string) -> int", _index_of),
    ("(string).indexOf(string, int) -> int", _index_of),
    ("(string).lastIndexOf(string) -> int", _last_index_of),
    ("(string).lastIndexOf(string, int) -> int", _last_index_of),
    ("(string).lowerAscii() -> string", lambda text: text.translate(_LOWER)),
    ("(string).upperAscii() -> string", lambda text: text.translate(_UPPER)),
    ("(string).replace(string, string) -> string", _replaced),
    ("(string).replace(string, string, int) -> string", _replaced),
    ("(string).split(string) -> list<string>", _split),
    ("(string).split(string, int) -> list<string>", _split),
    ("(string).substring(int) -> string", _substring),
    ("(string).substring(int, int) -> string", _substring),
    ("(string).trim() -> string", lambda text: text.strip(_SPACE)),
    ("(string).format(list<dyn>) -> string", formatted),
    ("strings.quote(string) -> string", lambda text: f'"{text.translate(_QUOTED)}"'),
    ("(list<string>).join() -> string", _joined),
    ("(list<string>).join(string) -> string", _joined),
    ("(string).find(string) -> string", _find),
    ("(string).findAll(string) -> list<string>", _find_all),
    ("(string).findAll(string, int) -> list<string>", _find_all),
)
