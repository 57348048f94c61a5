"""Complaints about counts that are a number or a percentage.

Upstream: ValidatePositiveIntOrPercent and IsNotMoreThan100Percent in pkg/apis/apps/validation/validation.go
"""

from pykubelet.api.int64 import parse_int64
from pykubelet.api.names import percent_errors
from pykubelet.api.validation.field_errors import FieldError, Named, each_invalid, invalid
from pykubelet.api.validation.metadata import nonnegative_errors

IntOrString = int | str


def int_or_percent_errors(value: IntOrString, path: str) -> list[FieldError]:
    """Whether the value is a percentage, or a number that is not negative."""
    if isinstance(value, str):
        return each_invalid(path, Named(value), percent_errors(value))
    return nonnegative_errors(value, path)


def over_100_percent_errors(value: IntOrString, path: str) -> list[FieldError]:
    """Whether the value is a percentage above 100."""
    if not isinstance(value, str) or percent_errors(value) or int_or_percent_number(value) <= 100:
        return []
    return [invalid(path, Named(value), "must not be greater than 100%")]


def int_or_percent_number(value: IntOrString) -> int:
    """The number itself, or that before the percent sign; 0 for what is neither."""
    if isinstance(value, int):
        return value
    return parse_int64(value.removesuffix("%")) or 0


def shown(value: IntOrString) -> IntOrString:
    """The value as messages show it."""
    return Named(value) if isinstance(value, str) else value
