"""Go's 64-bit integers, and counts given as an integer or a percentage.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/intstr/intstr.go
"""

import re

from pykubelet.api.field_errors import go_quote

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)
_TEXT = re.compile("([+-]?)0*+([0-9]{0,19})")  # 19 digits hold every 64-bit integer


def parse_int64(text: str) -> int | None:
    """Parses a decimal 64-bit integer like Go's `strconv.ParseInt`; None if the text is not one."""
    match = _TEXT.fullmatch(text)
    if match is None or not text[-1:].isdigit():
        return None
    number = int(match[1] + (match[2] or "0"))
    return number if MIN_INT64 <= number <= MAX_INT64 else None


def int64_problem(text: str) -> str:
    """Returns the error message of Go's `strconv.ParseInt` for a text that is not a 64-bit integer."""
    problem = "value out of range" if re.fullmatch("[+-]?[0-9]+", text) else "invalid syntax"
    return f"strconv.ParseInt: parsing {go_quote(text)}: {problem}"


def clamp_int64(number: int) -> int:
    """Clamps a number to the 64-bit range."""
    return max(MIN_INT64, min(MAX_INT64, number))


def scaled_int_or_percent(value: int | str, total: int, *, round_up: bool) -> int:
    """Resolves an int-or-percent value: the integer, or the percentage of `total`; raises ValueError."""
    if isinstance(value, int):
        return value
    percent = parse_int64(value.removesuffix("%")) if value.endswith("%") else None
    if percent is None:
        raise ValueError(f"invalid value for IntOrString: {value!r} is not a percentage")
    return -(-percent * total // 100) if round_up else percent * total // 100
