"""Resource quantities such as `1.5Gi`: parsing, arithmetic, comparison and canonical form.

A frozen `Quantity` is an exact decimal number that remembers its suffix family. Amounts finer than a nano are rounded
away from zero; binary ones stop at the largest 64-bit integer. Numbers of more than 4,000 digits are never computed,
however large the exponent, whereas upstream stalls. `QuantityOrPercentage` is upstream's ThresholdValue. Go's 64-bit
integers, and counts given as an integer or a percentage, are parsed here too.

Upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go,
staging/src/k8s.io/apimachinery/pkg/api/resource/amount.go, staging/src/k8s.io/apimachinery/pkg/api/resource/suffix.go,
staging/src/k8s.io/apimachinery/pkg/util/intstr/intstr.go, pkg/kubelet/eviction/api/types.go
"""

import json
import re
import struct
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from pykubelet.api.field_errors import GO_SPACE, go_quote
from pykubelet.api.serializer import Document

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)
_INT64_TEXT = re.compile("([+-]?)0*+([0-9]{0,19})")  # 19 digits hold every 64-bit integer


def parse_int64(text: str) -> int | None:
    """Parses a decimal 64-bit integer like Go's `strconv.ParseInt`; None if the text is not one."""
    match = _INT64_TEXT.fullmatch(text)
    if match is None or not text[-1:].isdigit():
        return None
    number = int(match[1] + (match[2] or "0"))
    return number if MIN_INT64 <= number <= MAX_INT64 else None


def int64_problem(text: str) -> str:
    """Returns the error message of Go's `strconv.ParseInt` for a text that is not a 64-bit integer."""
    problem = "value out of range" if re.fullmatch("[+-]?[0-9]+", text) else "invalid syntax"
    return f"strconv.ParseInt: parsing {go_quote(text)}: {problem}"


def clamp_int64(number: int) -> int:
    return max(MIN_INT64, min(MAX_INT64, number))


def scaled_int_or_percent(value: int | str, total: int, *, round_up: bool) -> int:
    """Resolves an int-or-percent value: the integer, or the percentage of `total`; raises ValueError."""
    if isinstance(value, int):
        return value
    percent = parse_int64(value.removesuffix("%")) if value.endswith("%") else None
    if percent is None:
        raise ValueError(f"invalid value for IntOrString: {value!r} is not a percentage")
    return -(-percent * total // 100) if round_up else percent * total // 100


_NANO = -9
# Upstream has no limit and stalls when a text like 1e1000000000 is added to something.
_MAX_DIGITS = 4000
# Upstream's scanner as one possessive expression, which reads the text only once.
_QUANTITY_TEXT = re.compile(r"([+-]?+)0*+([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?+[0-9]*+)")
_DECIMAL_SUFFIXES = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY_SUFFIXES = {1: "Ki", 2: "Mi", 3: "Gi", 4: "Ti", 5: "Pi", 6: "Ei"}
_DECIMAL_EXPONENTS = {suffix: exponent for exponent, suffix in _DECIMAL_SUFFIXES.items()}
_BINARY_EXPONENTS = {suffix: 10 * power for power, suffix in _BINARY_SUFFIXES.items()}
_WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_NUMBER = "unable to parse numeric part of quantity"
_WRONG_SUFFIX = "unable to parse quantity's suffix"


class QuantityError(ValueError):
    """The text is not a quantity; the message is Kubernetes' own."""


class Format(StrEnum):
    """The suffix family of a quantity; NONE belongs to a null."""

    NONE = ""
    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """The number unscaled * 10**scale; only the number counts in comparisons.

    `given` is the original text where upstream considers it canonical; a computed quantity has none.
    """

    unscaled: int = 0
    scale: int = 0
    format: Format = Format.NONE
    given: str = ""

    def value(self) -> int:
        """Returns the integer, rounded away from zero and clamped to 64 bits."""
        return _scaled_value(self, 0)

    def milli_value(self) -> int:
        """Returns the thousandths, rounded and clamped like `value`."""
        return _scaled_value(self, -3)

    def sign(self) -> int:
        return (self.unscaled > 0) - (self.unscaled < 0)

    def __str__(self) -> str:
        return self.given or _canonical(self)

    def __eq__(self, other: object) -> bool:
        return cmp(self, other) == 0 if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: "Quantity") -> bool:
        return cmp(self, other) < 0

    def __le__(self, other: "Quantity") -> bool:
        return cmp(self, other) <= 0

    def __hash__(self) -> int:
        return hash((self.sign(), *_significant(self)) if self.unscaled else 0)


# The same few quantities occur in many objects.
@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity:
    """Parses a quantity; raises QuantityError."""
    match = _QUANTITY_TEXT.fullmatch(text)
    if match is None or not text:
        raise QuantityError(_WRONG_FORMAT)
    sign, whole, fraction, suffix = match.groups(default="")
    base, exponent, written_as = _interpret(suffix)
    whole = whole or "0"
    digits = whole + fraction
    short = _is_short(whole, fraction, base, exponent)
    # Upstream reads a text without digits as zero, but only in its fast path for short numbers.
    has_digits = bool(text[: match.start(4)].strip("+-."))
    if not (short or has_digits) or len(digits.lstrip("0")) > _MAX_DIGITS:
        raise QuantityError(_WRONG_NUMBER)
    unscaled = int(digits.lstrip("0") or "0")
    scale = -len(fraction)
    given = text if short and _is_taken_for_canonical(digits, scale + exponent, base) else ""
    if base == 2:
        unscaled, scale = _rounded_to_nano(unscaled << exponent, scale)
        unscaled = min(unscaled, MAX_INT64 * 10**-scale)
        if 0 < unscaled < 10**-scale:
            written_as = Format.DECIMAL_SI
    else:
        unscaled, scale = _rounded_to_nano(unscaled, scale + exponent)
    return Quantity(-unscaled if sign == "-" else unscaled, scale, written_as, given)


def quantity_from_json(raw: str) -> Quantity:
    """Parses the raw JSON text of a number, string or null.

    The text matters: `1E3` and `1000` are the same number in two suffix families. Escapes in a string are not decoded.
    """
    if raw == "null":
        return Quantity()
    if len(raw) >= 2 and raw[0] == raw[-1] == '"':
        raw = raw[1:-1]
    return parse_quantity(raw.strip(GO_SPACE))


def quantity_to_json(quantity: Quantity) -> str:
    """Returns the canonical form as a JSON string."""
    return f'"{quantity}"'


def cmp(a: Quantity, b: Quantity) -> int:
    """Returns -1, 0 or 1 for a < b, a == b and a > b."""
    if a.sign() != b.sign() or not a.sign():
        return (a.sign() > b.sign()) - (a.sign() < b.sign())
    if _magnitude(a) != _magnitude(b):
        return a.sign() if _magnitude(a) > _magnitude(b) else -a.sign()
    left, right, _ = _aligned(a, b)
    return (left > right) - (left < right)


def add(a: Quantity, b: Quantity) -> Quantity:
    """Returns the sum in the format of a, or of b if a is zero.

    If the exact sum needed more than 4,000 digits, the larger operand is the sum.
    """
    written_as = a.format if a.unscaled else b.format
    if not (a.unscaled and b.unscaled):
        larger = a if a.unscaled else b
        return Quantity(larger.unscaled, larger.scale, written_as)
    if max(_magnitude(a), _magnitude(b)) - min(a.scale, b.scale) >= _MAX_DIGITS:
        larger = a if _magnitude(a) >= _magnitude(b) else b
        return Quantity(larger.unscaled, larger.scale, written_as)
    left, right, scale = _aligned(a, b)
    return Quantity(left + right, scale, written_as)


def sub(a: Quantity, b: Quantity) -> Quantity:
    """Returns the difference in the format of a, or of b if a is zero."""
    return add(a, Quantity(-b.unscaled, b.scale, b.format))


def _interpret(suffix: str) -> tuple[int, int, Format]:
    """Returns base, exponent and format of a suffix."""
    if suffix in _DECIMAL_EXPONENTS:
        return 10, _DECIMAL_EXPONENTS[suffix], Format.DECIMAL_SI
    if suffix in _BINARY_EXPONENTS:
        return 2, _BINARY_EXPONENTS[suffix], Format.BINARY_SI
    exponent = parse_int64(suffix[1:]) if suffix[0] in "eE" else None
    if exponent is None:
        raise QuantityError(_WRONG_SUFFIX)
    # Upstream keeps only the low 32 bits.
    return 10, (exponent + 2**31) % 2**32 - 2**31, Format.DECIMAL_EXPONENT


def _is_short(whole: str, fraction: str, base: int, exponent: int) -> bool:
    """Whether upstream uses its 64-bit fast path for this number, which changes a few results."""
    if base == 10:
        return len(whole) + len(fraction) <= 18 and exponent - len(fraction) >= _NANO
    return not fraction and len(whole) + exponent * 3 // 10 <= 14


def _is_taken_for_canonical(digits: str, scale: int, base: int) -> bool:
    """Upstream's guess whether a short number is already canonical; its text is then kept, sign included."""
    if base == 2:
        return int(digits) % 8 != 0
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _rounded_to_nano(unscaled: int, scale: int) -> tuple[int, int]:
    """Rounds to nanos, away from zero."""
    if scale >= _NANO:
        return unscaled, scale
    return _shifted_right(unscaled, _NANO - scale), _NANO


def _shifted_right(unscaled: int, places: int) -> int:
    """Drops the last decimal places, rounding away from zero."""
    size = abs(unscaled)
    # That many places leave nothing, and the power of ten would be too large to compute.
    kept = -(-size // 10**places) if places <= 2 * _MAX_DIGITS else int(size > 0)
    return kept if unscaled >= 0 else -kept


def _aligned(a: Quantity, b: Quantity) -> tuple[int, int, int]:
    """Returns both numbers as integers of a common scale, and that scale."""
    scale = min(a.scale, b.scale)
    return a.unscaled * 10 ** (a.scale - scale), b.unscaled * 10 ** (b.scale - scale), scale


def _scaled_value(quantity: Quantity, scale: int) -> int:
    if quantity.scale < scale:
        return clamp_int64(_shifted_right(quantity.unscaled, scale - quantity.scale))
    # More than 20 places exceed 64 bits whatever the digits are.
    return clamp_int64(quantity.unscaled * 10 ** min(quantity.scale - scale, 20))


def _significant(quantity: Quantity) -> tuple[str, int]:
    """Strips trailing zeros from the digits of a nonzero number; returns digits and exponent."""
    digits = str(abs(quantity.unscaled))
    significant = digits.rstrip("0")
    return significant, quantity.scale + len(digits) - len(significant)


def _magnitude(quantity: Quantity) -> int:
    """Returns the number of digits before the decimal point; negative for leading zeros after it."""
    return len(str(abs(quantity.unscaled))) + quantity.scale


def _canonical(quantity: Quantity) -> str:
    """Formats with the largest suffix that leaves no fraction."""
    if not quantity.unscaled:
        return "0"
    minus = "-" if quantity.unscaled < 0 else ""
    whole = _whole(quantity) if quantity.format == Format.BINARY_SI else 0
    if whole >= 1024:
        power = 0
        while whole % 1024 == 0:
            whole, power = whole // 1024, power + 1
        # Like upstream, drops the suffix if none is large enough; same below.
        return f"{minus}{whole}{_BINARY_SUFFIXES.get(power, '')}"
    digits, exponent = _significant(quantity)
    digits, exponent = digits + "0" * (exponent % 3), exponent - exponent % 3
    if quantity.format in {Format.DECIMAL_SI, Format.BINARY_SI}:
        return f"{minus}{digits}{_DECIMAL_SUFFIXES.get(exponent, '')}"
    return f"{minus}{digits}e{exponent}" if exponent else f"{minus}{digits}"


def _whole(quantity: Quantity) -> int:
    """Returns the absolute value of an integer; 0 if it has a fraction or too many digits to write out."""
    if _magnitude(quantity) > _MAX_DIGITS:
        return 0
    if quantity.scale >= 0:
        return int(abs(quantity.unscaled) * 10**quantity.scale)
    whole, rest = divmod(abs(quantity.unscaled), 10**-quantity.scale)
    return 0 if rest else whole


@dataclass(frozen=True, slots=True)
class QuantityOrPercentage:
    """A quantity, or a percentage of the capacity."""

    quantity: Quantity | None = None
    share: float = 0.0

    @property
    def sign(self) -> int:
        return self.quantity.sign() if self.quantity is not None else (self.share > 0) - (self.share < 0)

    def of(self, capacity: int) -> Quantity:
        """Returns the amount for a capacity."""
        if self.quantity is not None:
            return self.quantity
        return Quantity(int(capacity * self.share), 0, Format.BINARY_SI)


def parse_quantity_or_percentage(text: str) -> QuantityOrPercentage:
    """Parses a quantity or a percentage; raises ValueError."""
    if text.endswith("%"):
        # Upstream keeps a single; on a large disk messages show the difference.
        return QuantityOrPercentage(share=single_precision(float(text.rstrip("%")) / 100))
    return QuantityOrPercentage(parse_quantity(text))


def single_precision(number: float) -> float:
    """Rounds to single precision; infinity if out of range."""
    single: float = struct.unpack("f", struct.pack("f", number))[0]
    return single


_MILLI = -3


# The same few quantities occur in many objects.
@lru_cache(maxsize=4096, typed=True)
def canonical_quantity(value: str | float) -> str:
    """Returns the canonical form of a quantity; raises QuantityError."""
    return str(_read(value))


def canonical_resource_list(resources: Document) -> Document:
    """Returns a resource list in canonical form, rounded up to thousandths; raises QuantityError."""
    return {name: _canonical_amount(value) for name, value in resources.items()}


@lru_cache(maxsize=4096, typed=True)
def _canonical_amount(value: str | float) -> str:
    return str(_rounded_up(_read(value)))


def _read(value: str | float) -> Quantity:
    return parse_quantity(value.strip()) if isinstance(value, str) else quantity_from_json(json.dumps(value))


def _rounded_up(quantity: Quantity) -> Quantity:
    if quantity.scale >= _MILLI:
        return quantity
    return Quantity(_shifted_right(quantity.unscaled, _MILLI - quantity.scale), _MILLI, quantity.format)
