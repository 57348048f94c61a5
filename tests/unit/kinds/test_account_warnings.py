"""Warnings about finalizers, service accounts and secrets with certificates."""

from base64 import b64encode
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.apiextensions.customresource_strategy import finalizer_change_warnings, finalizer_warnings
from pykubelet.kinds.secret import key_pair_problem, secret_warnings
from pykubelet.kinds.service_account import service_account_change_warnings, service_account_warnings

_AVOIDS = "to avoid accidental conflicts with other finalizer writers"
Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey


def _with_finalizers(*names: str) -> dict[str, Any]:
    return {"metadata": {"finalizers": [*names]}}


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        pytest.param("example.com/x", "", id="with a domain"),
        pytest.param("orphan", "", id="standard"),
        pytest.param("foregroundDeletion", "", id="standard too"),
        pytest.param("kubernetes", "", id="of namespaces"),
        pytest.param("x", f'"x": prefer a domain-qualified finalizer name {_AVOIDS}', id="no domain"),
        pytest.param(
            "a.b",
            f'"a.b": prefer a domain-qualified finalizer name including a path (/) {_AVOIDS}',
            id="nothing but a domain",
        ),
    ],
)
def test_finalizer_should_have_a_domain(name: str, warning: str) -> None:
    """An update warns only about finalizers that it adds."""
    warnings = [f"metadata.finalizers: {warning}"] * bool(warning)
    assert finalizer_warnings(_with_finalizers(name)) == warnings
    assert finalizer_change_warnings(_with_finalizers(name, "a.b/c"), _with_finalizers("a.b/c")) == warnings
    assert finalizer_change_warnings(_with_finalizers(name), _with_finalizers(name)) == []


def test_invalid_finalizer_name_gives_another_warning() -> None:
    """The finalizers are reported in alphabetical order."""
    first, second, third = finalizer_warnings(_with_finalizers("z", "a b"))
    assert first.startswith('metadata.finalizers: "a b": name part must consist of')
    assert second == f'metadata.finalizers: "a b": prefer a domain-qualified finalizer name {_AVOIDS}'
    assert third.startswith('metadata.finalizers: "z": prefer')


def test_service_account_warns_when_the_annotation_is_new() -> None:
    """An update that keeps the annotation does not warn again."""
    new = {"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}}
    warning = (
        "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces "
        "to isolate access to mounted secrets"
    )
    old: dict[str, Any] = {"metadata": {}}
    assert service_account_warnings(new) == service_account_change_warnings(new, old) == [warning]
    assert service_account_warnings(old) == service_account_change_warnings(new, new) == []


@cache
def _key(kind: str) -> Key:
    match kind:
        case "ed25519":
            return ed25519.Ed25519PrivateKey.generate()
        case "ed448":
            return ed448.Ed448PrivateKey.generate()
        case _:
            return ec.generate_private_key(ec.SECP256R1())


def _private(kind: str) -> bytes:
    return _key(kind).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@cache
def _certificate(kind: str) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, _key(kind).public_key(), 1, start, start.replace(year=2027))
    made = builder.sign(_key(kind), None if kind.startswith("ed") else hashes.SHA256())
    return made.public_bytes(Encoding.PEM)


def _block(kind: str, content: str = "YQ==") -> bytes:
    return f"-----BEGIN {kind}-----\n{content}\n-----END {kind}-----\n".encode()


_PEM_KEY, _PEM_CERTIFICATE, _PEM_OTHER = _block("PRIVATE KEY"), _block("CERTIFICATE"), _block("THING")


@pytest.mark.parametrize(
    ("certificate", "key", "problem"),
    [
        pytest.param(b"x", b"y", "tls: failed to find any PEM data in certificate input", id="no text"),
        pytest.param(
            _PEM_KEY,
            _PEM_CERTIFICATE,
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may "
            "have been switched",
            id="switched",
        ),
        pytest.param(
            _PEM_OTHER + _PEM_KEY,
            b"",
            'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following '
            "types: [THING PRIVATE KEY]",
            id="other blocks",
        ),
        pytest.param(_PEM_CERTIFICATE, b"", "tls: failed to find any PEM data in key input", id="no key"),
        pytest.param(
            _PEM_CERTIFICATE,
            _PEM_CERTIFICATE,
            "tls: found a certificate rather than a key in the PEM for the private key",
            id="certificate twice",
        ),
        pytest.param(
            _PEM_CERTIFICATE,
            _PEM_OTHER,
            'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of '
            "the following types: [THING]",
            id="other key",
        ),
        pytest.param(_PEM_CERTIFICATE, _PEM_KEY, "x509: malformed certificate", id="no certificate"),
        pytest.param(
            b"-----BEGIN x\n-----BEGIN A-----\n-----END B-----\n" + _block("A", "!") + b"-----BEGIN A-----\n",
            b"",
            "tls: failed to find any PEM data in certificate input",
            id="no blocks",
        ),
    ],
)
def test_invalid_key_pair_has_the_message_of_go(certificate: bytes, key: bytes, problem: str) -> None:
    """The message names the input and what is missing in it."""
    assert key_pair_problem(certificate, key) == problem


def test_pair_must_belong_together() -> None:
    """Both must have the same algorithm, and the key must be that of the certificate."""
    assert key_pair_problem(_certificate("a"), _private("a")) == ""
    assert key_pair_problem(_certificate("ed25519"), b"text before\n" + _private("ed25519")) == ""
    assert key_pair_problem(_certificate("a"), _private("b")) == "tls: private key does not match public key"
    assert key_pair_problem(_certificate("a"), _private("ed25519")).startswith("tls: private key type does not match")
    assert key_pair_problem(_certificate("a"), _PEM_KEY) == "tls: failed to parse private key"
    assert key_pair_problem(_certificate("a"), _private("ed448")) == "tls: failed to parse private key"


def test_certificate_with_a_key_type_unknown_to_go_has_its_own_message() -> None:
    """One type is known to the cryptography package, the other is not."""
    problem = "tls: unknown public key algorithm"
    assert key_pair_problem(_certificate("ed448"), _private("a")) == problem
    unknown = x509.load_pem_x509_certificate(_certificate("a")).public_bytes(Encoding.DER)
    unknown = unknown.replace(bytes.fromhex("2a8648ce3d0201"), bytes.fromhex("2a8648ce3d0209"))
    assert key_pair_problem(_block("CERTIFICATE", b64encode(unknown).decode()), _private("a")) == problem


def test_secret_warns_only_if_its_type_is_tls() -> None:
    """Certificate and key are base64 data of the secret."""
    data = {"tls.crt": b64encode(_certificate("a")).decode(), "tls.key": b64encode(_private("a")).decode()}
    assert secret_warnings({"type": "kubernetes.io/tls", "data": data}) == []
    assert secret_warnings({"type": "kubernetes.io/tls", "data": data | {"tls.key": ""}}) == [
        "tls: failed to find any PEM data in key input"
    ]
    assert secret_warnings({"type": "Opaque", "data": {}}) == []


@given(st.binary(max_size=60), st.sampled_from([b"", _PEM_CERTIFICATE, _PEM_KEY]), st.binary(max_size=20))
def test_any_bytes_give_a_problem_and_no_failure(before: bytes, block: bytes, after: bytes) -> None:
    """No content of a secret raises an exception."""
    text = before + b"\n" + block + after
    assert key_pair_problem(text, text)
