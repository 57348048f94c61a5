"""How much of a ResourceQuota an object of each kind uses, and which names of resources count it.

An evaluator covers some resource names of a quota. A kind without an evaluator of its own is counted under
`count/<resource>.<group>`.

Upstream: pkg/quota/v1/evaluator/core/registry.go, pkg/quota/v1/evaluator/core/persistent_volume_claims.go,
pkg/quota/v1/evaluator/core/services.go, pkg/quota/v1/evaluator/core/resource_claims.go,
pkg/quota/v1/install/registry.go, staging/src/k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from pykubelet.api.pod_resources import is_native
from pykubelet.api.quantity import Quantity, parse_quantity
from pykubelet.api.serializer import Document
from pykubelet.kinds.persistent_volume_claim import STORAGE_CLASS_ANNOTATION
from pykubelet.kinds.quota import pods
from pykubelet.kinds.quota.amounts import ONE, Amounts, added, count_of
from pykubelet.kinds.quota.scopes import (
    ScopeRule,
    attributes_classes,
    claim_in_scope,
    in_no_scope,
    is_terminating,
    pod_in_scope,
    requirements_of,
)

_COUNT = "count/"
_CLAIMS = "resourceclaims.resource.k8s.io"
_BY_DEVICE_CLASS = ".deviceclass.resource.k8s.io/devices"
_BY_STORAGE_CLASS = ".storageclass.storage.k8s.io/"
_CLAIM_RESOURCES = ("persistentvolumeclaims", "requests.storage")
_SERVICE_RESOURCES = frozenset({"count/services", "services", "services.nodeports", "services.loadbalancers"})
# Names of counts from before `count/` existed; those of other kinds have evaluators.
_OLD_NAMES = frozenset({"configmaps", "resourcequotas", "replicationcontrollers", "secrets"})
_MOST_DEVICES = 32
"""How many devices one claim can get."""
IGNORED = frozenset(
    {
        "bindings",
        "componentstatuses",
        "events",
        "events.events.k8s.io",
        "tokenreviews.authentication.k8s.io",
        "selfsubjectreviews.authentication.k8s.io",
        "subjectaccessreviews.authorization.k8s.io",
        "selfsubjectaccessreviews.authorization.k8s.io",
        "localsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectrulesreviews.authorization.k8s.io",
    }
)
"""Kinds that no quota counts: they are not stored, or are events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEvaluator:
    """Measures the objects of one group resource."""

    resource: str
    covers: Callable[[str], bool]
    """Whether the amount of this name, in a quota, depends on these objects."""
    usage: Callable[[Document, datetime], Amounts]
    is_counter: bool = False
    """Whether all objects count alike, whatever they are."""
    in_scope: ScopeRule = in_no_scope
    missing: Callable[[frozenset[str], Document], str] = lambda _required, _document: ""
    """What the object must state because a quota limits these resources; empty if nothing is missing."""
    counts_update: Callable[[str, Document, Document], bool] = lambda _subresource, _new, _old: False
    """Whether an update through a subresource (empty: of the object itself) may change the usage: (subresource, new, old)."""

    def handles(self, subresource: str, new: Document, old: Document | None) -> bool:
        """Whether a creation (`old` is None) or an update may change the usage."""
        return not subresource if old is None else self.counts_update(subresource, new, old)

    def covered(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(filter(self.covers, names))

    def is_in_scopes(self, quota: Document, document: Document) -> bool:
        """Whether an object is in all scopes of a quota."""
        return all(self.in_scope(each, document) for each in requirements_of(quota))


def resource_of(name: str) -> str:
    """The group resource whose objects a resource name of a quota counts; empty if the name counts nothing."""
    own = next((resource for resource, evaluator in _OWN.items() if evaluator.covers(name)), "")
    if own or name in _OLD_NAMES:
        return own or name
    counted = name.removeprefix(_COUNT)
    return counted if counted != name and counted not in IGNORED else ""


@lru_cache(maxsize=1024)
def evaluator_of(resource: str) -> QuotaEvaluator | None:
    """The evaluator of a group resource; None if no quota counts its objects."""
    if resource in IGNORED:
        return None
    if resource in _OWN:
        return _OWN[resource]
    names = {f"{_COUNT}{resource}"} | ({resource} & _OLD_NAMES)
    usage = dict.fromkeys(names, ONE)
    return QuotaEvaluator(
        resource=resource, covers=names.__contains__, usage=lambda _document, _now: usage, is_counter=True
    )


def _pod_changes(subresource: str, new: Document, old: Document) -> bool:
    return subresource == "resize" or (not subresource and is_terminating(new) != is_terminating(old))


def _covered_by_claims(name: str) -> bool:
    by_class = name.endswith(tuple(f"{_BY_STORAGE_CLASS}{each}" for each in _CLAIM_RESOURCES))
    return by_class or name in _CLAIM_RESOURCES or name == "count/persistentvolumeclaims"


def _claim_usage(claim: Document, _now: datetime) -> Amounts:
    spec, annotations = claim["spec"], claim["metadata"].get("annotations") or {}
    usage = {"persistentvolumeclaims": ONE}
    requested = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if requested is not None:
        allocated = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage", requested)
        usage["requests.storage"] = _whole(max(parse_quantity(requested), parse_quantity(allocated)))
    storage_class = annotations.get(STORAGE_CLASS_ANNOTATION, spec.get("storageClassName"))
    by_class = {f"{storage_class}{_BY_STORAGE_CLASS}{name}": amount for name, amount in usage.items()}
    return {"count/persistentvolumeclaims": ONE, **usage, **(by_class if storage_class else {})}


def _whole(amount: Quantity) -> Quantity:
    """The amount rounded up to whole bytes, which quotas require."""
    return amount if amount.milli_value() % 1000 == 0 else Quantity(amount.value(), format=amount.format)


def _claim_changes(subresource: str, new: Document, old: Document) -> bool:
    return not subresource or (subresource == "status" and claim_usage_changed(new, old))


def claim_usage_changed(new: Document, old: Document) -> bool:
    """Whether the status of a claim changed in a way that quotas count: its allocated storage or its classes."""
    after, before = (((one.get("status") or {}).get("allocatedResources") or {}).get("storage") for one in (new, old))
    return after != before or attributes_classes(new) != attributes_classes(old)


def _service_usage(service: Document, _now: datetime) -> Amounts:
    spec = service["spec"]
    ports, balances = spec.get("ports") or (), spec.get("type") == "LoadBalancer"
    if balances and spec.get("allocateLoadBalancerNodePorts") is False:
        # The others get no node port.
        ports = [port for port in ports if port.get("nodePort")]
    node_ports = len(ports) if balances or spec.get("type") == "NodePort" else 0
    balancers = count_of(int(balances))
    return {
        "count/services": ONE,
        "services": ONE,
        "services.nodeports": count_of(node_ports),
        "services.loadbalancers": balancers,
    }


def _device_usage(claim: Document, _now: datetime) -> Amounts:
    usage: dict[str, Quantity] = {f"{_COUNT}{_CLAIMS}": ONE}
    for request in (claim["spec"].get("devices") or {}).get("requests") or ():
        # Of alternatives, the most that may be allocated of each class counts.
        most: dict[str, int] = {}
        for one in request.get("firstAvailable") or filter(None, (request.get("exactly"),)):
            name = f"{one['deviceClassName']}{_BY_DEVICE_CLASS}"
            most[name] = max(most.get(name, 0), _devices(one))
        usage = added(usage, {name: count_of(number) for name, number in most.items()})
    return usage


def _devices(request: Document) -> int:
    mode = request.get("allocationMode")
    return int(request.get("count", 0)) if mode == "ExactCount" else _MOST_DEVICES if mode == "All" else 0


_OWN = {
    one.resource: one
    for one in (
        QuotaEvaluator(
            resource="pods",
            covers=lambda name: pods.is_pod_resource(name) or (name.startswith("requests.") and not is_native(name)),
            usage=pods.pod_usage,
            in_scope=pod_in_scope,
            missing=pods.missing_resources,
            counts_update=_pod_changes,
        ),
        QuotaEvaluator(
            resource="services",
            covers=_SERVICE_RESOURCES.__contains__,
            usage=_service_usage,
            counts_update=lambda subresource, _new, _old: not subresource,
        ),
        QuotaEvaluator(
            resource="persistentvolumeclaims",
            covers=_covered_by_claims,
            usage=_claim_usage,
            in_scope=claim_in_scope,
            counts_update=_claim_changes,
        ),
        QuotaEvaluator(
            resource=_CLAIMS,
            covers=lambda name: name == f"{_COUNT}{_CLAIMS}" or name.endswith(_BY_DEVICE_CLASS),
            usage=_device_usage,
            counts_update=lambda subresource, _new, _old: not subresource,
        ),
    )
}
