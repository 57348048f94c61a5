"""Certificate signing requests: parsing, and the rules for kubelet client and serving certificates.

Upstream: pkg/apis/certificates/helpers.go, staging/src/k8s.io/api/certificates/v1/types.go
"""

from collections.abc import Iterable

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import NameOID

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING_SIGNER = "kubernetes.io/kubelet-serving"
LEGACY_SIGNER = "kubernetes.io/legacy-unknown"

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
"""Condition types of a CertificateSigningRequest."""

NODE_PREFIX, NODES_GROUP = "system:node:", "system:nodes"
"""The user name prefix and the group in the certificate of a node."""

DIGITAL_SIGNATURE, KEY_ENCIPHERMENT = "digital signature", "key encipherment"
CLIENT_AUTH, SERVER_AUTH = "client auth", "server auth"

_MARK = b"-----BEGIN CERTIFICATE REQUEST-----"


class RequestError(ValueError):
    """The text is not a certificate request, or is not signed by the key it contains."""


def parse_request(pem: bytes) -> x509.CertificateSigningRequest:
    """Parses a PEM request; raises RequestError."""
    start = pem.find(b"-----BEGIN ")
    if start < 0 or not pem[start:].startswith(_MARK):
        raise RequestError("PEM block type must be CERTIFICATE REQUEST")
    try:
        return x509.load_pem_x509_csr(pem[start:])
    except ValueError as error:
        raise RequestError("the certificate request cannot be read") from error


def signed_request(pem: bytes) -> x509.CertificateSigningRequest:
    """Parses a PEM request and verifies its signature; raises RequestError."""
    request = parse_request(pem)
    try:
        is_signed = request.is_signature_valid
    except (UnsupportedAlgorithm, ValueError, TypeError) as error:
        raise RequestError("x509: cannot verify signature: algorithm unimplemented") from error
    if not is_signed:
        raise RequestError("x509: the signature of the certificate request is not by its key")
    return request


def common_name(request: x509.CertificateSigningRequest) -> str:
    """Returns the requested common name; like Go, the last of several."""
    return ["", *_subject(request, NameOID.COMMON_NAME)][-1]


def organizations(request: x509.CertificateSigningRequest) -> list[str]:
    """Returns the requested organizations, which become groups."""
    return _subject(request, NameOID.ORGANIZATION_NAME)


def kubelet_client_problem(request: x509.CertificateSigningRequest, usages: Iterable[str]) -> str:
    """Explains why this is not a request for a kubelet client certificate; empty if it is one."""
    names = _names(request)
    if organizations(request) != [NODES_GROUP]:
        return "subject organization is not system:nodes"
    for kind, word in _KINDS_OF_NAMES.items():
        if any(isinstance(name, kind) for name in names):
            return f"{word} subjectAltNames are not allowed"
    if not common_name(request).startswith(NODE_PREFIX):
        return "subject common name does not begin with system:node:"
    return _usages_problem(usages, CLIENT_AUTH)


def kubelet_serving_problem(request: x509.CertificateSigningRequest, usages: Iterable[str]) -> str:
    """Explains why this is not a request for a kubelet serving certificate; empty if it is one."""
    names = _names(request)
    if organizations(request) != [NODES_GROUP]:
        return "subject organization is not system:nodes"
    if not any(isinstance(name, x509.DNSName | x509.IPAddress) for name in names):
        return "DNS or IP subjectAltName is required"
    for kind in (x509.RFC822Name, x509.UniformResourceIdentifier):
        if any(isinstance(name, kind) for name in names):
            return f"{_KINDS_OF_NAMES[kind]} subjectAltNames are not allowed"
    if problem := _usages_problem(usages, SERVER_AUTH):
        return problem
    return (
        "" if common_name(request).startswith(NODE_PREFIX) else "subject common name does not begin with system:node:"
    )


_KINDS_OF_NAMES: dict[type[x509.GeneralName], str] = {
    x509.DNSName: "DNS",
    x509.RFC822Name: "Email",
    x509.IPAddress: "IP",
    x509.UniformResourceIdentifier: "URI",
}


def _usages_problem(usages: Iterable[str], purpose: str) -> str:
    # Only RSA keys need key encipherment.
    plain = {DIGITAL_SIGNATURE, purpose}
    if set(usages) in (plain, plain | {KEY_ENCIPHERMENT}):
        return ""
    return f"usages did not match [{' '.join(sorted(plain | {KEY_ENCIPHERMENT}))}]"


def _subject(request: x509.CertificateSigningRequest, oid: x509.ObjectIdentifier) -> list[str]:
    try:
        return [str(attribute.value) for attribute in request.subject.get_attributes_for_oid(oid)]
    except ValueError as error:
        raise RequestError("the subject of the certificate request cannot be read") from error


def _names(request: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    try:
        return list(request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []
    except (ValueError, UnsupportedAlgorithm) as error:
        raise RequestError("the names of the certificate request cannot be read") from error
