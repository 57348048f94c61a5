"""Node, and the deprecated labels that selectors of nodes should not use.

Upstream: pkg/registry/core/node/strategy.go, pkg/apis/core/validation/validation.go,
plugin/pkg/admission/nodetaint/admission.go, pkg/api/node/util.go, pkg/api/storage/util.go
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pykubelet.api.field_errors import ErrorType, FieldError, duplicate, each_invalid, forbidden, invalid
from pykubelet.api.names import cidr_errors, label_value_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import UNKNOWN, Age
from pykubelet.kinds.addresses import cidr_warnings
from pykubelet.kinds.columns import NONE, at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, Warnings, without_fields
from pykubelet.kinds.metadata import label_name_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.resources import amount_errors
from pykubelet.kinds.rules import POSITIVE, OneOf, repeated_indexes

DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_EFFECTS = OneOf(("NoSchedule", "PreferNoSchedule", "NoExecute"), required=True)
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_ROLE_PREFIX = "node-role.kubernetes.io/"


def selector_term_warnings(term: Document, path: str, *, checks_values: bool = False) -> list[str]:
    """Warns about a node selector term; values are checked for preferred terms, elsewhere they are errors."""
    warnings: list[str] = []
    for index, expression in enumerate(term.get("matchExpressions", ())):
        at, key = f"{path}.matchExpressions[{index}]", expression.get("key", "")
        if text := DEPRECATED_LABELS.get(key):
            warnings.append(f"{at}.key: {key} is {text}")
        if checks_values:
            for place, value in enumerate(expression.get("values", ())):
                warnings += [f"{at}.values[{place}]: {value} is invalid, {why}" for why in label_value_errors(value)]
    return warnings


def with_not_ready_taint(node: Document) -> Document:
    """The new node with the taint that keeps pods away until it is ready."""
    taints = node["spec"].get("taints", [])
    if any((each.get("key"), each.get("effect")) == tuple(_NOT_READY.values()) for each in taints):
        return node
    return {**node, "spec": {**node["spec"], "taints": [*taints, _NOT_READY]}}


def _default(document: Document) -> Document:
    node = normal_form(document, "core.v1.Node")
    spec, status = node["spec"], node["status"]
    block, blocks = spec.get("podCIDR", ""), spec.get("podCIDRs", [])
    if block and (not blocks or blocks[0] != block):
        spec = {**spec, "podCIDRs": [block]}
    elif blocks and blocks[0]:
        spec = {**spec, "podCIDR": blocks[0]}
    if "capacity" in status and "allocatable" not in status:
        status = {**status, "allocatable": status["capacity"]}
    return {**node, "spec": spec, "status": status}


def _prepare_create(node: Document) -> Document:
    # A node may be created with its status, but without the fields of the removed dynamic configuration.
    return {
        **node,
        "spec": without_fields(node["spec"], "configSource"),
        "status": without_fields(node["status"], "config"),
    }


def _validate(node: Document) -> list[FieldError]:
    errors = metadata_errors(node["metadata"], namespaced=False) + _taints_errors(node["spec"].get("taints", ()))
    errors += _resources_errors(node["status"])
    capacity = node["status"]["nodeInfo"].get("swap", {}).get("capacity")
    errors += POSITIVE.errors(capacity, "metadata.nodeSwapStatus.capacity")
    return errors + _blocks_errors(node["spec"].get("podCIDRs", []))


def _taints_errors(taints: Sequence[Document]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        # The path is upstream's, though taints are in the spec.
        at = f"metadata.taints[{index}]"
        key, value, effect = taint["key"], taint.get("value", ""), taint["effect"]
        errors += label_name_errors(key, f"{at}.key")
        if details := label_value_errors(value):
            errors.append(invalid(f"{at}.value", value, ";".join(details)))
        errors += _EFFECTS.errors(effect, f"{at}.effect")
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            errors.append(FieldError(ErrorType.DUPLICATE, at, shown, "taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return errors


def _resources_errors(status: Document) -> list[FieldError]:
    return [
        error
        for side in ("capacity", "allocatable")
        for name, amount in status.get(side, {}).items()
        for error in amount_errors(name, parse_quantity(amount), f"status.{side}.{name}")
    ]


def _blocks_errors(blocks: Sequence[str]) -> list[FieldError]:
    at = "spec.podCIDRs"
    errors = [
        error for index, each in enumerate(blocks) for error in each_invalid(f"{at}[{index}]", each, cidr_errors(each))
    ]
    is_pair = len(blocks) == 2 and (":" in blocks[0]) != (":" in blocks[1])
    if len(blocks) > 1 and not is_pair:
        errors.append(invalid(at, list(blocks), "may specify no more than one CIDR for each IP family"))
    return errors


def _prepare_update(new: Document, old: Document) -> Document:
    spec = new["spec"] if "configSource" in old["spec"] else without_fields(new["spec"], "configSource")
    return {**new, "spec": spec, "status": old["status"]}


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return _validate(new) + _validate_status(new, old)


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    """Validates spec and status, since upstream checks both on every update."""
    errors = metadata_update_errors(new["metadata"], old["metadata"]) + _resources_errors(new["status"])
    addresses = new["status"].get("addresses", ())
    repeated = repeated_indexes((address["type"], address["address"]) for address in addresses)
    for index, address in enumerate(addresses):
        if index in repeated:
            shown = {"Type": address["type"], "Address": address["address"]}
            errors.append(duplicate(f"status.addresses[{index}]", shown))
    spec, before = new["spec"], old["spec"]
    errors += _block_change_errors(spec.get("podCIDRs", []), before.get("podCIDRs", []))
    if before.get("providerID", spec.get("providerID")) != spec.get("providerID"):
        errors.append(forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid'))
    errors += _taints_errors(spec.get("taints", ()))
    if spec.get("externalID", "") != before.get("externalID", ""):
        errors.append(forbidden("spec.externalID", "may not be updated"))
    return errors


def _block_change_errors(new: Sequence[str], old: Sequence[str]) -> list[FieldError]:
    changes = 1 if len(new) != len(old) else sum(after != before for after, before in zip(new, old, strict=True))
    error = forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
    return [error] * changes if old else []


def _prepare_status(new: Document, old: Document) -> Document:
    return {**new, "spec": old["spec"], "status": without_fields(new["status"], "config")}


def node_warnings(document: Document) -> list[str]:
    """Warns about removed fields and CIDR blocks of a Node."""
    spec = document["spec"]
    warnings: list[str] = []
    if "configSource" in spec:
        warnings.append("spec.configSource: the feature is removed")
    if spec.get("externalID"):
        warnings.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    for index, cidr in enumerate(spec.get("podCIDRs", ())):
        warnings += cidr_warnings(cidr, f"spec.podCIDRs[{index}]")
    return warnings


def _fields(node: Document) -> Mapping[str, str]:
    return {
        "metadata.name": node["metadata"].get("name", ""),
        "spec.unschedulable": "true" if node["spec"].get("unschedulable") else "false",
    }


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, status, roles, age, version, internal IP, external IP, OS image, kernel version, container runtime."""
    info = at(document, "status", "nodeInfo")
    addresses = at(document, "status").get("addresses") or ()
    return [
        name_of(document),
        _node_status(document),
        _roles(at(document, "metadata", "labels")) or NONE,
        created(document, age),
        info.get("kubeletVersion", ""),
        *(
            next((each.get("address", "") for each in addresses if each.get("type") == type), NONE)
            for type in ("InternalIP", "ExternalIP")
        ),
        *(info.get(key) or UNKNOWN for key in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]


def _node_status(document: Document) -> str:
    conditions = at(document, "status").get("conditions") or ()
    ready = {each.get("type"): each.get("status") for each in conditions}.get("Ready")
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if at(document, "spec").get("unschedulable") else status


def _roles(labels: dict[str, str]) -> str:
    named = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return ",".join(sorted((named | {labels.get("kubernetes.io/role", "")}) - {""}))


KIND = Kind(
    resource=Resource("", "v1", "nodes", "Node", namespaced=False),
    definition="core.v1.Node",
    short_names=("no",),
    subresources=("proxy", "status"),
    strategy=Strategy(
        default=_default,
        prepare_create=_prepare_create,
        validate_create=_validate,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
        prepare_status=_prepare_status,
        validate_status=_validate_status,
        warnings=Warnings.always(node_warnings),
        fields=_fields,
    ),
    cells=_cells,
)
