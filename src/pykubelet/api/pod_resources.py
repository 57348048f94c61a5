"""Resources of a pod document: sums of requests and limits, and the QoS class.

Expects quantities in canonical form. Sidecars add to the regular containers; an init container adds to the sidecars
started before it; the larger of both sums counts. This module works on documents and imports no Struct, so the API
server can use it.

Upstream: staging/src/k8s.io/component-helpers/resource/helpers.go, pkg/apis/core/{helper,v1/helper}/qos/qos.go
"""

from collections.abc import Mapping

from pykubelet.api.quantity import Quantity, add, parse_quantity
from pykubelet.api.serializer import Document

HUGE_PAGES_PREFIX = "hugepages-"
# In the order in which messages list them.
POD_LEVEL_RESOURCES = ("cpu", HUGE_PAGES_PREFIX, "memory")


def is_huge_page(resource: str) -> bool:
    return resource.startswith(HUGE_PAGES_PREFIX)


def is_native(resource: str) -> bool:
    """Whether the resource belongs to Kubernetes: its name has no domain, or one that contains `kubernetes.io/`."""
    return "/" not in resource or "kubernetes.io/" in resource


def is_overcommit_allowed(resource: str) -> bool:
    """Whether the limit of the resource may exceed its request."""
    return is_native(resource) and not is_huge_page(resource)


def is_pod_level(resource: str) -> bool:
    """Whether the resource may be set for the pod as a whole."""
    return resource in {"cpu", "memory"} or is_huge_page(resource)


def container_sums(spec: Document, side: str) -> Mapping[str, Quantity]:
    """Sums the `requests` or `limits` of all containers, by resource."""
    total: dict[str, Quantity] = {}
    for container in spec.get("containers", ()):
        _add_to(total, _quantities(container, side))
    sidecars: dict[str, Quantity] = {}
    largest_init: dict[str, Quantity] = {}
    for container in spec.get("initContainers", ()):
        own = _quantities(container, side)
        if container.get("restartPolicy") == "Always":
            _add_to(total, own)
            _add_to(sidecars, own)
            together = sidecars
        else:
            together = dict(own)
            _add_to(together, sidecars)
        _raise_to(largest_init, together)
    _raise_to(total, largest_init)
    return total


def pod_total(pod: Document, side: str) -> Mapping[str, Quantity]:
    """The `requests` or `limits` of a pod: pod-level ones replace sums of containers, and its overhead is added.

    A container that is being resized counts with the largest of its resources: desired, allocated and actual ones.
    """
    spec, statuses = pod["spec"], _statuses_with_resources(pod.get("status") or {})
    counted = spec if not statuses else _with_actual_resources(spec, statuses, side, is_feasible=_is_feasible(pod))
    total = dict(container_sums(counted, side))
    for name, text in ((spec.get("resources") or {}).get(side) or {}).items():
        if is_pod_level(name):
            total[name] = parse_quantity(text)
    for name, text in (spec.get("overhead") or {}).items():
        # An absent limit means no limit, which the overhead does not change.
        if side == "requests" or (name in total and total[name].sign()):
            _add_to(total, {name: parse_quantity(text)})
    return total


def has_pod_level_resources(spec: Document) -> bool:
    """Whether resources are set for the pod as a whole."""
    resources = spec.get("resources") or {}
    return any(is_pod_level(name) for side in ("requests", "limits") for name in resources.get(side) or ())


def _statuses_with_resources(status: Document) -> Mapping[str, Document]:
    listed = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return {one["name"]: one for one in listed if one.get("resources") is not None}


def _is_feasible(pod: Document) -> bool:
    """Whether the node can resize the pod as desired."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return not any(one["type"] == "PodResizePending" and one.get("reason") == "Infeasible" for one in conditions)


def _with_actual_resources(
    spec: Document, statuses: Mapping[str, Document], side: str, *, is_feasible: bool
) -> Document:
    def actual(container: Document) -> Document:
        status = statuses.get(container["name"])
        if status is None:
            return container
        largest = dict(_quantities(container, side)) if is_feasible else {}
        _raise_to(largest, _quantities(status, side))
        if side == "requests":
            _raise_to(
                largest, {name: parse_quantity(text) for name, text in status.get("allocatedResources", {}).items()}
            )
        return {**container, "resources": {side: {name: str(quantity) for name, quantity in largest.items()}}}

    sidecars = [
        actual(container) if container.get("restartPolicy") == "Always" else container
        for container in spec.get("initContainers") or ()
    ]
    return {"containers": [actual(container) for container in spec["containers"]], "initContainers": sidecars}


def _quantities(container: Document, side: str) -> Mapping[str, Quantity]:
    return {name: parse_quantity(text) for name, text in container.get("resources", {}).get(side, {}).items()}


def _add_to(total: dict[str, Quantity], more: Mapping[str, Quantity]) -> None:
    for name, quantity in more.items():
        total[name] = add(total[name], quantity) if name in total else quantity


def _raise_to(total: dict[str, Quantity], other: Mapping[str, Quantity]) -> None:
    for name, quantity in other.items():
        if name not in total or quantity > total[name]:
            total[name] = quantity


GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
_COUNTED = ("cpu", "memory")


def qos_class(spec: Document) -> str:
    """Returns the QoS class of a pod; pod-level resources, if set, replace those of the containers."""
    if "resources" in spec:
        holders = [spec["resources"]]
        # Without pod-level limits, the comparison of requests and limits below decides.
        is_guaranteed = not spec["resources"].get("limits") or _has_both(spec["resources"]["limits"])
    else:
        containers = (*spec.get("containers", ()), *spec.get("initContainers", ()))
        holders = [container["resources"] for container in containers]
        is_guaranteed = all(_has_both(resources.get("limits", {})) for resources in holders)
    requests, limits = ({}, {}) if not any(holders) else (_sums(holders, "requests"), _sums(holders, "limits"))
    if not requests and not limits:
        return BEST_EFFORT
    is_equal = len(requests) == len(limits) and all(requests[name] == limits.get(name) for name in requests)
    return GUARANTEED if is_guaranteed and is_equal else BURSTABLE


def _has_both(limits: Document) -> bool:
    return all(name in limits and parse_quantity(limits[name]).sign() > 0 for name in _COUNTED)


def _sums(holders: list[Document], side: str) -> Mapping[str, Quantity]:
    total: dict[str, Quantity] = {}
    for holder in holders:
        for name, text in holder.get(side, {}).items():
            if name in _COUNTED and (quantity := parse_quantity(text)).sign() > 0:
                total[name] = add(total[name], quantity) if name in total else quantity
    return total
