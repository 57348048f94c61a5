"""What a YAML scalar means to kubectl: the rules of go-yaml v2.

A scalar's tag and text come in; None, a bool, an int, a float or a string comes out (`resolve`). Kubernetes then turns
YAML into JSON, where a whole float is written like an int and every key is a string: `as_json` and `as_key` do that step.
The reader and the writer share this table, so what is written plain is read back as the same string.

Upstream: go.yaml.in/yaml/v2/resolve.go, sigs.k8s.io/yaml/yaml.go.
"""

import base64
import math
import re
import struct
from collections.abc import Iterator
from datetime import date
from decimal import ROUND_HALF_EVEN, ROUND_UP, Context, Decimal

Scalar = bool | int | float | str | None
JsonScalar = bool | int | float | str | None

MERGE_TAG = "tag:yaml.org,2002:merge"
_PREFIX = "tag:yaml.org,2002:"
_BINARY = _PREFIX + "binary"
_STR, _BOOL, _INT, _FLOAT, _NULL, _TIMESTAMP = (
    _PREFIX + name for name in ("str", "bool", "int", "float", "null", "timestamp")
)
_RESOLVABLE = frozenset({_STR, _BOOL, _INT, _FLOAT, _NULL, _TIMESTAMP})

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
_UINT_MAX = 2**64 - 1


def _spellings(*words: str) -> tuple[str, ...]:
    """Each word in lower case, capitalised and in upper case; nothing else counts."""
    return tuple(form for word in words for form in (word, word.capitalize(), word.upper()))


_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(_spellings("y", "yes", "true", "on"), True),
    **dict.fromkeys(_spellings("n", "no", "false", "off"), False),
    **dict.fromkeys(("", "~", *_spellings("null")), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((sign + word for sign in ("", "+") for word in (".inf", ".Inf", ".INF")), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}

# A text that starts with any other character is a string, whatever follows.
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
# Go strips the prefix itself and then allows a sign behind it.
_SIGNED_BINARY = re.compile(r"0b([-+][01]+)")
# Python refuses to read decimal numbers of more than 4300 digits; far below, no 64-bit number is that long.
_LONGEST_INTEGER = 4000
_TIME = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:(?:[Tt](\d{1,2}):(\d{1,2}):(\d{1,2})(?:[.,]\d+)?(?:Z|[-+]([01]\d|2[0-4]):[0-5]\d))"
    r"|(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:[.,]\d+)?))?",
    re.ASCII,
)
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


class ScalarError(ValueError):
    """The scalar's explicit tag does not fit its text, or JSON has no such value."""


def resolve_plain(text: str) -> Scalar:
    """The meaning of an unquoted scalar without a tag."""
    if not text or text[0] in _STARTS:
        return _resolve_hinted(text)
    return text


def resolve(tag: str | None, text: str, *, plain: bool) -> Scalar:
    """The meaning of any scalar; `plain` says that the text may be taken for something other than a string."""
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
    if tag == _FLOAT and isinstance(value, int) and found == _INT and value <= INT_MAX:
        return float(value)
    raise ScalarError(f"cannot decode {_short(found)} `{text}` as a {_short(tag)}")


def as_json(value: Scalar) -> JsonScalar:
    """The value after the way through JSON: whole floats are ints, ints over 64 bits are floats."""
    if isinstance(value, float):
        return _json_float(value)
    if isinstance(value, int) and value > INT_MAX:
        return float(value)
    return value


def as_key(value: Scalar) -> str:
    """The value as the key of a JSON object."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        raise ScalarError("a map key cannot be null")
    if isinstance(value, float):
        return _float_key(value)
    if value > INT_MAX:
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
    """`plain`, which is `text` without underscores, as a number if it is one."""
    if len(plain) <= _LONGEST_INTEGER:
        for pattern, radix in _INTEGERS:
            if pattern.fullmatch(plain):
                number = int(plain, radix)
                # A signed number has only the signed range; without a sign the unsigned range counts as well.
                highest = INT_MAX if plain[0] in "+-" else _UINT_MAX
                if INT_MIN <= number <= highest:
                    return number
        if (match := _SIGNED_BINARY.fullmatch(plain)) and INT_MIN <= (number := int(match[1], 2)) <= INT_MAX:
            return number
    return _finite(plain, text) if _FLOATING.fullmatch(plain) else text


def _finite(number: str, text: str) -> Scalar:
    value = float(number)
    return text if math.isinf(value) else value


def _binary(text: str) -> str:
    packed = text.replace("\r", "").replace("\n", "")
    if len(packed) % 4 or not _BASE64.fullmatch(packed):
        raise ScalarError("!!binary value contains invalid base64 data")
    # JSON strings are Unicode: Go writes one replacement character for each byte that is not.
    decoded = base64.b64decode(packed).decode("utf-8", "surrogateescape")
    return without_surrogates(decoded)


def without_surrogates(text: str) -> str:
    """The text with each lone surrogate replaced, as Go's JSON does."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def is_timestamp(text: str) -> bool:
    match = _TIME.fullmatch(text)
    if match is None:
        return False
    year, month, day, *clock = match.groups()
    hours, minutes, seconds = (clock[0] or clock[4], clock[1] or clock[5], clock[2] or clock[6])
    try:
        # Go knows a year 0, which was a leap year like 2000.
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
        raise ScalarError(f"{_float_key(value)} has no place in JSON")
    # Go writes floats below 1e21 without an exponent and reads what then looks like an int as one. The digits are
    # those of the shortest text, so 1.2345678901234567e18 is ...800, not ...768.
    if value.is_integer() and abs(value) < 1e21:
        whole = int(Decimal(repr(value)))
        if INT_MIN <= whole <= INT_MAX:
            return whole
    return value


def _float_key(value: float) -> str:
    """The shortest text of the value in single precision, as Go formats keys."""
    single = _single(value)
    if math.isnan(single):
        return ".nan"
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    digits = next(text for text in _roundings(single) if _single(float(text)) == single)
    mantissa, _, exponent = digits.partition("e")
    power = int(exponent)
    if power < -4 or power >= 6:
        return f"{mantissa}e{power:+03d}"
    return f"{Decimal(digits):f}"


def _single(value: float) -> float:
    """The nearest number of single precision; infinity where there is none."""
    single: float = struct.unpack("f", struct.pack("f", value))[0]
    return single


def _roundings(single: float) -> Iterator[str]:
    """The number with ever more digits; nine tell any two singles apart."""
    exact = Decimal(single)
    for precision in range(1, 10):
        # Numbers just below a power of two lie closer together than those above it: when the nearest text belongs
        # to a neighbour below, the next one up may still belong to the power itself.
        for rounding in (ROUND_HALF_EVEN, ROUND_UP):
            rounded = Context(prec=precision, rounding=rounding).create_decimal(exact)
            yield f"{rounded:.{precision - 1}e}"
