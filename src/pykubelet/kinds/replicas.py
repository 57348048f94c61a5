"""Replica counts: validation of counts and percentages, and the cells that show them.

Upstream: pkg/apis/apps/validation/validation.go
"""

from collections.abc import Iterable
from typing import Any

from pykubelet.api.field_errors import FieldError, TypedString, each_invalid, invalid
from pykubelet.api.names import percent_errors
from pykubelet.api.quantity import parse_int64
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.kind import keep_spec, without_fields
from pykubelet.kinds.metadata import nonnegative_errors

IntOrString = int | str


def int_or_percent_errors(value: IntOrString, path: str) -> list[FieldError]:
    """Validates a percentage or a number that is not negative."""
    if isinstance(value, str):
        return each_invalid(path, TypedString(value), percent_errors(value))
    return nonnegative_errors(value, path)


def over_100_percent_errors(value: IntOrString, path: str) -> list[FieldError]:
    """Validates that a percentage is at most 100."""
    if not isinstance(value, str) or percent_errors(value) or int_or_percent_number(value) <= 100:
        return []
    return [invalid(path, TypedString(value), "must not be greater than 100%")]


def int_or_percent_number(value: IntOrString) -> int:
    """The number, or the number before the percent sign; 0 for any other text."""
    if isinstance(value, int):
        return value
    return parse_int64(value.removesuffix("%")) or 0


def shown(value: IntOrString) -> IntOrString:
    """The value as messages show it."""
    return TypedString(value) if isinstance(value, str) else value


def available_errors(
    status: Document, path: str, counts: Iterable[str], *, ready_name: str = "readyReplicas"
) -> list[FieldError]:
    """Validates that no count exceeds the replicas, nor the available pods the ready ones (`ready_name` in messages)."""
    total, ready = status.get("replicas", 0), status.get("readyReplicas", 0)
    errors = [
        invalid(f"{path}.{name}", count, "cannot be greater than status.replicas")
        for name in counts
        if (count := status.get(name, 0)) > total
    ]
    if (available := status.get("availableReplicas", 0)) > ready:
        errors.append(invalid(f"{path}.availableReplicas", available, f"cannot be greater than {ready_name}"))
    return errors


def counts_errors(status: Document, path: str, names: Iterable[str]) -> list[FieldError]:
    """Validates that no count is negative."""
    return [error for name in names for error in nonnegative_errors(status.get(name, 0), f"{path}.{name}")]


def without_terminating_replicas(new: Document, old: Document) -> Document:
    """The status update without terminatingReplicas, which 1.34 keeps only in objects that have it already."""
    result = keep_spec(new, old)
    if "terminatingReplicas" in old.get("status", {}) or "terminatingReplicas" not in result.get("status", {}):
        return result
    return {**result, "status": without_fields(result["status"], "terminatingReplicas")}


def collision_count_errors(new: Document, old: Document) -> list[FieldError]:
    """Validates that the collision count does not decrease."""
    before, after = old.get("collisionCount"), new.get("collisionCount")
    if before is None or (after is not None and after >= before):
        return []
    return [invalid("status.collisionCount", after or 0, "cannot be decremented")]


def replica_cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, desired, current, ready, age."""
    status = at(document, "status")
    return [
        name_of(document),
        at(document, "spec").get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        created(document, age),
    ]
