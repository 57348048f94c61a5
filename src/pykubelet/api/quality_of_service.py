"""The quality of service class of a pod: what it asks for decides who is evicted first.

In: the spec of a pod after `default_pod`. Out: `Guaranteed`, `Burstable` or `BestEffort`.

Upstream: ComputePodQOS in pkg/apis/core/helper/qos/qos.go
"""

from collections.abc import Mapping

from pykubelet.api.quantity import Quantity, add, parse_quantity
from pykubelet.api.wire import Document

GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
_COUNTED = ("cpu", "memory")


def qos_class(spec: Document) -> str:
    """The class of a pod; resources of the whole pod count, where they are set, instead of the containers'."""
    if "resources" in spec:
        holders = [spec["resources"]]
        # Without limits for the whole pod nothing says that it is not guaranteed; the comparison below does.
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
