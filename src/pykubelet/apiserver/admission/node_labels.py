"""Which labels a node may give itself (pure).

Others decide by labels where pods may run; a node that could set any would draw the pods it likes.

Upstream: plugin/pkg/admission/noderestriction/admission.go (getForbiddenLabels), k8s.io/kubelet/pkg/apis/well_known_labels.go
"""

from collections.abc import Mapping

_RESTRICTED = "node-restriction.kubernetes.io"
_KUBERNETES = ("kubernetes.io", "k8s.io")
_OF_NODES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_ALLOWED = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)


def forbidden_labels(new: Mapping[str, str], old: Mapping[str, str]) -> list[str]:
    """The labels that differ and that a node may not set, change or remove, in order."""
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    return sorted(filter(_is_forbidden, changed))


def _is_forbidden(label: str) -> bool:
    prefix, slash, _ = label.partition("/")
    domain = prefix if slash else ""
    if _is_within(domain, _RESTRICTED):
        return True
    if not any(_is_within(domain, parent) for parent in _KUBERNETES):
        return False
    return label not in _ALLOWED and not any(_is_within(domain, parent) for parent in _OF_NODES)


def _is_within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")
