"""Sums over a pod's containers: what all of them ask for, or may use, at once.

In: the spec of a pod whose quantities are in canonical form. Sidecars count together with the regular containers; an
init container counts together with the sidecars before it, and the larger of both sums is the answer.

Upstream: staging/src/k8s.io/component-helpers/resource/helpers.go
"""

from collections.abc import Mapping

from pykubelet.api.quantity import Quantity, add, parse_quantity
from pykubelet.api.wire import Document

HUGE_PAGES_PREFIX = "hugepages-"
# Sorted, as messages list them.
POD_LEVEL_RESOURCES = ("cpu", HUGE_PAGES_PREFIX, "memory")


def is_huge_page(resource: str) -> bool:
    """Whether the resource is huge pages of some size."""
    return resource.startswith(HUGE_PAGES_PREFIX)


def is_native(resource: str) -> bool:
    """Whether the resource is one of Kubernetes' own, which have no domain or one of its domains."""
    return "/" not in resource or "kubernetes.io/" in resource


def is_overcommit_allowed(resource: str) -> bool:
    """Whether the limit of the resource may be above its request."""
    return is_native(resource) and not is_huge_page(resource)


def is_pod_level(resource: str) -> bool:
    """Whether the resource may stand in the resources of a whole pod."""
    return resource in {"cpu", "memory"} or is_huge_page(resource)


def container_sums(spec: Document, side: str) -> Mapping[str, Quantity]:
    """The `requests` or `limits` of all containers, by resource."""
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


def _quantities(container: Document, side: str) -> Mapping[str, Quantity]:
    return {name: parse_quantity(text) for name, text in container.get("resources", {}).get(side, {}).items()}


def _add_to(total: dict[str, Quantity], more: Mapping[str, Quantity]) -> None:
    for name, quantity in more.items():
        total[name] = add(total[name], quantity) if name in total else quantity


def _raise_to(total: dict[str, Quantity], other: Mapping[str, Quantity]) -> None:
    for name, quantity in other.items():
        if name not in total or quantity > total[name]:
            total[name] = quantity
