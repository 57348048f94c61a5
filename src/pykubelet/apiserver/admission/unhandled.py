"""Warns about what `pykubelet up` stores although nothing in it acts on it.

The table is the only place to edit. A server alone may be used with other controllers, so only `up` has this plugin.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes

_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"


class UnhandledFeature(NamedTuple):
    """A kind, or one field of some kinds, that nothing acts on; `subresource` is the one through which it is written."""

    resources: tuple[str, ...]
    subject: str
    """What the warning and the docs name: a kind, or a field with its kind."""
    consequence: str
    is_used: Callable[[Document], bool] = lambda _document: True
    subresource: str = ""

    @property
    def warning(self) -> str:
        return f"{self.subject}: {self.consequence}"


def _pod_spec(document: Document) -> Document:
    """The spec of a pod, or of the pods that a workload creates."""
    spec: Document = document.get("spec") or {}
    spec = (spec.get("jobTemplate") or {}).get("spec") or spec
    found: Document = (spec.get("template") or {}).get("spec") or spec
    return found


def _is_manual(endpoints: Document) -> bool:
    """Whether a user keeps these endpoints, and wants slices of them."""
    labels = endpoints["metadata"].get("labels") or {}
    return labels.get(_MANAGED_BY) != "endpoint-controller" and labels.get(_SKIP_MIRROR) != "true"


_WITH_PODS = (
    "pods",
    "replicasets.apps",
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "cronjobs.batch",
)
UNHANDLED: tuple[UnhandledFeature, ...] = (
    UnhandledFeature(
        ("networkpolicies.networking.k8s.io",), "NetworkPolicy", "nothing here enforces it, so it restricts no traffic"
    ),
    UnhandledFeature(
        ("replicationcontrollers",), "ReplicationController", "no controller creates its pods here; use a Deployment"
    ),
    UnhandledFeature(
        ("services",),
        "Service spec.type LoadBalancer",
        "nothing here assigns it an external address",
        lambda service: service["spec"].get("type") == "LoadBalancer",
    ),
    UnhandledFeature(
        ("endpoints",),
        "Endpoints",
        "nothing here makes an EndpointSlice of them, so no traffic reaches them; create the EndpointSlice",
        _is_manual,
    ),
    UnhandledFeature(
        ("priorityclasses.scheduling.k8s.io",),
        "PriorityClass preemptionPolicy PreemptLowerPriority",
        "the scheduler here preempts no pods; a pod that does not fit waits",
        lambda one: one.get("preemptionPolicy") == "PreemptLowerPriority",
    ),
    UnhandledFeature(
        ("secrets",),
        "Secret type kubernetes.io/service-account-token",
        "no controller writes a token into it here; use kubectl create token",
        lambda secret: (
            secret.get("type") == "kubernetes.io/service-account-token" and not (secret.get("data") or {}).get("token")
        ),
    ),
    UnhandledFeature(
        _WITH_PODS,
        "Pod spec.resourceClaims",
        "nothing here allocates devices, so containers start without them",
        lambda document: bool(_pod_spec(document).get("resourceClaims")),
    ),
    UnhandledFeature(
        ("pods",),
        "Pod resources, through pods/resize",
        "the node does not resize running containers; delete the pod to have its new resources",
        subresource="resize",
    ),
)


def features_by_resource(features: Iterable[UnhandledFeature]) -> Mapping[str, tuple[UnhandledFeature, ...]]:
    """The features of each resource, in the order of the table."""
    found: dict[str, list[UnhandledFeature]] = {}
    for feature in features:
        for resource in feature.resources:
            found.setdefault(resource, []).append(feature)
    return {resource: tuple(each) for resource, each in found.items()}


class UnhandledWarnings:
    """The admission plugin that warns; it changes and rejects nothing."""

    def __init__(self, features: Iterable[UnhandledFeature] = UNHANDLED) -> None:
        self._features = features_by_resource(features)
        self.resources = frozenset(self._features)

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:  # noqa: ARG002  the Protocol's
        if new is not None:
            for feature in self._features[attributes.served.resource.group_resource]:
                if attributes.subresource == feature.subresource and feature.is_used(new):
                    attributes.warn(feature.warning)
        return new
