"""Requests and limits of a container as text, for variables and files.

A container without a limit may use what the node has to give, and is told so.

Upstream: pkg/api/v1/resource/helpers.go, pkg/kubelet/kubelet_resources.go
"""

import math
from collections.abc import Mapping

from pykubelet.api.generated.core import Container, EphemeralContainer, Pod, ResourceFieldSelector
from pykubelet.api.quantity import Quantity, parse_quantity

_ONE = parse_quantity("1")
_LIMITED_BY_NODE = ("cpu", "memory", "ephemeral-storage")
# What a whole pod may be limited in, of those.
_LIMITED_BY_POD = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"

Resources = Mapping[str, str]
"""Amounts by resource, as an object has them."""


class UnknownResource(ValueError):
    """There is no such container or resource."""


def variable_value(
    selector: ResourceFieldSelector, pod: Pod, container: Container | EphemeralContainer, allocatable: Resources
) -> str:
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
    raise UnknownResource(f"container {name} not found")


def _value(selector: ResourceFieldSelector, container: Container | EphemeralContainer, allocatable: Resources) -> str:
    side, _, resource = selector.resource.partition(".")
    if side not in {"limits", "requests"} or not (resource in _LIMITED_BY_NODE or resource.startswith(_HUGE_PAGES)):
        raise UnknownResource(f"unsupported container resource : {selector.resource}")
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
