"""What a write cannot change and so never owns: status, or all but that through its subresource.

Upstream: GetResetFields and GetResetFieldsFilter of the strategies in pkg/registry and in apiextensions-apiserver
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pykubelet.apiserver.fields.elements import ANY_STEP
from pykubelet.apiserver.fields.field_sets import LEAF, NOTHING, FieldTree, only, tree_of, without


class Reset(NamedTuple):
    """Fields that are put back; with `others`, all but these are."""

    fields: FieldTree = NOTHING
    others: bool = False

    def left_of(self, tree: FieldTree) -> FieldTree:
        """The fields that stay."""
        return only(tree, self.fields) if self.others else without(tree, self.fields)


NO_RESET: Final = Reset()
NO_RESETS: Final[Mapping[str, Reset]] = {}
_STATUS: Final = Reset(tree_of(("f:status",)))
_SPEC: Final = Reset(tree_of(("f:spec",)))
_SPEC_AND_METADATA: Final = Reset(tree_of(("f:metadata",), ("f:spec",)))
CUSTOM_STATUS: Final[Mapping[str, Reset]] = {"": _STATUS, "status": _SPEC}
"""For a custom resource with a status subresource."""

_RESIZED: Final[FieldTree] = {ANY_STEP: {"f:resizePolicy": LEAF, "f:resources": LEAF}}
_SPECIAL: Final[Mapping[str, Mapping[str, Reset]]] = {
    "core.v1.Namespace": {"": _STATUS, "status": _SPEC, "finalize": _STATUS},
    "core.v1.Pod": {
        "": _STATUS,
        "status": Reset(
            tree_of(("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences"))
        ),
        "ephemeralcontainers": Reset({"f:spec": {"f:ephemeralContainers": LEAF}}, others=True),
        "resize": Reset({"f:spec": {"f:containers": _RESIZED, "f:initContainers": _RESIZED}}, others=True),
    },
    "apps.v1.Deployment": {"": _STATUS, "status": Reset(tree_of(("f:spec",), ("f:metadata", "f:labels")))},
    "certificates.v1.CertificateSigningRequest": {
        "": Reset(tree_of(("f:spec",), ("f:status",))),
        "status": Reset(tree_of(("f:spec",), ("f:status", "f:conditions"))),
        "approval": Reset(tree_of(("f:spec",), ("f:status", "f:certificate"))),
    },
    "apiextensions.v1.CustomResourceDefinition": {"": _STATUS, "status": _SPEC_AND_METADATA},
}
_WITH_STATUS: Final = frozenset(
    [
        "apps.v1.DaemonSet",
        "apps.v1.ReplicaSet",
        "apps.v1.StatefulSet",
        "autoscaling.v2.HorizontalPodAutoscaler",
        "batch.v1.CronJob",
        "batch.v1.Job",
        "core.v1.Node",
        "core.v1.PersistentVolume",
        "core.v1.PersistentVolumeClaim",
        "core.v1.ReplicationController",
        "core.v1.ResourceQuota",
        "core.v1.Service",
        "networking.v1.Ingress",
        "policy.v1.PodDisruptionBudget",
    ]
)


def resets_of(definition: str) -> Mapping[str, Reset]:
    """By subresource, for a built-in kind."""
    return _SPECIAL.get(definition) or (CUSTOM_STATUS if definition in _WITH_STATUS else NO_RESETS)
