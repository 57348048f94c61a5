"""Defaults and validation of webhook configurations, with upstream's messages."""

from typing import Any

import pytest

from pykubelet.api.serializer import Document
from pykubelet.kinds.webhook_configuration import MUTATING, VALIDATING

RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
SERVICE = {"namespace": "n", "name": "s"}


def configuration(kind: str = "Mutating", **fields: Any) -> Document:
    webhook = {
        "name": "a.example.com",
        "clientConfig": {"service": SERVICE},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }
    return {
        "kind": f"{kind}WebhookConfiguration",
        "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": {"name": "test"},
        "webhooks": [{name: value for name, value in webhook.items() if value is not None}],
    }


def test_defaults_are_upstreams() -> None:
    (webhook,) = MUTATING.strategy.default(configuration())["webhooks"]

    assert {
        name: webhook[name] for name in ("failurePolicy", "matchPolicy", "timeoutSeconds", "reinvocationPolicy")
    } == {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 10,
        "reinvocationPolicy": "Never",
    }
    assert (webhook["namespaceSelector"], webhook["objectSelector"]) == ({}, {})
    assert (webhook["clientConfig"]["service"]["port"], webhook["rules"][0]["scope"]) == (443, "*")
    (other,) = VALIDATING.strategy.default(configuration("Validating"))["webhooks"]
    assert "reinvocationPolicy" not in other


def errors(**fields: Any) -> list[str]:
    return list(map(str, MUTATING.strategy.validate_create(MUTATING.strategy.default(configuration(**fields)))))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "a"}, 'webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated by dots'),
        ({"name": ""}, "webhooks[0].name: Required value"),
        ({"sideEffects": "Some"}, 'webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'),
        ({"sideEffects": None}, "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"),
        ({"failurePolicy": "Maybe"}, 'webhooks[0].failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"'),
        ({"reinvocationPolicy": "x"}, 'webhooks[0].reinvocationPolicy: Unsupported value: "x": supported values: "IfNeeded", "Never"'),
        ({"admissionReviewVersions": []}, "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"),
        ({"admissionReviewVersions": ["v2"]}, 'webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1'),
        ({"admissionReviewVersions": ["v1", "v1"]}, 'webhooks[0].admissionReviewVersions[1]: Invalid value: "v1": duplicate version'),
        ({"clientConfig": {}}, "webhooks[0].clientConfig: Required value: exactly one of url or service is required"),
        ({"clientConfig": {"url": "http://a/b"}}, "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]"),
        ({"clientConfig": {"url": "https://u@a?b#c"}}, 'webhooks[0].clientConfig.url: Invalid value: "u": user information is not permitted in the URL'),
        ({"clientConfig": {"url": "https:///a"}}, 'webhooks[0].clientConfig.url: Invalid value: "": host must be specified; desired format: https://host[/path]'),
        ({"clientConfig": {"service": {**SERVICE, "port": 65536}}}, "webhooks[0].clientConfig.service.port: Invalid value: 65536: port is not valid: must be between 1 and 65535, inclusive"),
        ({"clientConfig": {"service": {**SERVICE, "path": "a"}}}, "webhooks[0].clientConfig.service.path: Invalid value: \"a\": must start with a '/'"),
        ({"clientConfig": {"service": {**SERVICE, "path": "//"}}}, 'webhooks[0].clientConfig.service.path: Invalid value: "//": segment[0] may not be empty'),
        ({"matchConditions": [{"name": "a", "expression": "... []"}]}, 'webhooks[0].matchConditions[0].expression: Invalid value: "... []": compilation failed: ERROR: <input>:1:2: Syntax error'),
        ({"rules": [{**RULE, "operations": ["*", "CREATE"]}]}, "webhooks[0].rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations"),
    ],
)  # fmt: skip
def test_invalid_fields_have_upstreams_errors(fields: dict[str, Any], error: str) -> None:
    found = errors(**fields)

    assert any(each.startswith(error) for each in found), found


def test_a_valid_configuration_has_no_errors() -> None:
    assert errors() == []
    assert errors(clientConfig={"url": "https://hooks.example.com:8443/a/b"}) == []


def test_names_are_unique_within_a_configuration() -> None:
    twice = configuration()
    twice["webhooks"] *= 2

    found = MUTATING.strategy.validate_create(MUTATING.strategy.default(twice))
    assert list(map(str, found)) == ['webhooks[1].name: Duplicate value: "a.example.com"']


def test_an_update_may_keep_what_is_no_longer_valid() -> None:
    old = MUTATING.strategy.default(configuration(sideEffects="Some", admissionReviewVersions=["v2"]))
    new = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}

    assert MUTATING.strategy.validate_update(new, old) == []
    assert MUTATING.strategy.validate_update(new, MUTATING.strategy.default(configuration()))
