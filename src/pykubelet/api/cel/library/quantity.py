"""Resource quantities: `quantity('1.5Gi')`.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/quantity.go
"""

import math
from collections.abc import Callable
from typing import Any

from pykubelet.api.cel.values import CelError, add_kind, succeeds
from pykubelet.api.quantity import MAX_INT64, MIN_INT64, Format, Quantity, QuantityError, add, cmp, parse_quantity, sub

# Powers of ten beyond which no number fits int64, or a double.
_INT64_PLACES = 19
_DOUBLE_PLACES = 400

add_kind(Quantity, "kubernetes.Quantity")


def _quantity(text: str) -> Quantity:
    try:
        return parse_quantity(text)
    except QuantityError as error:
        raise CelError(str(error)) from None


def _whole(quantity: Quantity) -> int | None:
    """Returns the value if the quantity is written as a 64-bit integer."""
    if quantity.scale < 0 or (quantity.unscaled and quantity.scale > _INT64_PLACES):
        return None
    number = quantity.unscaled * 10 ** min(quantity.scale, _INT64_PLACES)
    return number if MIN_INT64 <= number <= MAX_INT64 else None


def _as_integer(quantity: Quantity) -> int:
    number = _whole(quantity)
    if number is None:
        raise CelError("cannot convert value to integer")
    return number


def _as_float(quantity: Quantity) -> float:
    if quantity.scale > _DOUBLE_PLACES:
        return math.copysign(math.inf, quantity.unscaled) if quantity.unscaled else 0.0
    return float(f"{quantity.unscaled}e{quantity.scale}")


def _of_int(number: int) -> Quantity:
    return Quantity(number, 0, Format.DECIMAL_EXPONENT)


OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("quantity(string) -> kubernetes.Quantity", _quantity),
    ("isQuantity(string) -> bool", succeeds(_quantity)),
    ("sign(kubernetes.Quantity) -> int", Quantity.sign),
    ("(kubernetes.Quantity).isGreaterThan(kubernetes.Quantity) -> bool", lambda a, b: cmp(a, b) > 0),
    ("(kubernetes.Quantity).isLessThan(kubernetes.Quantity) -> bool", lambda a, b: cmp(a, b) < 0),
    ("(kubernetes.Quantity).compareTo(kubernetes.Quantity) -> int", cmp),
    ("(kubernetes.Quantity).asApproximateFloat() -> double", _as_float),
    ("(kubernetes.Quantity).asInteger() -> int", _as_integer),
    ("(kubernetes.Quantity).isInteger() -> bool", lambda quantity: _whole(quantity) is not None),
    ("(kubernetes.Quantity).add(kubernetes.Quantity) -> kubernetes.Quantity", add),
    ("(kubernetes.Quantity).add(int) -> kubernetes.Quantity", lambda a, b: add(a, _of_int(b))),
    ("(kubernetes.Quantity).sub(kubernetes.Quantity) -> kubernetes.Quantity", sub),
    ("(kubernetes.Quantity).sub(int) -> kubernetes.Quantity", lambda a, b: sub(a, _of_int(b))),
)
