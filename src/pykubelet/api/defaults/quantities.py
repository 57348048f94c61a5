"""Quantities of a document in the form in which they are kept and shown.

In: text or a number, as people write them. Out: the canonical text; no resource is finer than a thousandth.

Upstream: SetDefaults_ResourceList in pkg/apis/core/v1/defaults.go
"""

import json
from functools import lru_cache

from pykubelet.api.quantity import Quantity, parse_quantity, quantity_from_json
from pykubelet.api.wire import Document

_MILLI = -3


# Few different quantities stand in many objects.
@lru_cache(maxsize=4096, typed=True)
def canonical_quantity(value: str | float) -> str:
    """The same quantity in canonical form; QuantityError if it is none."""
    return str(_read(value))


def canonical_resource_list(resources: Document) -> Document:
    """The quantities in canonical form, rounded up to thousandths; QuantityError if one is none."""
    return {name: _canonical_amount(value) for name, value in resources.items()}


@lru_cache(maxsize=4096, typed=True)
def _canonical_amount(value: str | float) -> str:
    return str(_rounded_up(_read(value)))


def _read(value: str | float) -> Quantity:
    return parse_quantity(value.strip()) if isinstance(value, str) else quantity_from_json(json.dumps(value))


def _rounded_up(quantity: Quantity) -> Quantity:
    if quantity.scale >= _MILLI:
        return quantity
    size = -(-abs(quantity.unscaled) // 10 ** (_MILLI - quantity.scale))
    return Quantity(size if quantity.unscaled > 0 else -size, _MILLI, quantity.format)
