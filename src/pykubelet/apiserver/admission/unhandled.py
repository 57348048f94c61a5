"""Warns about what `pykubelet up` stores although nothing in it acts on it.

The table is the only place to edit. A server alone may be used with other controllers, so only `up` has this plugin.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes


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


_WITH_PODS = (
    "pods",
    "replicationcontrollers",
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
        ("services",),
        "Service spec.type LoadBalancer",
        "nothing here assigns it an external address",
        lambda service: service["spec"].get("type") == "LoadBalancer",
    ),
    UnhandledFeature(
        ("csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "csistoragecapacities.storage.k8s.io"),
        "CSIDriver, CSINode and CSIStorageCapacity",
        "neither the scheduler nor the node here reads them",
    ),
    UnhandledFeature(
        ("volumeattachments.storage.k8s.io",), "VolumeAttachment", "nothing here attaches volumes of CSI drivers"
    ),
    UnhandledFeature(
        ("volumeattributesclasses.storage.k8s.io",), "VolumeAttributesClass", "nothing here changes volumes by it"
    ),
    UnhandledFeature(
        ("servicecidrs.networking.k8s.io",),
        "ServiceCIDR spec.cidrs of IPv6",
        "Services here have IPv4 addresses only",
        lambda one: any(":" in text for text in one["spec"].get("cidrs") or ()),
    ),
    UnhandledFeature(
        ("resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"),
        "ResourceClaim and ResourceClaimTemplate",
        "nothing here allocates devices, so claims stay pending",
    ),
    UnhandledFeature(
        ("deviceclasses.resource.k8s.io", "resourceslices.resource.k8s.io"),
        "DeviceClass and ResourceSlice",
        "nothing here allocates devices",
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
