"""Fields of a pod as text, for its own variables and files.

Upstream: pkg/fieldpath/fieldpath.go, podFieldSelectorRuntimeValue in pkg/kubelet/kubelet_pods.go,
pkg/apis/core/pods/helpers.go

Requests and limits of a container as text, for variables and files.

A container without a limit may use what the node has to give, and is told so.

Upstream: pkg/api/v1/resource/helpers.go, pkg/kubelet/kubelet_resources.go
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
# What a selector may name; that is more than has a value.
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


class UnknownField(ValueError):
    """A pod has no such field, or not for this use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a pod and its node can be reached, the preferred address first."""

    pod_ips: tuple[str, ...] = ()
    host_ips: tuple[str, ...] = ()


def field_value(selector: ObjectFieldSelector, pod: Pod, addresses: Addresses) -> str:
    """The value of a field for a variable; UnknownField if it has none."""
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
    """The value of a metadata field, all that a file may show; UnknownField for any other."""
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
    """Labels or annotations as a file shows them: `key="value"`, sorted, one a line."""
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
    """The path that a selector means."""
    if selector.api_version != "v1":
        raise UnknownField(f"unsupported pod version: {selector.api_version}")
    path = selector.field_path
    field, key = _split(path)
    if key is not None and field not in _SUBSCRIPTED:
        raise UnknownField(f"field label does not support subscript: {path}")
    # Clients older than v1 call the node so.
    converted = "spec.nodeName" if path == "spec.host" else path
    if key is None and converted not in _LABELS:
        raise UnknownField(f"field label not supported: {path}")
    return converted


def _split(path: str) -> tuple[str, str | None]:
    """`metadata.labels['a']` as field and key; a path without subscript has no key."""
    field, bracket, key = path.removesuffix("']").partition("['")
    return (field, key) if path.endswith("']") and field and bracket else (path, None)


_ONE = parse_quantity("1")
_LIMITED_BY_NODE = ("cpu", "memory", "ephemeral-storage")
# What a whole pod may be limited in, of those.
_LIMITED_BY_POD = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"

Resources = Mapping[str, str]
"""Amounts by resource, as an object has them."""


class UnknownResourceField(ValueError):
    """There is no such container or resource."""


def variable_value(selector: ResourceFieldSelector, pod: Pod, container: AnyContainer, allocatable: Resources) -> str:
    """What a variable of a container shows; UnknownResource if there is no such thing.

    A named container may be any of the pod, but only regular ones get the node's limits; so does upstream.
    """
    allocatable = _within_pod(pod, allocatable)
    if not selector.container_name:
        return _value(selector, container, allocatable)
    found = _find(pod, selector.container_name)
    return _value(selector, found, allocatable if found in pod.spec.containers else {})


def file_value(selector: ResourceFieldSelector, pod: Pod, allocatable: Resources) -> str:
    """What a file of a volume shows; UnknownResource likewise."""
    return _value(selector, _find(pod, selector.container_name), allocatable)


def _within_pod(pod: Pod, allocatable: Resources) -> Resources:
    """What containers without limits may use: what the node has, or the pod as a whole may have of it."""
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
    """The quotient rounded up, of floating point numbers as upstream computes it."""
    if in_thousandths:
        return str(math.ceil(float(amount.milli_value()) / float(divisor.milli_value())))
    return str(math.ceil(float(amount.value()) / float(divisor.value())))


def _amount(amounts: Resources, resource: str) -> Quantity:
    return parse_quantity(amounts.get(resource, "0"))
