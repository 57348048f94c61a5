"""Amounts of resources by name, as in the status of a ResourceQuota: sums and differences.

Upstream: staging/src/k8s.io/apiserver/pkg/quota/v1/resources.go
"""

from collections.abc import Collection, Iterable, Mapping

from pykubelet.api.quantity import Format, Quantity, add, parse_quantity, sub

Amounts = Mapping[str, Quantity]
ZERO = Quantity(format=Format.DECIMAL_SI)
ONE = Quantity(1, format=Format.DECIMAL_SI)


def count_of(number: int) -> Quantity:
    return Quantity(number, format=Format.DECIMAL_SI)


def read_amounts(texts: Mapping[str, str] | None) -> dict[str, Quantity]:
    return {name: parse_quantity(text) for name, text in (texts or {}).items()}


def written_amounts(amounts: Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def added(first: Amounts, second: Amounts) -> dict[str, Quantity]:
    total = dict(first)
    for name, amount in second.items():
        total[name] = add(total[name], amount) if name in total else amount
    return total


def increase(new: Amounts, old: Amounts) -> dict[str, Quantity]:
    """What `new` has more than `old`, by resource, without those that do not increase."""
    differences = {name: sub(amount, old[name]) if name in old else amount for name, amount in new.items()}
    return {name: amount for name, amount in differences.items() if amount.sign() > 0}


def masked(amounts: Amounts, names: Collection[str]) -> dict[str, Quantity]:
    """The amounts of these resources only."""
    return {name: amount for name, amount in amounts.items() if name in names}


def shown(amounts: Amounts) -> str:
    """The amounts as messages list them, ordered by name: `cpu=1,pods=2`."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def names_shown(names: Iterable[str]) -> str:
    return ",".join(sorted(names))
