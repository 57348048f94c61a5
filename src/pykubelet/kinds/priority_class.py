"""PriorityClass: the priority of pods by name.

Upstream: pkg/registry/scheduling/priorityclass/strategy.go, pkg/apis/scheduling/validation/validation.go,
pkg/apis/scheduling/v1/defaults.go, pkg/apis/scheduling/v1/helpers.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError, forbidden
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import created, name_of
from pykubelet.kinds.kind import Kind, Strategy, first_generation, next_generation
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors
from pykubelet.kinds.rules import OneOf, immutable_fields_errors

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_CLASSES = {
    "system-node-critical": 2 * HIGHEST_USER_PRIORITY + 1000,
    "system-cluster-critical": 2 * HIGHEST_USER_PRIORITY,
}
"""The classes of every cluster and their priorities."""
_SYSTEM_PREFIX = "system-"
_PREEMPTION_POLICIES = OneOf(("PreemptLowerPriority", "Never"), required=True)


def _default(document: Document) -> Document:
    return {"preemptionPolicy": "PreemptLowerPriority", **normal_form(document, "scheduling.v1.PriorityClass")}


def _validate_create(document: Document) -> list[FieldError]:
    name, value, policy = document["metadata"].get("name", ""), document["value"], document["preemptionPolicy"]
    errors = metadata_errors(document["metadata"], namespaced=False)
    if name.startswith(_SYSTEM_PREFIX):
        if problem := _system_class_problem(name, value, is_default=document.get("globalDefault", False)):
            detail = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only. error: {problem}"
            errors.append(forbidden("metadata.name", detail))
    elif value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        errors.append(forbidden("value", detail))
    return errors + _PREEMPTION_POLICIES.errors(policy, "preemptionPolicy")


def _system_class_problem(name: str, value: int, *, is_default: bool) -> str:
    if name not in SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    if value != SYSTEM_CLASSES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    if new["value"] != old["value"]:
        errors.append(forbidden("value", "may not be changed in an update."))
    return errors + immutable_fields_errors(new, old, ("preemptionPolicy",))


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, value, global default, age, preemption policy."""
    return [
        name_of(document),
        document.get("value", 0),
        document.get("globalDefault", False),
        created(document, age),
        document.get("preemptionPolicy", ""),
    ]


KIND = Kind(
    resource=Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False),
    definition="scheduling.v1.PriorityClass",
    short_names=("pc",),
    strategy=Strategy(
        default=_default,
        prepare_create=first_generation,
        validate_create=_validate_create,
        prepare_update=lambda new, old: next_generation(new, old, changed=False),
        validate_update=_validate_update,
    ),
    cells=_cells,
)
