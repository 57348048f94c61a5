"""Validation of the environment of a container."""

from collections.abc import Callable
from typing import Any

import pytest

Messages = Callable[..., list[str]]

_SUBDOMAIN = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"


def _env(**source: Any) -> dict[str, Any]:
    return {"env": [{"name": "A", "valueFrom": source}]}


_ROWS: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "variable names",
        {"env": [{"value": "x"}, {"name": "a=b"}]},
        [
            "env[0].name: Required value",
            "env[1].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
        ],
    ),
    (
        "no source",
        _env(),
        [
            'env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`'
        ],
    ),
    (
        "value and source",
        {"env": [{"name": "A", "value": "v", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        ['env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'],
    ),
    (
        "two sources",
        _env(fieldRef={"fieldPath": "spec.host"}, secretKeyRef={"name": "s", "key": "k"}),
        ['env[0].valueFrom: Invalid value: "": may not have more than one field specified at a time'],
    ),
    ("field missing", _env(fieldRef={}), ["env[0].valueFrom.fieldRef.fieldPath: Required value"]),
    (
        "field unknown",
        _env(fieldRef={"fieldPath": "metadata.whoops"}),
        [
            'env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.whoops": error converting fieldPath: field label not supported: metadata.whoops'
        ],
    ),
    (
        "field version",
        _env(fieldRef={"fieldPath": "metadata.name", "apiVersion": "v2"}),
        [
            'env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2'
        ],
    ),
    (
        "subscript of a name",
        _env(fieldRef={"fieldPath": "metadata.name['a']"}),
        [
            "env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"metadata.name['a']\": error converting fieldPath: field label does not support subscript: metadata.name['a']"
        ],
    ),
    ("subscript of labels", _env(fieldRef={"fieldPath": "metadata.labels['a/b']"}), []),
    ("subscript in upper case", _env(fieldRef={"fieldPath": "metadata.annotations['A.B/c']"}), []),
    (
        "field of no variable",
        _env(fieldRef={"fieldPath": "metadata.labels"}),
        [
            'env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"'
        ],
    ),
    (
        "resource",
        _env(resourceFieldRef={"resource": "limits.disk"}),
        [
            'env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.disk": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"'
        ],
    ),
    (
        "cpu divisor",
        _env(resourceFieldRef={"resource": "limits.cpu", "divisor": "2"}),
        [
            'env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor\'s values 1m and 1 are supported with the cpu resource'
        ],
    ),
    (
        "huge page divisor",
        _env(resourceFieldRef={"resource": "requests.hugepages-2Mi", "divisor": "1m"}),
        [
            'env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "requests.hugepages-2Mi": only divisor\'s values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the hugepages resource'
        ],
    ),
    (
        "keys",
        _env(configMapKeyRef={"name": "S", "key": ".."}),
        [
            f'env[0].valueFrom.configMapKeyRef.name: Invalid value: "S": {_SUBDOMAIN}',
            "env[0].valueFrom.configMapKeyRef.key: Invalid value: \"..\": must not be '..'",
        ],
    ),
    (
        "file keys",
        _env(fileKeyRef={"path": "../x"}),
        [
            "env[0].valueFrom.fileKeyRef.key: Required value",
            "env[0].valueFrom.fileKeyRef.volumeName: Required value",
            "env[0].valueFrom.fileKeyRef.path: Invalid value: \"../x\": must not contain '..'",
            'env[0].valueFrom.fileKeyRef.volumeName: Not found: ""',
        ],
    ),
    (
        "envFrom",
        {"envFrom": [{}, {"configMapRef": {}, "secretRef": {"name": "s-"}}]},
        [
            'envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`',
            "envFrom[1].configMapRef.name: Required value",
            'envFrom: Invalid value: "": may not have more than one field specified at a time',
        ],
    ),
]


@pytest.mark.parametrize(
    ("container", "expected"), [pytest.param(container, expected, id=name) for name, container, expected in _ROWS]
)
def test_environment_is_refused_with_upstreams_words(
    messages: Messages, container: dict[str, Any], expected: list[str]
) -> None:
    assert messages(container=container) == [f"spec.containers[0].{text}" for text in expected]


def test_variable_from_a_file_needs_an_empty_directory(messages: Messages) -> None:
    """Only in an emptyDir can a container of the pod have written the file."""
    volumes = [{"name": "e"}, {"name": "h", "hostPath": {"path": "/x"}}]
    sources = [{"fileKeyRef": {"volumeName": name, "path": "f", "key": "K"}} for name in ("e", "h")]
    container = {"env": [{"name": "A", "valueFrom": source} for source in sources]}
    assert messages({"volumes": volumes}, container=container) == [
        'spec.containers[0].env[1].valueFrom.fileKeyRef.volumeName: Invalid value: "h": referenced volume must be of type emptyDir'
    ]
