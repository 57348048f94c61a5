"""What pods use of a ResourceQuota: their requests and limits until they end, and their number.

Upstream: pkg/quota/v1/evaluator/core/pods.go
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from pykubelet.api.pod_resources import HUGE_PAGES_PREFIX, has_pod_level_resources, is_huge_page, pod_total
from pykubelet.api.quantity import Quantity
from pykubelet.api.serializer import Document
from pykubelet.api.times import parse_time
from pykubelet.kinds.quota.amounts import ONE, Amounts
from pykubelet.kinds.resources import is_extended

_COUNT = "count/pods"
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_RESOURCES = frozenset(
    {_COUNT, "pods", *(f"{side}{name}" for side in ("", "requests.", "limits.") for name in _STANDARD)}
)
# If a quota limits one of these, each container must state it. Upstream regrets the rule and adds none.
_REQUIRED = frozenset(name for name in _RESOURCES if name.endswith(("cpu", "memory")))


def is_pod_resource(name: str) -> bool:
    """Whether a name in a quota is one of Kubernetes' own resources of pods."""
    return name in _RESOURCES or name.startswith((HUGE_PAGES_PREFIX, f"requests.{HUGE_PAGES_PREFIX}"))


def pod_usage(pod: Document, now: datetime) -> Amounts:
    """A pod that has ended uses nothing but its place in storage."""
    if not is_charged(pod, now):
        return {_COUNT: ONE}
    return {_COUNT: ONE, "pods": ONE, **_named(pod_total(pod, "requests"), pod_total(pod, "limits"))}


def is_charged(pod: Document, now: datetime) -> bool:
    """Whether the pod has not ended. One that should be gone, such as on a lost node, counts as ended."""
    metadata = pod["metadata"]
    if (pod.get("status") or {}).get("phase") in {"Failed", "Succeeded"}:
        return False
    deleted, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    return deleted is None or grace is None or now <= parse_time(deleted) + timedelta(seconds=grace)


def _named(requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Requests and limits under the names that quotas have for them."""
    found = {f"limits.{name}": limits[name] for name in _STANDARD if name in limits}
    for name, amount in requests.items():
        if name in _STANDARD or is_huge_page(name):
            found[name] = amount
        if name in _STANDARD or is_huge_page(name) or is_extended(name):
            found[f"requests.{name}"] = amount
    return found


def missing_resources(required: frozenset[str], pod: Document) -> str:
    """The limited CPU and memory amounts that containers do not state, with these containers."""
    if not required & _REQUIRED or has_pod_level_resources(pod["spec"]):
        return ""
    spec = pod["spec"]
    missing: dict[str, set[str]] = {}
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        stated = _named(resources.get("requests") or {}, resources.get("limits") or {})
        for name in (required & _REQUIRED) - stated.keys():
            missing.setdefault(name, set()).add(container["name"])
    lines = "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
    return f"must specify {lines}" if lines else ""
