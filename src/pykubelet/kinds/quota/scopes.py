"""The scopes of a ResourceQuota, and whether a pod or a claim is in them.

Upstream: pkg/quota/v1/evaluator/core/pods.go, pkg/quota/v1/evaluator/core/persistent_volume_claims.go,
staging/src/k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go
"""

from collections.abc import Callable, Iterator, Sequence

from pykubelet.api.labels import OBJECT_OPERATORS, Requirement
from pykubelet.api.pod_resources import BEST_EFFORT, qos_class
from pykubelet.api.serializer import Document

ScopeRule = Callable[[Document, Document], bool]
"""Whether an object, the second argument, is in the scope that a requirement names."""


def requirements_of(quota: Document) -> list[Document]:
    """The scopes of a quota, those of the plain list as requirements too."""
    spec = quota["spec"]
    plain = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    return [*plain, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def in_no_scope(_requirement: Document, _document: Document) -> bool:
    """The rule of kinds that no scope covers: a quota with scopes does not count their objects."""
    return False


def pod_in_scope(wanted: Document, pod: Document) -> bool:
    name, spec = str(wanted["scopeName"]), pod["spec"]
    if name in {"Terminating", "NotTerminating"}:
        return is_terminating(pod) is (name == "Terminating")
    if name in {"BestEffort", "NotBestEffort"}:
        quality: str = (pod.get("status") or {}).get("qosClass") or qos_class(spec)
        return (quality == BEST_EFFORT) is (name == "BestEffort")
    if name == "PriorityClass":
        return _is_selected(wanted, (spec.get("priorityClassName") or "",))
    return name == "CrossNamespacePodAffinity" and any(
        term.get("namespaces") or term.get("namespaceSelector") is not None for term in _affinity_terms(spec)
    )


def is_terminating(pod: Document) -> bool:
    """Whether the pod ends by itself, after its active deadline."""
    seconds: int | None = pod["spec"].get("activeDeadlineSeconds")
    return seconds is not None and seconds >= 0


def claim_in_scope(wanted: Document, claim: Document) -> bool:
    return wanted["scopeName"] == "VolumeAttributesClass" and _is_selected(wanted, attributes_classes(claim))


def attributes_classes(claim: Document) -> Sequence[str]:
    """The volume attributes classes of a claim: desired, current and target one."""
    status = claim.get("status") or {}
    names = (
        claim["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return sorted({name for name in names if name})


def _is_selected(wanted: Document, names: Sequence[str]) -> bool:
    """Whether the requirement selects one of these class names; without a name it may select their absence."""
    scope, values = wanted["scopeName"], tuple(wanted.get("values") or ())
    selects = Requirement(scope, OBJECT_OPERATORS[wanted["operator"]], values).matches
    return any(selects({scope: name}) for name in names if name) if any(names) else selects({})


def _affinity_terms(spec: Document) -> Iterator[Document]:
    """All pod affinity and anti-affinity terms of a pod."""
    affinity = spec.get("affinity") or {}
    for name in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(name) or {}
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted["podAffinityTerm"]
