"""Resolves fieldRef and resourceFieldRef of a pod for its environment and its downward API volumes.

A container without a limit gets the node's allocatable amount.

Upstream: pkg/fieldpath/fieldpath.go, pkg/kubelet/kubelet_pods.go, pkg/apis/core/pods/helpers.go,
pkg/api/v1/resource/helpers.go, pkg/kubelet/kubelet_resources.go
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pykubelet.api.field_errors import go_quote
from pykubelet.api.generated.core import Container, ObjectFieldSelector, Pod, ResourceFieldSelector
from pykubelet.api.names import qualified_name_errors
from pykubelet.api.pods import AnyContainer
from pykubelet.api.quantity import Quantity, parse_quantity

_SUBSCRIPTED = frozenset({"metadata.annotations", "metadata.labels"})
# The paths a selector may use; some of them have no value.
_LABELS = _SUBSCRIPTED | {
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
}

_ONE = parse_quantity("1")
_LIMITED_BY_NODE = ("cpu", "memory", "ephemeral-storage")
# Those of them that also have a limit on pod level.
_LIMITED_BY_POD = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"
Resources = Mapping[str, str]
"""Quantities by resource name, as strings."""


class UnknownField(ValueError):
    """The field does not exist, or is not supported for this use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The IP addresses of a pod and its node, the preferred one first."""

    pod_ips: tuple[str, ...] = ()
    host_ips: tuple[str, ...] = ()


def field_value(selector: ObjectFieldSelector, pod: Pod, addresses: Addresses) -> str:
    """The value of a field for an environment variable; raises UnknownField if it has none."""
    match _converted(selector):
        case "spec.nodeName":
            return pod.spec.node_name
        case "spec.serviceAccountName":
            return pod.spec.service_account_name
        case "status.hostIP":
            return next(iter(addresses.host_ips), "")
        case "status.hostIPs":
            return ",".join(addresses.host_ips)
        case "status.podIP":
            return next(iter(addresses.pod_ips), "")
        case "status.podIPs":
            return ",".join(addresses.pod_ips)
        case path:
            return metadata_value(path, pod)


def metadata_value(path: str, pod: Pod) -> str:
    """The value of a metadata field, the only fields a volume supports; raises UnknownField for others."""
    metadata = pod.metadata
    field, key = _split(path)
    if key is not None:
        return _entry(path, field, key, pod)
    match path:
        case "metadata.annotations":
            return format_map(metadata.annotations)
        case "metadata.labels":
            return format_map(metadata.labels)
        case "metadata.name":
            return metadata.name
        case "metadata.namespace":
            return metadata.namespace
        case "metadata.uid":
            return metadata.uid
    raise UnknownField(f"unsupported fieldPath: {path}")


def format_map(entries: Mapping[str, str]) -> str:
    """Labels or annotations in the format of a file: `key="value"`, sorted, one per line."""
    return "\n".join(f"{key}={go_quote(entries[key])}" for key in sorted(entries))


def _entry(path: str, field: str, key: str, pod: Pod) -> str:
    match field:
        case "metadata.annotations":
            errors, entries = qualified_name_errors(key.lower()), pod.metadata.annotations
        case "metadata.labels":
            errors, entries = qualified_name_errors(key), pod.metadata.labels
        case _:
            raise UnknownField(f'fieldPath "{path}" does not support subscript')
    if errors:
        raise UnknownField(f"invalid key subscript in {path}: {';'.join(errors)}")
    return entries.get(key, "")


def _converted(selector: ObjectFieldSelector) -> str:
    """The canonical path of a selector."""
    if selector.api_version != "v1":
        raise UnknownField(f"unsupported pod version: {selector.api_version}")
    path = selector.field_path
    field, key = _split(path)
    if key is not None and field not in _SUBSCRIPTED:
        raise UnknownField(f"field label does not support subscript: {path}")
    # The name of this field before v1.
    converted = "spec.nodeName" if path == "spec.host" else path
    if key is None and converted not in _LABELS:
        raise UnknownField(f"field label not supported: {path}")
    return converted


def _split(path: str) -> tuple[str, str | None]:
    """`metadata.labels['a']` as field and key; the key is None without a subscript."""
    field, bracket, key = path.removesuffix("']").partition("['")
    return (field, key) if path.endswith("']") and field and bracket else (path, None)


class UnknownResourceField(ValueError):
    """The container or the resource does not exist."""


def variable_value(selector: ResourceFieldSelector, pod: Pod, container: AnyContainer, allocatable: Resources) -> str:
    """The value of a resource for an environment variable; raises UnknownResourceField if it does not exist.

    The selector may name any container of the pod, but only regular ones default to the node's limits, as upstream does.
    """
    allocatable = _within_pod(pod, allocatable)
    if not selector.container_name:
        return _value(selector, container, allocatable)
    found = _find(pod, selector.container_name)
    return _value(selector, found, allocatable if found in pod.spec.containers else {})


def file_value(selector: ResourceFieldSelector, pod: Pod, allocatable: Resources) -> str:
    """The value of a resource for a volume; raises UnknownResourceField if it does not exist."""
    return _value(selector, _find(pod, selector.container_name), allocatable)


def _within_pod(pod: Pod, allocatable: Resources) -> Resources:
    """The limits for containers without their own: the pod's, or else the node's allocatable amounts."""
    limits = pod.spec.resources.limits if pod.spec.resources else {}
    bounds = {name: limits[name] for name in _LIMITED_BY_POD if name in allocatable and _amount(limits, name).sign()}
    return {**allocatable, **bounds}


def _find(pod: Pod, name: str) -> Container:
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        if container.name == name:
            return container
    raise UnknownResourceField(f"container {name} not found")


def _value(selector: ResourceFieldSelector, container: AnyContainer, allocatable: Resources) -> str:
    side, _, resource = selector.resource.partition(".")
    if side not in {"limits", "requests"} or not (resource in _LIMITED_BY_NODE or resource.startswith(_HUGE_PAGES)):
        raise UnknownResourceField(f"unsupported container resource : {selector.resource}")
    resources = container.resources
    amount = _amount(resources.limits if side == "limits" else resources.requests, resource)
    if side == "limits" and resource in _LIMITED_BY_NODE and not amount.sign():
        amount = _amount(allocatable, resource)
    divisor = parse_quantity(selector.divisor or "0")
    return _divided(amount, divisor if divisor.sign() else _ONE, in_thousandths=resource == "cpu")


def _divided(amount: Quantity, divisor: Quantity, *, in_thousandths: bool) -> str:
    """The quotient, rounded up; computed with floating point numbers as upstream does."""
    if in_thousandths:
        return str(math.ceil(float(amount.milli_value()) / float(divisor.milli_value())))
    return str(math.ceil(float(amount.value()) / float(divisor.value())))


def _amount(amounts: Resources, resource: str) -> Quantity:
    return parse_quantity(amounts.get(resource, "0"))
