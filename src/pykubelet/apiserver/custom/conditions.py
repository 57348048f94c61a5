"""The conditions of a definition: found, and set in a new status.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apihelpers/helpers.go
"""

from typing import NamedTuple

from pykubelet.api.wire import Document


class Condition(NamedTuple):
    """One condition as it shall be; when it changed is found out."""

    type: str
    status: str
    reason: str
    message: str


def find_condition(definition: Document, type: str) -> Document | None:
    """The condition of a type."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == type), None)


def is_true(definition: Document, type: str) -> bool:
    """Whether the condition of a type is there and true."""
    found = find_condition(definition, type)
    return found is not None and found.get("status") == "True"


def with_condition(definition: Document, condition: Condition, now: str) -> Document:
    """The definition with a condition set; the time stays if the status does."""
    status = definition.get("status") or {}
    old = find_condition(definition, condition.type)
    since = now if old is None or old.get("status") != condition.status else old.get("lastTransitionTime") or now
    new = {
        "type": condition.type,
        "status": condition.status,
        "lastTransitionTime": since,
        "reason": condition.reason,
        "message": condition.message,
    }
    conditions = [new if each is old else each for each in status.get("conditions") or ()]
    if old is None:
        conditions.append(new)
    return {**definition, "status": {**status, "conditions": conditions}}
