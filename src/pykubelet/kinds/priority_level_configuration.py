"""PriorityLevelConfiguration: how many requests run at once, and the levels that every cluster has.

Upstream: pkg/registry/flowcontrol/prioritylevelconfiguration/strategy.go, pkg/apis/flowcontrol/v1/defaults.go,
pkg/apis/flowcontrol/validation/validation.go, staging/src/k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap/default.go
"""

import math
from typing import Any

from pykubelet.api.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import NONE, at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, keep_spec, keep_status, without_status
from pykubelet.kinds.metadata import metadata_errors

EXEMPT, LIMITED = "Exempt", "Limited"
_DEFINITION = "flowcontrol.v1.PriorityLevelConfiguration"
_ZERO_SHARES = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
_MAX_QUEUES = 10_000_000
_MAX_ENTROPY_BITS = 60
_NON_NEGATIVE = "must be a non-negative integer"


def _limited(shares: int, lendable: int, queues: int = 0, hand: int = 0) -> Document:
    response: Document = {"type": "Reject"}
    if queues:
        response = {"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}}
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}
    return {"type": LIMITED, "limited": limited}


MANDATORY_PRIORITY_LEVELS: dict[str, Document] = {
    "exempt": {"type": EXEMPT, "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    "catch-all": _limited(5, 0),
}
"""Their specs cannot be changed, except for `spec.exempt`."""
SUGGESTED_PRIORITY_LEVELS: dict[str, Document] = {
    "system": _limited(30, 33, 64, 6),
    "node-high": _limited(40, 25, 64, 6),
    "leader-election": _limited(10, 0, 16, 4),
    "workload-high": _limited(40, 50, 128, 6),
    "workload-low": _limited(100, 90, 128, 6),
    "global-default": _limited(20, 50, 128, 6),
}


def _default(document: Document) -> Document:
    normal = normal_form(document, _DEFINITION)
    spec = dict(normal["spec"])
    if "exempt" in spec:
        spec["exempt"] = {"nominalConcurrencyShares": 0, "lendablePercent": 0, **spec["exempt"]}
    if "limited" in spec:
        limited = {"nominalConcurrencyShares": 30, "lendablePercent": 0, **spec["limited"]}
        response = limited["limitResponse"]
        if "queuing" in response:
            queuing, defaults = response["queuing"], {"handSize": 8, "queues": 64, "queueLengthLimit": 50}
            filled = {name: queuing[name] or value for name, value in defaults.items()}
            limited["limitResponse"] = {**response, "queuing": {**queuing, **filled}}
        spec["limited"] = limited
    return {**normal, "spec": spec}


def _validate(document: Document, _old: Document | None = None) -> list[FieldError]:
    metadata, spec = document["metadata"], document["spec"]
    errors = metadata_errors(metadata, namespaced=False)
    if _ZERO_SHARES in metadata.get("annotations", {}):
        errors.append(forbidden("metadata.annotations", f"annotation '{_ZERO_SHARES}' is forbidden"))
    name = metadata.get("name", "")
    errors += _spec_errors(name, spec)
    fixed = MANDATORY_PRIORITY_LEVELS.get(name)
    if fixed is not None and {**spec, "exempt": None} != {**fixed, "exempt": None}:
        exception = " except the 'spec.exempt' field" if name == "exempt" else ""
        errors.append(invalid("spec", spec, f"spec of '{name}'{exception} must equal the fixed value"))
    return errors + conditions_errors(document)


def _spec_errors(name: str, spec: Document) -> list[FieldError]:
    kind = spec["type"]
    errors: list[FieldError] = []
    if (name == "exempt") != (kind == EXEMPT):
        errors.append(invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'"))
    if kind == EXEMPT:
        if "limited" in spec:
            errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
        if "exempt" in spec:
            errors += _shares_errors(spec["exempt"], "spec.exempt")
    elif kind == LIMITED:
        if "exempt" in spec:
            errors.append(forbidden("spec.exempt", "must be nil if the type is Limited"))
        if "limited" not in spec:
            errors.append(required("spec.limited", "must not be empty when type is Limited"))
        else:
            errors += _limited_errors(spec["limited"], "spec.limited")
    else:
        errors.append(not_supported("spec.type", kind, (EXEMPT, LIMITED)))
    return errors


def _shares_errors(level: Document, path: str, between: list[FieldError] | None = None) -> list[FieldError]:
    shares, lendable = level["nominalConcurrencyShares"], level["lendablePercent"]
    errors = [invalid(f"{path}.nominalConcurrencyShares", shares, _NON_NEGATIVE)] if shares < 0 else []
    errors += between or ()
    if not 0 <= lendable <= 100:
        errors.append(invalid(f"{path}.lendablePercent", lendable, "must be between 0 and 100, inclusive"))
    return errors


def _limited_errors(limited: Document, path: str) -> list[FieldError]:
    errors = _shares_errors(limited, path, _response_errors(limited["limitResponse"], f"{path}.limitResponse"))
    if (borrowing := limited.get("borrowingLimitPercent", 0)) < 0:
        errors.append(invalid(f"{path}.borrowingLimitPercent", borrowing, f"if specified, {_NON_NEGATIVE}"))
    return errors


def _response_errors(response: Document, path: str) -> list[FieldError]:
    kind, queuing = response["type"], response.get("queuing")
    if kind == "Reject":
        detail = "must be nil if limited.limitResponse.type is not Limited"
        return [] if queuing is None else [forbidden(f"{path}.queuing", detail)]
    if kind != "Queue":
        return [not_supported(f"{path}.type", kind, ("Queue", "Reject"))]
    if queuing is None:
        return [required(f"{path}.queuing", "must not be empty if limited.limitResponse.type is Limited")]
    return _queuing_errors(queuing, f"{path}.queuing")


def _queuing_errors(queuing: Document, path: str) -> list[FieldError]:
    length, queues, hand = queuing["queueLengthLimit"], queuing["queues"], queuing["handSize"]
    errors = [invalid(f"{path}.queueLengthLimit", length, "must be positive")] if length <= 0 else []
    if queues <= 0:
        errors.append(invalid(f"{path}.queues", queues, "must be positive"))
    elif queues > _MAX_QUEUES:
        errors.append(invalid(f"{path}.queues", queues, f"must not be greater than {_MAX_QUEUES}"))
    place = f"{path}.handSize"
    if hand <= 0:
        errors.append(invalid(place, hand, "must be positive"))
    elif hand > queues:
        errors.append(invalid(place, hand, f"should not be greater than queues ({queues})"))
    elif math.ceil(math.log2(queues) * hand) > _MAX_ENTROPY_BITS:
        detail = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than"
        errors.append(invalid(place, hand, f"{detail} {_MAX_ENTROPY_BITS}"))
    return errors


def conditions_errors(document: Document) -> list[FieldError]:
    """Validates that every condition has a type of its own."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(document["status"].get("conditions", ())):
        kind, path = condition.get("type", ""), f"status.conditions[{index}].type"
        errors += [duplicate(path, kind)] if kind in seen else []
        errors += [] if kind else [required(path)]
        seen.add(kind)
    return errors


def _validate_status(new: Document, _old: Document) -> list[FieldError]:
    return conditions_errors(new)


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, type, nominal concurrency shares, queues, hand size, queue length limit, age."""
    spec = at(document, "spec")
    limited = at(spec, "limited")
    queuing = at(limited, "limitResponse", "queuing")
    return [
        name_of(document),
        spec.get("type", ""),
        limited.get("nominalConcurrencyShares", NONE),
        *(queuing.get(name, NONE) for name in ("queues", "handSize", "queueLengthLimit")),
        created(document, age),
    ]


KIND = Kind(
    resource=Resource(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
        namespaced=False,
    ),
    definition=_DEFINITION,
    subresources=("status",),
    strategy=Strategy(
        default=_default,
        prepare_create=without_status("flowcontrol.v1.PriorityLevelConfigurationStatus"),
        validate_create=_validate,
        prepare_update=keep_status,
        validate_update=_validate,
        prepare_status=keep_spec,
        validate_status=_validate_status,
    ),
    cells=_cells,
)
