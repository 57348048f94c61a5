"""Selectors of a new pod that depend on its own labels, looked up once, when it is made.

In: a pod after its defaults. Out: the same, or a new one whose affinities and spread constraints name these values.

Upstream: mutatePodAffinity and mutateTopologySpreadConstraints in pkg/registry/core/pod/strategy.go
"""

from collections.abc import Mapping
from typing import Any

from pykubelet.api.wire import Document

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_KEYS = (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))


def with_label_keys(spec: Document, labels: Mapping[str, str]) -> Document:
    """The spec with the values of the pod's labels in its selectors."""
    result = spec
    if "topologySpreadConstraints" in spec:
        constraints = [_merged(constraint, labels) for constraint in spec["topologySpreadConstraints"]]
        result = {**result, "topologySpreadConstraints": constraints}
    affinity = spec.get("affinity", {})
    sides = {kind: _affinity(affinity[kind], labels) for kind in ("podAffinity", "podAntiAffinity") if kind in affinity}
    return {**result, "affinity": {**affinity, **sides}} if sides else result


def _affinity(affinity: Document, labels: Mapping[str, str]) -> Document:
    changed: dict[str, Any] = {}
    if _REQUIRED in affinity:
        changed[_REQUIRED] = [_merged(term, labels) for term in affinity[_REQUIRED]]
    if _PREFERRED in affinity:
        changed[_PREFERRED] = [
            {**weighted, "podAffinityTerm": _merged(weighted["podAffinityTerm"], labels)}
            for weighted in affinity[_PREFERRED]
        ]
    return {**affinity, **changed}


def _merged(term: Document, labels: Mapping[str, str]) -> Document:
    selector = term.get("labelSelector")
    if selector is None:
        return term
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in _KEYS
        for key in term.get(field, ())
        if key in labels
    ]
    if not added:
        return term
    return {
        **term,
        "labelSelector": {**selector, "matchExpressions": [*selector.get("matchExpressions", ()), *added]},
    }
