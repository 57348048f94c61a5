"""The authority of a cluster is used only if its public key has the given hash."""

import base64
import subprocess
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pykubelet.api.yaml.write import to_yaml
from pykubelet.apiserver.certs.certificates import make_authority, new_key
from pykubelet.client.certificates.discovery import (
    ClusterInfo,
    DiscoveryError,
    cluster_in,
    is_pin,
    pinned_certificates,
    public_key_pin,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
OURS, ANOTHER = (make_authority(new_key(), NOW) for _ in range(2))


def test_hash_is_that_of_openssl() -> None:
    """As kubeadm's documentation computes it: over the DER form of the SubjectPublicKeyInfo."""
    key = OURS.certificate.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=key, capture_output=True, check=True)
    digest = subprocess.run(["openssl", "dgst", "-sha256", "-r"], input=der.stdout, capture_output=True, check=True)
    assert public_key_pin(OURS.certificate) == f"sha256:{digest.stdout.decode().split()[0]}"


def test_only_certificates_with_the_hash_are_trusted() -> None:
    """A program that answers in the server's place could add an authority to the right one."""
    bundle = ANOTHER.certificate_pem + OURS.certificate_pem
    assert pinned_certificates(bundle, [public_key_pin(OURS.certificate)]) == OURS.certificate_pem
    assert pinned_certificates(bundle, [public_key_pin(OURS.certificate).upper().replace("SHA", "sha")])


def test_authority_with_another_hash_is_refused() -> None:
    with pytest.raises(DiscoveryError, match=f"has the hash {public_key_pin(ANOTHER.certificate)}, not that"):
        pinned_certificates(ANOTHER.certificate_pem, [public_key_pin(OURS.certificate)])


@pytest.mark.parametrize("bundle", [b"", b"no certificate"])
def test_authority_that_is_no_certificate_is_refused(bundle: bytes) -> None:
    with pytest.raises(DiscoveryError):
        pinned_certificates(bundle, [public_key_pin(OURS.certificate)])


def test_cluster_is_read_from_its_kubeconfig() -> None:
    cluster = {"server": "https://10.0.0.1:6443", "certificate-authority-data": base64.b64encode(b"ca").decode()}
    text = to_yaml({"kind": "Config", "clusters": [{"name": "", "cluster": cluster}]})
    assert cluster_in(text) == ClusterInfo("https://10.0.0.1:6443", b"ca")


@pytest.mark.parametrize("text", ["", "[]", "clusters: []", "clusters: [{cluster: {server: x}}]", "clusters: {", "1"])
def test_broken_kubeconfig_is_refused(text: str) -> None:
    with pytest.raises(DiscoveryError, match="no kubeconfig of one cluster"):
        cluster_in(text)


def test_form_of_a_hash_is_checked() -> None:
    assert is_pin(f"sha256:{'0aF' * 21}0")
    assert not any(
        map(is_pin, ("", "sha256:", "0" * 64, f"sha256:{'0' * 63}", f"sha1:{'0' * 64}", f"sha256:{'g' * 64}"))
    )
