"""String functions, `format`, regular expressions and named formats.

Named formats: `format.dns1123Label().validate(self.name)`. String formatting: `'%s: %d'.format([...])`.

Upstream: vendor/github.com/google/cel-go/common/stdlib/standard.go, vendor/github.com/google/cel-go/ext/strings.go,
vendor/github.com/google/cel-go/ext/formatting.go, staging/src/k8s.io/apiserver/pkg/cel/library/regex.go,
staging/src/k8s.io/apiserver/pkg/cel/library/format.go
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pykubelet.api import names
from pykubelet.api.cel.formats import has_format
from pykubelet.api.cel.library.conversions import double_text
from pykubelet.api.cel.library.networks import UrlError, read_url
from pykubelet.api.cel.library.times import duration_text, timestamp_text
from pykubelet.api.cel.types import Type
from pykubelet.api.cel.values import (
    NONE,
    CelError,
    Duration,
    Optional,
    OutOfBudgetError,
    Timestamp,
    Uint,
    add_kind,
    is_map,
    items,
    kind_of,
)
from pykubelet.api.field_errors import GO_SPACE, SHORT_ESCAPES, go_quote
from pykubelet.api.regexp.regexp import GoPattern, go_pattern
from pykubelet.api.regexp.syntax import PatternError

_CLAUSE = re.compile(r"%(?:%|(?P<precision>\.\d*)?(?P<verb>.?))", re.ASCII | re.DOTALL)
_PRECISION = 6
# Further digits would all be zero.
_MAX_PRECISION = 1100
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NO_END = "could not parse formatting clause: error while parsing precision: could not find end of precision specifier"
_RAISED = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
WRONG_TYPES = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "X": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}


def format_string(text: str, args: list[Any]) -> str:
    """Replaces each clause by its argument."""
    used = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal used
        if match[0] == "%%":
            return "%"
        if used >= len(args):
            raise CelError(f"index {used} out of range")
        verb, precision = parse_clause(match)
        value = args[used]
        used += 1
        try:
            return _VERBS[verb](value, precision)
        except TypeError:
            wrong = WRONG_TYPES[verb].format(kind_of(type(value)))
            raise CelError(f"error during formatting: {wrong}") from None

    return _CLAUSE.sub(replaced, text)


def parse_clauses(text: str) -> list[str]:
    """Returns the verbs of a format string; raises CelError if one is invalid."""
    return [parse_clause(match)[0] for match in _CLAUSE.finditer(text) if match[0] != "%%"]


def parse_clause(match: re.Match[str]) -> tuple[str, int]:
    verb, precision = match["verb"], match["precision"]
    if not verb:
        raise CelError(_NO_END if precision else "unexpected end of string")
    if verb not in _VERBS:
        raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    return verb, min(int(precision[1:][:9] or "0"), _MAX_PRECISION) if precision else _PRECISION


def _text(value: Any, _precision: int) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_inner, value))}]"
    if is_map(value):
        return "{" + ", ".join(sorted(f"{_inner(key)}:{_inner(item)}" for key, item in items(value))) + "}"
    write = _TEXTS.get(type(value))
    if write is None:
        raise TypeError
    return write(value)


_TEXTS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _value: "null",
    bool: lambda value: "true" if value else "false",
    str: str,
    int: str,
    Uint: str,
    float: double_text,
    bytes: lambda value: value.decode(errors="replace"),
    Timestamp: timestamp_text,
    Duration: duration_text,
    Type: lambda value: value.name,
}


def _inner(value: Any) -> str:
    """Formats a value inside a list or map as a CEL literal."""
    match value:
        case str():
            return go_quote(value)
        case bytes():
            return f"b{go_quote(value.decode(errors='replace'))}"
        case float():
            return f"{value:.{_PRECISION}f}" if math.isfinite(value) else go_quote(double_text(value))
        case Timestamp():
            return f"timestamp({go_quote(timestamp_text(value))})"
        case Duration():
            return f"duration({go_quote(duration_text(value))})"
        case _:
            return _text(value, 0)


def _whole(value: Any) -> int:
    if type(value) is int or type(value) is Uint:
        return int(value)
    raise TypeError


def _double(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    raise TypeError


def _fixed(value: Any, precision: int) -> str:
    number = _double(value)
    if not math.isfinite(number):
        return _infinite(number)
    # Digits are grouped as in English.
    return f"{Decimal(number):,.{precision}f}"


def _scientific(value: Any, _precision: int) -> str:
    number = _double(value)
    if not math.isfinite(number):
        return _infinite(number)
    # Upstream uses the precision as the width, so there are always six digits.
    digits, _, exponent = f"{number:.{_PRECISION}e}".partition("e")
    return f"{digits}\u00d710{exponent.removeprefix('+').translate(_RAISED)}"


def _infinite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "\u221e" if number > 0 else "-\u221e"


def _binary(value: Any, _precision: int) -> str:
    return str(int(value)) if isinstance(value, bool) else f"{_whole(value):b}"


def _hex(value: Any, _precision: int) -> str:
    if isinstance(value, str):
        return value.encode(errors="replace").hex()
    return value.hex() if isinstance(value, bytes) else f"{_whole(value):x}"


_VERBS: dict[str, Callable[[Any, int], str]] = {
    "s": _text,
    "d": lambda value, _: str(_whole(value)),
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex,
    "X": lambda value, precision: _hex(value, precision).upper(),
    "o": lambda value, _: f"{_whole(value):o}",
}


_Rule = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A named format and its validation function."""

    name: str
    errors: _Rule = field(compare=False)


add_kind(NamedFormat, "kubernetes.NamedFormat")


def _prefix(rule: _Rule) -> _Rule:
    """Returns the rule for name prefixes, which may end in a dash."""
    return lambda text: rule(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _uri_errors(text: str) -> list[str]:
    try:
        read_url(text)
    except UrlError as error:
        return [str(error)]
    return []


def _has(format: str, error: str) -> _Rule:
    return lambda text: [] if has_format(format, text) else [error]


_FORMATS = {
    "dns1123Label": NamedFormat("DNS1123Label", names.dns1123_label_errors),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", names.dns1123_subdomain_errors),
    "dns1035Label": NamedFormat("DNS1035Label", names.dns1035_label_errors),
    "qualifiedName": NamedFormat("QualifiedName", names.qualified_name_errors),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix(names.dns1123_label_errors)),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefix(names.dns1123_subdomain_errors)),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix(names.dns1035_label_errors)),
    "labelValue": NamedFormat("LabelValue", names.label_value_errors),
    "uri": NamedFormat("URI", _uri_errors),
    "uuid": NamedFormat("uuid", _has("uuid", "does not match the UUID format")),
    "byte": NamedFormat("byte", _has("byte", "invalid base64")),
    "date": NamedFormat("date", _has("date", "invalid date")),
    "datetime": NamedFormat("datetime", _has("datetime", "invalid datetime")),
}


def _named(name: str) -> Optional:
    return Optional(_FORMATS[name]) if name in _FORMATS else NONE


def _validated(format: NamedFormat, text: str) -> Optional:
    errors = format.errors(text)
    return Optional(errors) if errors else NONE


def _constant(format: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: format


FORMAT_OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("format.named(string) -> optional<kubernetes.NamedFormat>", _named),
    ("(kubernetes.NamedFormat).validate(string) -> optional<list<string>>", _validated),
    *((f"format.{name}() -> kubernetes.NamedFormat", _constant(format)) for name, format in _FORMATS.items()),
)


_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_UPPER = {lower: upper for upper, lower in _LOWER.items()}
_QUOTED = str.maketrans(SHORT_ESCAPES)
# No validated string is this long, but one built by a rule could be.
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
    ("(string).trim() -> string", lambda text: text.strip(GO_SPACE)),
    ("(string).format(list<dyn>) -> string", format_string),
    ("strings.quote(string) -> string", lambda text: f'"{text.translate(_QUOTED)}"'),
    ("(list<string>).join() -> string", _joined),
    ("(list<string>).join(string) -> string", _joined),
    ("(string).find(string) -> string", _find),
    ("(string).findAll(string) -> list<string>", _find_all),
    ("(string).findAll(string, int) -> list<string>", _find_all),
)
