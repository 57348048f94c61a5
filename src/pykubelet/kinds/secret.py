"""Whether a certificate and a private key, both as PEM, belong together.

Upstream: X509KeyPair in Go's crypto/tls, which the strategy of secrets asks

Warnings about service accounts, and about secrets that hold a certificate with its key.

Upstream: pkg/registry/core/serviceaccount/strategy.go, pkg/registry/core/secret/strategy.go
"""

from base64 import b64decode
from collections.abc import Iterator
from typing import NamedTuple

from pykubelet.api.serializer import Document

_BEGIN, _END, _DASHES = b"\n-----BEGIN ", b"\n-----END ", b"-----"
_CERTIFICATE, _PRIVATE_KEY = "CERTIFICATE", "PRIVATE KEY"


class _Block(NamedTuple):
    type: str
    content: bytes


def key_pair_problem(certificate: bytes, key: bytes) -> str:
    """What Go says is wrong with the pair; empty if nothing is."""
    blocks = [*_blocks(certificate)]
    found = next((block for block in blocks if block.type == _CERTIFICATE), None)
    if found is None:
        return _no_certificate([block.type for block in blocks])
    skipped: list[str] = []
    for block in _blocks(key):
        if block.type == _PRIVATE_KEY or block.type.endswith(f" {_PRIVATE_KEY}"):
            return _mismatch(found.content, block.content)
        skipped.append(block.type)
    return _no_key(skipped)


def _blocks(text: bytes) -> Iterator[_Block]:
    """The blocks of a text; what is none is passed over, and every byte looked at but once or twice."""
    text = b"\n" + text
    place = 0
    while (begin := text.find(_BEGIN, place)) >= 0:
        place, kind = _rest_of_line(text, begin + len(_BEGIN))
        if not kind.endswith(_DASHES):
            continue
        end = text.find(_END, place)
        if end < 0:
            return
        lines = text[place:end].split(b"\n")
        place, closed = _rest_of_line(text, end + len(_END))
        try:
            content = b64decode(b"".join(line.strip() for line in lines if b":" not in line), validate=True)
        except ValueError:
            continue
        if closed == kind:
            yield _Block(kind.removesuffix(_DASHES).decode("utf-8", "replace"), content)


def _rest_of_line(text: bytes, start: int) -> tuple[int, bytes]:
    """Where the line ends, and what is left of it."""
    end = text.find(b"\n", start)
    end = len(text) if end < 0 else end
    return end, text[start:end].rstrip()


def _no_certificate(skipped: list[str]) -> str:
    if not skipped:
        return "tls: failed to find any PEM data in certificate input"
    if len(skipped) == 1 and skipped[0].endswith(_PRIVATE_KEY):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may "
            "have been switched"
        )
    return (
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following '
        f"types: [{' '.join(skipped)}]"
    )


def _no_key(skipped: list[str]) -> str:
    if not skipped:
        return "tls: failed to find any PEM data in key input"
    if skipped == [_CERTIFICATE]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    return (
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of the '
        f"following types: [{' '.join(skipped)}]"
    )


def _mismatch(certificate: bytes, key: bytes) -> str:
    # Few secrets hold a certificate, and this takes long to load.
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except UnsupportedAlgorithm:
        return "tls: unknown public key algorithm"
    except ValueError:
        return "x509: malformed certificate"
    try:
        private = serialization.load_der_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to parse private key"
    if not isinstance(private, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        return "tls: failed to parse private key"
    if not isinstance(public, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        return "tls: unknown public key algorithm"
    own = private.public_key()
    if type(own) is not type(public):
        return "tls: private key type does not match public key type"
    return "" if own == public else "tls: private key does not match public key"


_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
_PREFER_NAMESPACES = (
    f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted "
    "secrets"
)


def service_account_warnings(document: Document) -> list[str]:
    """About a new ServiceAccount."""
    return [_PREFER_NAMESPACES] if _MOUNTABLE in document["metadata"].get("annotations", {}) else []


def service_account_change_warnings(new: Document, old: Document) -> list[str]:
    """About a changed ServiceAccount, if it did not have the annotation before."""
    return [] if service_account_warnings(old) else service_account_warnings(new)


def secret_warnings(document: Document) -> list[str]:
    """About a Secret."""
    if document.get("type") != "kubernetes.io/tls":
        return []
    data = document.get("data", {})
    certificate, key = (b64decode(data.get(name, "")) for name in ("tls.crt", "tls.key"))
    problem = key_pair_problem(certificate, key)
    return [problem] if problem else []
