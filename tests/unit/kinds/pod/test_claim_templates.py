"""Validation of the claim templates of ephemeral volumes."""

from collections.abc import Callable
from typing import Any

import pytest

Messages = Callable[..., list[str]]

_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_TEMPLATE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param(
            {"metadata": {"name": "x", "uid": "u"}, "spec": _TEMPLATE},
            ["metadata.name: Forbidden: cannot be set", "metadata.uID: Forbidden: cannot be set"],
            id="metadata",
        ),
        pytest.param(
            {},
            [
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ],
            id="nothing",
        ),
        pytest.param(
            {"spec": {**_TEMPLATE, "accessModes": ["ReadWriteOncePod", "ReadWriteOnce", "Some"], "volumeMode": "Tape"}},
            [
                (
                    'spec.accessModes: Unsupported value: "Some": supported values: "ReadOnlyMany", "ReadWriteMany", '
                    '"ReadWriteOnce", "ReadWriteOncePod"'
                ),
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                'spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"',
            ],
            id="modes",
        ),
        pytest.param(
            {"spec": {**_TEMPLATE, "resources": {"requests": {"storage": "0"}}, "storageClassName": "X_"}},
            [
                'spec.resources[storage]: Invalid value: "0": must be greater than zero',
                f'spec.storageClassName: Invalid value: "X_": {_SUBDOMAIN}',
            ],
            id="size and class",
        ),
        pytest.param(
            {
                "spec": {
                    **_TEMPLATE,
                    "dataSource": {"kind": "A"},
                    "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "n"},
                }
            },
            [
                "spec.dataSource.name: Required value",
                "spec.dataSource: Invalid value: \"A\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                "spec: Invalid value: {}: must match dataSourceRef",
            ],
            id="data sources",
        ),
        pytest.param(
            {
                "spec": {
                    **_TEMPLATE,
                    "dataSource": {"kind": "A", "name": "n", "apiGroup": "g"},
                    "dataSourceRef": {"kind": "A", "name": "n", "apiGroup": "G", "namespace": "N"},
                }
            },
            [
                f'spec.dataSourceRef.apiGroup: Invalid value: "G": {_SUBDOMAIN}',
                f'spec.dataSourceRef.namespace: Invalid value: "N": {_LABEL}',
                "spec: Invalid value: {}: may not be specified when dataSourceRef.namespace is specified",
            ],
            id="data source in a namespace",
        ),
    ],
)
def test_claim_template_is_refused_with_upstreams_words(
    messages: Messages, template: dict[str, Any], expected: list[str]
) -> None:
    spec = {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]}
    assert messages(spec) == [f"spec.volumes[0].ephemeral.volumeClaimTemplate.{text}" for text in expected]


def test_generated_claims_are_checked_by_name(messages: Messages) -> None:
    """The claim's name starts with the pod's name, can be too long, and is reserved for the ephemeral volume."""
    template = {"volumeClaimTemplate": {"spec": _TEMPLATE}}
    volumes = [{"name": "v", "ephemeral": template}, {"name": "w", "persistentVolumeClaim": {"claimName": "web-v"}}]
    assert messages({"volumes": volumes}) == [
        (
            'spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: "web-v": must not reference a PVC that gets created '
            "for an ephemeral volume"
        )
    ]
    name = "w" * 252
    assert messages({"volumes": volumes[:1]}, metadata={"name": name}) == [
        f'spec.volumes[0].name: Invalid value: "v": PVC name "{name}-v": must be no more than 253 characters'
    ]
