"""The rules of IngressClasses, their columns, and the default class of Ingresses."""

from typing import Any

import pytest

from pykubelet.apiserver.admission.ingress import default_class
from pykubelet.kinds import ingress_class
from strategy_calls import create, update

_STRATEGY = ingress_class.KIND.strategy
_CONTROLLER = "example.com/ingress"
_AT = "spec.parameters"


def _class(controller: str = _CONTROLLER, **parameters: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"controller": controller}
    if parameters:
        spec["parameters"] = {"kind": "Settings", "name": "main", **parameters}
    return {"spec": spec}


_CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "good": (_class(), []),
    "parameters": (_class(apiGroup="example.com", scope="Namespace", namespace="x"), []),
    "no controller": (_class(""), ["spec.controller: Required value"]),
    "no path": (
        _class("example.com"),
        ['spec.controller: Invalid value: "example.com": must be a domain-prefixed path (such as "acme.io/foo")'],
    ),
    "long controller": (_class("a.b/" + "c" * 247), ["spec.controller: Too long: may not be more than 250 bytes"]),
    "no kind": (_class(kind=""), [f"{_AT}.kind: Required value: kind is required"]),
    "no name": (_class(name=""), [f"{_AT}.name: Required value: name is required"]),
    "unknown scope": (
        _class(scope="World"),
        [f'{_AT}.scope: Unsupported value: "World": supported values: "Cluster", "Namespace"'],
    ),
    "namespace is missing": (
        _class(scope="Namespace"),
        [f"{_AT}.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
    ),
    "namespace of a cluster's object": (
        _class(scope="Cluster", namespace="x"),
        [f"{_AT}.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
    ),
}


@pytest.mark.parametrize(("document", "errors"), _CASES.values(), ids=_CASES.keys())
def test_errors_of_a_class(document: dict[str, Any], errors: list[str]) -> None:
    _, found = create(_STRATEGY, document, namespace="")
    assert found == errors


def test_scope_of_parameters_is_the_cluster_by_default_and_the_controller_is_fixed() -> None:
    stored, errors = create(_STRATEGY, _class(apiGroup="example.com"), namespace="")
    assert not errors
    assert stored["spec"]["parameters"]["scope"] == "Cluster"
    assert stored["metadata"]["generation"] == 1
    _, errors = update(_STRATEGY, stored, {"spec": {"controller": "example.com/other"}})
    assert errors == ['spec.controller: Invalid value: "example.com/other": field is immutable']


def _marked(name: str, created: str, value: str = "true") -> dict[str, Any]:
    annotations = {ingress_class.DEFAULT_CLASS_ANNOTATION: value}
    return {"metadata": {"name": name, "creationTimestamp": created, "annotations": annotations}}


def test_default_class_is_the_newest_that_is_marked() -> None:
    old, new = _marked("old", "2026-01-01T00:00:00Z"), _marked("new", "2026-01-02T00:00:00Z")
    assert default_class([]) == default_class([_marked("no", "2026-01-01T00:00:00Z", "false")]) == ""
    assert default_class([old, new]) == default_class([new, old]) == "new"
    assert default_class([old, _marked("also", "2026-01-01T00:00:00Z")]) == "also"
