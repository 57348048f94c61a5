"""Resolves YAML scalars like go-yaml v2, which kubectl uses.

`resolve` turns a tag and a text into None, a bool, an int, a float or a string. Kubernetes then converts YAML to JSON,
where a whole float is written like an int and every key is a string: `as_json` and `as_key`. Reader and writer share
this table, so that a string written plain is read back as the same string.

Upstream: vendor/go.yaml.in/yaml/v2/resolve.go, vendor/sigs.k8s.io/yaml/yaml.go
"""

import base64
import math
import re
from collections.abc import Iterator
from datetime import date
from decimal import ROUND_HALF_EVEN, ROUND_UP, Context, Decimal

from pykubelet.api.quantity import MAX_INT64, MIN_INT64, single_precision

Scalar = bool | int | float | str | None
JsonScalar = bool | int | float | str | None

MERGE_TAG = "tag:yaml.org,2002:merge"
_PREFIX = "tag:yaml.org,2002:"
_BINARY = _PREFIX + "binary"
_STR, _BOOL, _INT, _FLOAT, _NULL, _TIMESTAMP = (
    _PREFIX + name for name in ("str", "bool", "int", "float", "null", "timestamp")
)
_RESOLVABLE = frozenset({_STR, _BOOL, _INT, _FLOAT, _NULL, _TIMESTAMP})

_UINT_MAX = 2**64 - 1


def _spellings(*words: str) -> tuple[str, ...]:
    """Returns each word in lower case, capitalised and in upper case, the only accepted spellings."""
    return tuple(form for word in words for form in (word, word.capitalize(), word.upper()))


_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(_spellings("y", "yes", "true", "on"), True),
    **dict.fromkeys(_spellings("n", "no", "false", "off"), False),
    **dict.fromkeys(("", "~", *_spellings("null")), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((sign + word for sign in ("", "+") for word in (".inf", ".Inf", ".INF")), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}

# A text that starts with any other character is a string.
_STARTS = frozenset("+-.0123456789yYnNtTfFoO~")
_NUMBER_STARTS = frozenset("+-0123456789")

_DOTTED = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_FLOATING = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INTEGERS = (
    (re.compile(r"[-+]?0[xX][0-9a-fA-F]+"), 16),
    (re.compile(r"[-+]?0[oO][0-7]+"), 8),
    (re.compile(r"[-+]?0[bB][01]+"), 2),
    (re.compile(r"[-+]?0[0-7]*"), 8),
    (re.compile(r"[-+]?[1-9][0-9]*"), 10),
)
# Go strips the prefix itself and then allows a sign after it.
_SIGNED_BINARY = re.compile(r"0b([-+][01]+)")
# Python refuses decimal numbers of more than 4300 digits; no 64-bit number is nearly that long.
_LONGEST_INTEGER = 4000
_TIME = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:(?:[Tt](\d{1,2}):(\d{1,2}):(\d{1,2})(?:[.,]\d+)?(?:Z|[-+]([01]\d|2[0-4]):[0-5]\d))"
    r"|(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:[.,]\d+)?))?",
    re.ASCII,
)
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


class ScalarError(ValueError):
    """The explicit tag does not fit the text, or JSON has no such value."""


def resolve_plain(text: str) -> Scalar:
    """Resolves an unquoted scalar without a tag."""
    if not text or text[0] in _STARTS:
        return _resolve_hinted(text)
    return text


def resolve(tag: str | None, text: str, *, plain: bool) -> Scalar:
    """Resolves any scalar; only a `plain` one can be something other than a string."""
    if tag is None:
        return resolve_plain(text) if plain else text
    if tag == _BINARY:
        return _binary(text)
    if tag not in _RESOLVABLE or tag == _STR:
        return text
    if tag == _TIMESTAMP and is_timestamp(text):
        return text
    value = resolve_plain(text)
    found = _tag_of(value)
    if found == tag:
        return value
    if tag == _FLOAT and isinstance(value, int) and found == _INT and value <= MAX_INT64:
        return float(value)
    raise ScalarError(f"cannot decode {_short(found)} `{text}` as a {_short(tag)}")


def as_json(value: Scalar) -> JsonScalar:
    """Converts a value as YAML-to-JSON conversion does: whole floats become ints, ints over 64 bits floats."""
    if isinstance(value, float):
        return _json_float(value)
    if isinstance(value, int) and value > MAX_INT64:
        return float(value)
    return value


def as_key(value: Scalar) -> str:
    """Converts a value to the key of a JSON object."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        raise ScalarError("a map key cannot be null")
    if isinstance(value, float):
        return _float_key(value)
    if value > MAX_INT64:
        raise ScalarError(f"the map key {value} is too large for an integer")
    return str(value)


def _resolve_hinted(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _NUMBER_STARTS:
        return _number(text.replace("_", ""), text)
    if _DOTTED.fullmatch(text):
        return _finite(text, text)
    return text


def _number(plain: str, text: str) -> Scalar:
    """Parses a number; `plain` is `text` without underscores."""
    if len(plain) <= _LONGEST_INTEGER:
        for pattern, radix in _INTEGERS:
            if pattern.fullmatch(plain):
                number = int(plain, radix)
                # A signed number must fit int64; an unsigned one may also fit uint64.
                highest = MAX_INT64 if plain[0] in "+-" else _UINT_MAX
                if MIN_INT64 <= number <= highest:
                    return number
        if (match := _SIGNED_BINARY.fullmatch(plain)) and MIN_INT64 <= (number := int(match[1], 2)) <= MAX_INT64:
            return number
    return _finite(plain, text) if _FLOATING.fullmatch(plain) else text


def _finite(number: str, text: str) -> Scalar:
    value = float(number)
    return text if math.isinf(value) else value


def _binary(text: str) -> str:
    packed = text.replace("\r", "").replace("\n", "")
    if len(packed) % 4 or not _BASE64.fullmatch(packed):
        raise ScalarError("!!binary value contains invalid base64 data")
    # JSON strings are Unicode: Go writes one replacement character for each invalid byte.
    decoded = base64.b64decode(packed).decode("utf-8", "surrogateescape")
    return without_surrogates(decoded)


def without_surrogates(text: str) -> str:
    """Replaces lone surrogates, as Go's JSON encoder does."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def is_timestamp(text: str) -> bool:
    match = _TIME.fullmatch(text)
    if match is None:
        return False
    year, month, day, *clock = match.groups()
    hours, minutes, seconds = (clock[0] or clock[4], clock[1] or clock[5], clock[2] or clock[6])
    try:
        # Go accepts the year 0, which was a leap year like 2000.
        date(int(year) or 2000, int(month), int(day))
    except ValueError:
        return False
    return int(hours or 0) < 24 and int(minutes or 0) < 60 and int(seconds or 0) < 60


def _tag_of(value: Scalar) -> str:
    match value:
        case None:
            return _NULL
        case bool():
            return _BOOL
        case int():
            return _INT
        case float():
            return _FLOAT
        case _:
            return _STR


def _short(tag: str) -> str:
    return "!!" + tag.removeprefix(_PREFIX)


def _json_float(value: float) -> JsonScalar:
    if not math.isfinite(value):
        raise ScalarError(f"{_float_key(value)} cannot be represented in JSON")
    # Go writes floats below 1e21 without an exponent and reads them back as ints. The digits are those of the shortest
    # representation, so 1.2345678901234567e18 becomes ...800, not ...768.
    if value.is_integer() and abs(value) < 1e21:
        whole = int(Decimal(repr(value)))
        if MIN_INT64 <= whole <= MAX_INT64:
            return whole
    return value


def _float_key(value: float) -> str:
    """Returns the shortest single-precision text, as Go formats float keys."""
    single = single_precision(value)
    if math.isnan(single):
        return ".nan"
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    digits = next(text for text in _roundings(single) if single_precision(float(text)) == single)
    mantissa, _, exponent = digits.partition("e")
    power = int(exponent)
    if power < -4 or power >= 6:
        return f"{mantissa}e{power:+03d}"
    return f"{Decimal(digits):f}"


def _roundings(single: float) -> Iterator[str]:
    """Yields the number with increasing digits; nine distinguish any two singles."""
    exact = Decimal(single)
    for precision in range(1, 10):
        # Numbers just below a power of two are denser than those above: when the nearest text belongs to the neighbour
        # below, the next one up may still belong to the power itself.
        for rounding in (ROUND_HALF_EVEN, ROUND_UP):
            rounded = Context(prec=precision, rounding=rounding).create_decimal(exact)
            yield f"{rounded:.{precision - 1}e}"
