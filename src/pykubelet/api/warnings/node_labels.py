"""Warnings about labels of nodes that have a newer name.

Upstream: pkg/api/node/util.go, pkg/api/storage/util.go
"""

from pykubelet.api.names import label_value_errors
from pykubelet.api.wire import Document

DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": ('deprecated since v1.17; use "topology.kubernetes.io/region" instead'),
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def selector_term_warnings(term: Document, path: str, *, checks_values: bool = False) -> list[str]:
    """About a term that selects nodes; values that no label can have are an error elsewhere but where preferred."""
    warnings: list[str] = []
    for index, expression in enumerate(term.get("matchExpressions", ())):
        at, key = f"{path}.matchExpressions[{index}]", expression.get("key", "")
        if said := DEPRECATED_LABELS.get(key):
            warnings.append(f"{at}.key: {key} is {said}")
        if checks_values:
            for place, value in enumerate(expression.get("values", ())):
                warnings += [f"{at}.values[{place}]: {value} is invalid, {why}" for why in label_value_errors(value)]
    return warnings


def runtime_class_warnings(document: Document) -> list[str]:
    """About a RuntimeClass; upstream does not name the label."""
    selector = document.get("scheduling", {}).get("nodeSelector", {})
    return [
        f"scheduling.nodeSelector: {DEPRECATED_LABELS[key]}" for key in sorted(selector) if key in DEPRECATED_LABELS
    ]


def storage_class_warnings(document: Document) -> list[str]:
    """About a StorageClass."""
    return [
        f"allowedTopologies[{index}].matchLabelExpressions[{place}].key: {said}"
        for index, term in enumerate(document.get("allowedTopologies", ()))
        for place, expression in enumerate(term.get("matchLabelExpressions", ()))
        if (said := DEPRECATED_LABELS.get(expression.get("key", "")))
    ]
