"""Warnings about objects of every kind, of every shape."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_document import any_document
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.kinds.kind import Kind, Warnings

_KINDS = [
    pytest.param(served, id=served.resource.group_resource)
    for served in BUILT_IN_KINDS
    if served.strategy.warnings != Warnings() and served.resource.group != "apiextensions.k8s.io"
]


def _document(random: Any, served: Kind) -> dict[str, Any]:
    kind = {"apiVersion": served.resource.api_version, "kind": served.resource.kind}
    return served.strategy.default(any_document(random, served.definition) | kind)


def test_kinds_with_warnings_are_those_of_upstream() -> None:
    """The kinds are those whose strategies return warnings."""
    assert {kind.id for kind in _KINDS} == {
        "cronjobs.batch",
        "csistoragecapacities.storage.k8s.io",
        "daemonsets.apps",
        "deployments.apps",
        "endpoints",
        "endpointslices.discovery.k8s.io",
        "ingresses.networking.k8s.io",
        "jobs.batch",
        "networkpolicies.networking.k8s.io",
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "replicasets.apps",
        "replicationcontrollers",
        "runtimeclasses.node.k8s.io",
        "secrets",
        "serviceaccounts",
        "services",
        "statefulsets.apps",
        "storageclasses.storage.k8s.io",
    }


@pytest.mark.parametrize("served", _KINDS)
@given(random=st.randoms(use_true_random=True))
@settings(max_examples=25, deadline=None)
def test_any_document_gives_texts_and_no_failure(served: Kind, random: Any) -> None:
    """Documents that would not pass validation raise no exception either."""
    strategy, warnings = served.strategy, served.strategy.warnings
    made = _document(random, served)
    new = _document(random, served)
    old = strategy.prepare_create(made)
    found = [
        *warnings.received(made),
        *warnings.create(old),
        *warnings.update(strategy.prepare_update(new, old), old),
        *warnings.status(strategy.prepare_status(new, old), old),
    ]
    assert all(found)
