"""Which rules each kind declares: one that is left out is silently a rule that does nothing."""

from dataclasses import fields
from typing import Any

import pytest

from pykubelet.kinds.kind import Kind, Strategy, Warnings
from pykubelet.kinds.registry import KINDS

_BASIC = ("default", "validate_create", "validate_update")
_FIRST, _NEXT, _STATUS = ("prepare_create",), ("prepare_update",), ("prepare_status", "validate_status")
_PREPARED = (*_BASIC, *_FIRST, *_NEXT)
_WHOLE = (*_PREPARED, *_STATUS)
_WARNED = ("create warnings", "update warnings")
_ON_UPDATE, _CONDITIONAL = ("allows_create_on_update",), ("allows_unconditional_update",)

# The rules that are not those of a kind without any.
RULES: dict[str, tuple[str, ...]] = {
    "core.v1.Binding": (),
    "core.v1.ComponentStatus": (),
    "core.v1.ConfigMap": _BASIC,
    "core.v1.Endpoints": (*_BASIC, *_WARNED, *_ON_UPDATE),
    "core.v1.Event": (*_BASIC, *_ON_UPDATE, "fields"),
    "core.v1.LimitRange": (*_BASIC, *_ON_UPDATE),
    "core.v1.Namespace": (*_WHOLE, "fields"),
    "core.v1.Node": (*_WHOLE, *_WARNED, "fields"),
    "core.v1.PersistentVolumeClaim": (*_WHOLE, *_WARNED),
    "core.v1.PersistentVolume": (*_WHOLE, *_WARNED),
    "core.v1.Pod": (
        *_WHOLE,
        "default_patched",
        "fields",
        "grace_seconds",
        "received warnings",
        "create warnings",
        "status warnings",
    ),
    "core.v1.PodTemplate": (*_PREPARED, *_WARNED),
    "core.v1.ReplicationController": (*_WHOLE, *_WARNED, "fields"),
    "core.v1.ResourceQuota": _WHOLE,
    "core.v1.Secret": (*_BASIC, *_WARNED, *_NEXT, "fields"),
    "core.v1.ServiceAccount": (*_PREPARED, *_WARNED),
    "core.v1.Service": (*_WHOLE, *_WARNED, *_ON_UPDATE, "fields", "status warnings"),
    "apps.v1.ControllerRevision": _BASIC,
    "apps.v1.DaemonSet": (*_WHOLE, *_WARNED),
    "apps.v1.Deployment": (*_WHOLE, *_WARNED),
    "apps.v1.ReplicaSet": (*_WHOLE, *_WARNED),
    "apps.v1.StatefulSet": (*_WHOLE, *_WARNED),
    "batch.v1.CronJob": (*_PREPARED, *_WARNED, "prepare_status"),
    "batch.v1.Job": (*_WHOLE, *_WARNED, "fields"),
    "autoscaling.v2.HorizontalPodAutoscaler": _WHOLE,
    "autoscaling.v1.HorizontalPodAutoscaler": _WHOLE,
    "policy.v1.PodDisruptionBudget": (*_WHOLE, *_CONDITIONAL),
    "certificates.v1.CertificateSigningRequest": (*_WHOLE, "fields"),
    "coordination.v1.Lease": (*_PREPARED, *_ON_UPDATE, *_CONDITIONAL),
    "discovery.v1.EndpointSlice": (*_PREPARED, *_WARNED),
    "events.v1.Event": (*_BASIC, *_ON_UPDATE, "fields"),
    "networking.v1.Ingress": (*_WHOLE, "create warnings", "status warnings"),
    "networking.v1.IngressClass": _PREPARED,
    "networking.v1.NetworkPolicy": (*_PREPARED, *_WARNED),
    "networking.v1.IPAddress": _BASIC,
    "networking.v1.ServiceCIDR": _WHOLE,
    "flowcontrol.v1.FlowSchema": _WHOLE,
    "flowcontrol.v1.PriorityLevelConfiguration": _WHOLE,
    "node.v1.RuntimeClass": (*_BASIC, *_WARNED, *_ON_UPDATE, *_CONDITIONAL),
    "resource.v1.DeviceClass": _PREPARED,
    "resource.v1.ResourceClaim": (*_BASIC, *_FIRST, *_NEXT, *_STATUS),
    "resource.v1.ResourceClaimTemplate": _BASIC,
    "resource.v1.ResourceSlice": (*_PREPARED, "fields"),
    "scheduling.v1.PriorityClass": _PREPARED,
    "storage.v1.CSIDriver": (*_BASIC, *_NEXT, *_CONDITIONAL),
    "storage.v1.CSINode": (*_BASIC, *_CONDITIONAL),
    "storage.v1.CSIStorageCapacity": (*_BASIC, *_WARNED, *_CONDITIONAL),
    "storage.v1.StorageClass": (*_BASIC, *_WARNED),
    "storage.v1.VolumeAttachment": (*_WHOLE, *_CONDITIONAL),
    "storage.v1.VolumeAttributesClass": _BASIC,
    "admissionregistration.v1.MutatingWebhookConfiguration": (*_PREPARED, *_CONDITIONAL),
    "admissionregistration.v1.ValidatingWebhookConfiguration": (*_PREPARED, *_CONDITIONAL),
    "admissionregistration.v1.ValidatingAdmissionPolicy": (*_WHOLE, *_CONDITIONAL),
    "admissionregistration.v1.ValidatingAdmissionPolicyBinding": (*_PREPARED, *_CONDITIONAL),
    "rbac.v1.ClusterRoleBinding": (*_BASIC, *_ON_UPDATE),
    "rbac.v1.ClusterRole": (*_BASIC, *_ON_UPDATE),
    "rbac.v1.RoleBinding": (*_BASIC, *_ON_UPDATE),
    "rbac.v1.Role": (*_BASIC, *_ON_UPDATE),
    "authentication.v1.SelfSubjectReview": (),
    "authentication.v1.TokenReview": (),
    "authorization.v1.LocalSubjectAccessReview": (),
    "authorization.v1.SelfSubjectAccessReview": (),
    "authorization.v1.SelfSubjectRulesReview": (),
    "authorization.v1.SubjectAccessReview": (),
}
# The rules of subresources that change the object itself.
SUBRESOURCES = {
    ("core.v1.Namespace", "finalize"),
    ("core.v1.Pod", "ephemeralcontainers"),
    ("core.v1.Pod", "resize"),
    ("certificates.v1.CertificateSigningRequest", "approval"),
}


def declared(rules: Any, plain: Any) -> set[str]:
    """The fields that differ from those of plain rules."""
    names = (one.name for one in fields(plain))
    return {name for name in names if getattr(rules, name) != getattr(plain, name)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.definition))
def test_kind_declares_its_rules(kind: Kind) -> None:
    warnings = {f"{name} warnings" for name in declared(kind.strategy.warnings, Warnings())}
    assert declared(kind.strategy, Strategy()) - {"warnings"} | warnings == {*RULES[kind.definition]}


def test_subresources_declare_their_rules() -> None:
    found = {(kind.definition, name): rules for kind in KINDS for name, rules in kind.subresource_strategies.items()}
    assert found.keys() == SUBRESOURCES
    expected = {"default", "prepare_update", "validate_update"}
    assert all(declared(rules, Strategy()) - {"warnings"} == expected for rules in found.values())
