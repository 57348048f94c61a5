"""Status of a CustomResourceDefinition: accepted names and conditions.

A name already used by another definition of the group is rejected, and the previously accepted one stays.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/status/naming_controller.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/controller/establish/establishing_controller.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apihelpers/helpers.go
"""

from collections.abc import Iterable
from typing import NamedTuple

from pykubelet.api.field_errors import aggregate_text, go_quote
from pykubelet.api.serializer import Document


class CrdCondition(NamedTuple):
    """The desired state of a condition; `with_condition` adds the transition time."""

    type: str
    status: str
    reason: str
    message: str


def find_condition(definition: Document, type: str) -> Document | None:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == type), None)


def is_true(definition: Document, type: str) -> bool:
    found = find_condition(definition, type)
    return found is not None and found.get("status") == "True"


def with_condition(definition: Document, condition: CrdCondition, now: str) -> Document:
    """Sets a condition; the transition time changes only with the status."""
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


_RESOURCE_NAMES = (("plural", "PluralConflict"), ("singular", "SingularConflict"))
_KIND_NAMES = (("kind", "KindConflict"), ("listKind", "ListKindConflict"))
_ACCEPTED = CrdCondition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
_NOT_ACCEPTED = CrdCondition("Established", "False", "NotAccepted", "not all names are accepted")
_ESTABLISHED = CrdCondition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")


def with_accepted_names(definition: Document, others: Iterable[Document], now: str) -> Document:
    """Accepts the names that no other definition uses; establishes the definition if all are accepted."""
    status = definition.get("status") or {}
    before = status.get("acceptedNames") or {}
    wanted = definition["spec"]["names"]
    if before != wanted or find_condition(definition, "NamesAccepted") is None:
        accepted, condition = _accepted(wanted, before, *_used_names(definition, others))
        definition = {**definition, "status": {**status, "acceptedNames": accepted}}
        definition = with_condition(definition, condition, now)
        if find_condition(definition, "Established") is None:
            definition = with_condition(definition, _NOT_ACCEPTED, now)
    if is_true(definition, "NamesAccepted") and not is_true(definition, "Established"):
        definition = with_condition(definition, _ESTABLISHED, now)
    return definition


def _used_names(definition: Document, others: Iterable[Document]) -> tuple[set[str], set[str]]:
    """Returns the resource names and kind names that other definitions of the group use."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] != definition["spec"]["group"]:
            continue
        if other["metadata"]["name"] == definition["metadata"]["name"]:
            continue
        names = (other.get("status") or {}).get("acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", ""), *names.get("shortNames", ())}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources, kinds


def _accepted(
    wanted: Document, before: Document, resources: set[str], kinds: set[str]
) -> tuple[Document, CrdCondition]:
    accepted: Document = {"plural": "", "kind": "", **before}
    condition = _ACCEPTED
    for keys, taken in ((_RESOURCE_NAMES, resources), (_KIND_NAMES, kinds)):
        for key, reason in keys:
            name = wanted.get(key, "")
            if name != before.get(key, "") and name in taken:
                condition = _conflict(reason, [name])
            else:
                accepted[key] = name
        if taken is resources:
            short = wanted.get("shortNames", [])
            clashes = [name for name in short if name not in before.get("shortNames", ()) and name in taken]
            if clashes:
                condition = _conflict("ShortNamesConflict", clashes)
            else:
                accepted["shortNames"] = short
    accepted["categories"] = wanted.get("categories", [])
    return {key: value for key, value in accepted.items() if value or key in {"plural", "kind"}}, condition


def _conflict(reason: str, names: list[str]) -> CrdCondition:
    message = aggregate_text(f"{go_quote(name)} is already in use" for name in names)
    return CrdCondition("NamesAccepted", "False", reason, message)
