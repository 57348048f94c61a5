"""Validation of projected volumes."""

from collections.abc import Callable
from typing import Any

import pytest

Messages = Callable[..., list[str]]

_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_AT = "spec.volumes[0].projected"


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        pytest.param(
            [
                {"secret": {"items": [{"key": "k", "path": "a"}]}},
                {"configMap": {"name": "m", "items": [{"key": "k", "path": "a"}]}},
            ],
            [
                f"{_AT}.sources[0].secret.name: Required value",
                f'{_AT}: Invalid value: "m": conflicting duplicate paths',
            ],
            id="keys",
        ),
        pytest.param(
            [
                {
                    "secret": {"name": "s"},
                    "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}] * 2},
                }
            ],
            [
                f'{_AT}: Invalid value: "a": conflicting duplicate paths',
                f"{_AT}.sources[0]: Forbidden: may not specify more than 1 volume type per source",
            ],
            id="two kinds",
        ),
        pytest.param(
            [
                {"serviceAccountToken": {"expirationSeconds": 599}},
                {"serviceAccountToken": {"expirationSeconds": 2**32 + 1, "path": "/t"}},
            ],
            [
                (
                    f"{_AT}.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: may not specify a duration "
                    "less than 10 minutes"
                ),
                f"{_AT}.path: Required value",
                (
                    f"{_AT}.sources[1].serviceAccountToken.expirationSeconds: Invalid value: 4294967297: may not specify a "
                    "duration larger than 2^32 seconds"
                ),
                f'{_AT}.path: Invalid value: "/t": must be a relative path',
            ],
            id="tokens",
        ),
        pytest.param(
            [
                {"serviceAccountToken": {"expirationSeconds": 600, "path": "short"}},
                {"serviceAccountToken": {"expirationSeconds": 2**32, "path": "long"}},
            ],
            [],
            id="shortest and longest token",
        ),
        pytest.param(
            [
                {"clusterTrustBundle": {"name": "a", "signerName": "b.c/d", "path": "p"}},
                {"clusterTrustBundle": {"path": "p"}},
            ],
            [
                (
                    f'{_AT}.sources[0].clusterTrustBundle: Invalid value: {{"Name":"a","SignerName":"b.c/d","LabelSelector":null,'
                    '"Optional":null,"Path":"p"}: only one of name and signerName may be used'
                ),
                f"{_AT}.sources[1].clusterTrustBundle: Required value: either name or signerName must be specified",
                f'{_AT}: Invalid value: "p": conflicting duplicate paths',
            ],
            id="trust bundles",
        ),
        pytest.param(
            [
                {"clusterTrustBundle": {"name": name, "path": name[-1:] or "e", "labelSelector": {}}}
                for name in (":x", "a/b:c", "s.io:x:ok")
            ],
            [
                (
                    f'{_AT}.sources[0].clusterTrustBundle.name: Invalid value: ":x": not a valid clustertrustbundlename: '
                    'ClusterTrustBundle without signer name must not have ":" in its name'
                ),
                (
                    f"{_AT}.sources[0].clusterTrustBundle.labelSelector: Invalid value: {{}}: labelSelector must be unset if name "
                    "is specified"
                ),
                (
                    f'{_AT}.sources[1].clusterTrustBundle.name: Invalid value: "a/b:c": not a valid clustertrustbundlename: '
                    "ClusterTrustBundle for signerName a/b must be named with prefix a:b:"
                ),
                (
                    f"{_AT}.sources[1].clusterTrustBundle.labelSelector: Invalid value: {{}}: labelSelector must be unset if name "
                    "is specified"
                ),
                (
                    f"{_AT}.sources[2].clusterTrustBundle.labelSelector: Invalid value: {{}}: labelSelector must be unset if name "
                    "is specified"
                ),
            ],
            id="names of trust bundles",
        ),
        pytest.param(
            [{"clusterTrustBundle": {"signerName": signer}} for signer in ("", "x", "A.b/c", "b/c")],
            [
                f"{_AT}.sources[0].clusterTrustBundle.signerName: Required value: must be a valid signer name",
                f"{_AT}.sources[0].clusterTrustBundle.signerName: Required value",
                f"{_AT}.sources[0].clusterTrustBundle.path: Required value",
                (
                    f'{_AT}.sources[1].clusterTrustBundle.signerName: Invalid value: "x": must be a fully qualified domain and '
                    "path of the form 'example.com/signer-name'"
                ),
                f"{_AT}.sources[1].clusterTrustBundle.path: Required value",
                f'{_AT}: Invalid value: "": conflicting duplicate paths',
                f'{_AT}.sources[2].clusterTrustBundle.signerName: Invalid value: "A.b": validating label "A": {_LABEL}',
                f"{_AT}.sources[2].clusterTrustBundle.path: Required value",
                f'{_AT}: Invalid value: "": conflicting duplicate paths',
                (
                    f'{_AT}.sources[3].clusterTrustBundle.signerName: Invalid value: "b": should be a domain with at least two '
                    "segments separated by dots"
                ),
                f"{_AT}.sources[3].clusterTrustBundle.path: Required value",
                f'{_AT}: Invalid value: "": conflicting duplicate paths',
            ],
            id="signers",
        ),
        pytest.param(
            [
                {"podCertificate": {"signerName": "a.b/c", "keyType": "DES", "maxExpirationSeconds": 1}},
                {
                    "podCertificate": {
                        "signerName": "kubernetes.io/c",
                        "keyType": "ED25519",
                        "maxExpirationSeconds": 86401,
                        "keyPath": "k",
                        "certificateChainPath": "k",
                    }
                },
            ],
            [
                (
                    f'{_AT}.sources[0].podCertificate.keyType: Unsupported value: "DES": supported values: "RSA3072", "RSA4096", '
                    '"ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"'
                ),
                (
                    f"{_AT}.sources[0].podCertificate.maxExpirationSeconds: Invalid value: 1: if provided, maxExpirationSeconds "
                    "must be >= 3600"
                ),
                (
                    f"{_AT}.sources[0].podCertificate: Required value: specify at least one of credentialBundlePath, keyPath, and "
                    "certificateChainPath"
                ),
                (
                    f"{_AT}.sources[1].podCertificate.maxExpirationSeconds: Invalid value: 86401: if provided, "
                    "maxExpirationSeconds must be <= 86400"
                ),
                f'{_AT}: Invalid value: "k": conflicting duplicate paths',
            ],
            id="certificates",
        ),
    ],
)
def test_projected_volume_is_refused_with_upstreams_words(
    messages: Messages, sources: list[dict[str, Any]], expected: list[str]
) -> None:
    spec = {"serviceAccountName": "a", "volumes": [{"name": "v", "projected": {"sources": sources}}]}
    assert messages(spec) == expected
