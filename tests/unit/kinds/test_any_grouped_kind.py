"""Properties of the strategies of every kind outside the core group, over documents of every shape."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import BadRequest
from pykubelet.api.field_errors import aggregate_text
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Field, definitions
from pykubelet.api.serializer import without_nulls
from pykubelet.kinds.kind import Strategy
from pykubelet.kinds.registry import KINDS

_STRATEGIES = {kind.definition: kind.strategy for kind in KINDS}
_DEFINITIONS = {
    "clusterrolebindings.rbac.authorization.k8s.io": "rbac.v1.ClusterRoleBinding",
    "clusterroles.rbac.authorization.k8s.io": "rbac.v1.ClusterRole",
    "controllerrevisions.apps": "apps.v1.ControllerRevision",
    "cronjobs.batch": "batch.v1.CronJob",
    "daemonsets.apps": "apps.v1.DaemonSet",
    "deployments.apps": "apps.v1.Deployment",
    "endpointslices.discovery.k8s.io": "discovery.v1.EndpointSlice",
    "horizontalpodautoscalers.autoscaling": "autoscaling.v2.HorizontalPodAutoscaler",
    "horizontalpodautoscalers.v1.autoscaling": "autoscaling.v1.HorizontalPodAutoscaler",
    "ingresses.networking.k8s.io": "networking.v1.Ingress",
    "jobs.batch": "batch.v1.Job",
    "networkpolicies.networking.k8s.io": "networking.v1.NetworkPolicy",
    "poddisruptionbudgets.policy": "policy.v1.PodDisruptionBudget",
    "priorityclasses.scheduling.k8s.io": "scheduling.v1.PriorityClass",
    "replicasets.apps": "apps.v1.ReplicaSet",
    "rolebindings.rbac.authorization.k8s.io": "rbac.v1.RoleBinding",
    "roles.rbac.authorization.k8s.io": "rbac.v1.Role",
    "runtimeclasses.node.k8s.io": "node.v1.RuntimeClass",
    "statefulsets.apps": "apps.v1.StatefulSet",
    "ingressclasses.networking.k8s.io": "networking.v1.IngressClass",
    "storageclasses.storage.k8s.io": "storage.v1.StorageClass",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": "admissionregistration.v1.MutatingWebhookConfiguration",
    "validatingwebhookconfigurations.admissionregistration.k8s.io": "admissionregistration.v1.ValidatingWebhookConfiguration",
    "validatingadmissionpolicies.admissionregistration.k8s.io": "admissionregistration.v1.ValidatingAdmissionPolicy",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": "admissionregistration.v1.ValidatingAdmissionPolicyBinding",
}
_KINDS = [pytest.param(_STRATEGIES[definition], definition, id=name) for name, definition in _DEFINITIONS.items()]
_SCALARS: dict[str, tuple[Any, ...]] = {
    "string": (
        *("", "a", "web", "Bad_Name", "x/y", "..", "/abs/..", "é\n", "x" * 300, "1", "0-1,3", "3-1", "system-x"),
        *("Always", "Never", "In", "Exists", "RollingUpdate", "OnDelete", "Indexed", "Failed", "True", "FailIndex"),
        *("10.0.0.1", "::1", "fe80::1", "10.0.0.0/8", "IPv4", "IPv6", "FQDN", "TCP", "Prefix", "*.example.com"),
        *("Object", "Resource", "Utilization", "Max", "Pods", "*/5 * * * *", "@every 5m", "TZ=UTC 1 2 3 4 5"),
        *("Europe/Berlin", "ServiceAccount", "User", "ClusterRole", "apps/v1", "example.com/x"),
    ),
    "integer": (-1, 0, 1, 2, 80, 70000, 2**31 - 1, 200_000),
    "boolean": (True, False),
    "bytes": ("", "YQ=="),
    "time": ("2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"),
    "quantity": ("1", "0.5", "-1", "0"),
    "int-or-string": (0, 3, "25%", "200%", "x", ""),
    "any": ({}, "x", None),
}


def _value(random: Any, field: Field, depth: int) -> Any:
    if field.type in _SCALARS:
        return random.choice(_SCALARS[field.type])
    if field.type == "ref":
        return _document(random, field.ref, depth + 1)
    assert field.items is not None
    count = random.choice((0, 1, 1, 2))
    if field.type == "array":
        return [_value(random, field.items, depth) for _ in range(count)]
    return {random.choice(("a", "cpu", "x y", "")): _value(random, field.items, depth) for _ in range(count)}


def _document(random: Any, definition: str, depth: int = 0) -> dict[str, Any]:
    chance = 1.0 if depth == 0 else 0.6 if depth < 4 else 0.3
    fields = definitions()[definition].fields
    return {
        name: _value(random, field, depth)
        for name, field in fields.items()
        if depth < 9 and random.random() < chance and name != "managedFields"
    }


def _read(strategy: Strategy, document: dict[str, Any]) -> dict[str, Any]:
    try:
        return strategy.default(document)
    except BadRequest:
        # An annotation that must be a number is not one.
        document["metadata"].pop("annotations")
        return strategy.default(document)


@pytest.mark.parametrize(("strategy", "definition"), _KINDS)
@given(random=st.randoms(use_true_random=True))
@settings(max_examples=25, deadline=None)
def test_defaults_are_idempotent_and_in_normal_form_for_any_document(
    strategy: Strategy, definition: str, random: Any
) -> None:
    """A second pass changes nothing, and the caller's document is not modified."""
    document = _document(random, definition)
    before = json.dumps(document)
    try:
        once = strategy.default(document)
    except BadRequest:
        return
    assert json.dumps(document) == before
    assert strategy.default(once) == once
    # Each kind decides which lists are written as null.
    assert without_nulls(normal_form(once, definition)) == without_nulls(once)


@pytest.mark.parametrize(("strategy", "definition"), _KINDS)
@given(random=st.randoms(use_true_random=True))
@settings(max_examples=25, deadline=None)
def test_writes_of_any_document_end_in_errors_not_in_failures(strategy: Strategy, definition: str, random: Any) -> None:
    """Each endpoint returns an object and a list of printable errors, whatever is sent."""
    old = strategy.prepare_create(_read(strategy, _document(random, definition)))
    new = _read(strategy, _document(random, definition))
    errors = strategy.validate_create(old)
    updated = strategy.prepare_update(new, old)
    errors += strategy.validate_update(updated, old)
    by_controller = strategy.prepare_status(new, old)
    errors += strategy.validate_status(by_controller, old)
    assert all(error.body and error.field for error in errors)
    assert not errors or aggregate_text(errors)
    assert updated.get("status") == old.get("status")
    assert strategy.fields(updated)["metadata.name"] == updated["metadata"].get("name", "")


@pytest.mark.parametrize(("strategy", "definition"), _KINDS)
@given(random=st.randoms(use_true_random=True))
@settings(max_examples=25, deadline=None)
def test_an_update_without_a_change_keeps_the_generation_and_all_else(
    strategy: Strategy, definition: str, random: Any
) -> None:
    """A stored object that is sent again through either endpoint stays unchanged."""
    stored = strategy.prepare_create(_read(strategy, _document(random, definition)))
    assert strategy.prepare_update(stored, stored) == stored
    assert strategy.prepare_status(stored, stored) == stored
    assert strategy.prepare_update(strategy.default(stored), stored) == stored
