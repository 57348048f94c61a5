"""What a node asks to be certified: whom it is, for what, under which names (pure).

In: the node's name and addresses. Out: a `Wish`, the request to sign for it, the object to create, and whether a
certificate is what was wished for.

Upstream: pkg/kubelet/certificate/kubelet.go, pkg/kubelet/certificate/bootstrap/bootstrap.go (digestedName),
client-go/util/certificate/csr/csr.go
"""

import base64
import hashlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from pykubelet.api.certificate_requests import (
    CLIENT_AUTH,
    DIGITAL_SIGNATURE,
    KEY_ENCIPHERMENT,
    KUBELET_CLIENT_SIGNER,
    KUBELET_SERVING_SIGNER,
    NODE_PREFIX,
    NODES_GROUP,
    SERVER_AUTH,
    RequestError,
    parse_request,
)
from pykubelet.api.generated.certificates import CertificateSigningRequest, CertificateSigningRequestSpec
from pykubelet.api.generated.meta import ObjectMeta

PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
_FILE_NAMES = {KUBELET_CLIENT_SIGNER: "kubelet-client", KUBELET_SERVING_SIGNER: "kubelet-server"}
_PURPOSES = {KUBELET_CLIENT_SIGNER: CLIENT_AUTH, KUBELET_SERVING_SIGNER: SERVER_AUTH}


@dataclass(frozen=True, slots=True)
class Wish:
    """A certificate that is wanted: by whom, from which signer, for which host names and addresses."""

    signer: str
    user: str
    names: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """What the files of such a certificate begin with."""
        return _FILE_NAMES[self.signer]


def client_wish(node_name: str) -> Wish:
    """The certificate by which API servers know the node."""
    return Wish(KUBELET_CLIENT_SIGNER, NODE_PREFIX + node_name)


def serving_wish(node_name: str, names: Iterable[str]) -> Wish:
    """The certificate by which others know the node's own API, under its host names and addresses."""
    return Wish(KUBELET_SERVING_SIGNER, NODE_PREFIX + node_name, tuple(sorted({name for name in names if name})))


def usages(wish: Wish, key: PublicKey) -> tuple[str, ...]:
    """What the key will do; only RSA keys encipher other keys."""
    encipher = (KEY_ENCIPHERMENT,) if isinstance(key, rsa.RSAPublicKey) else ()
    return (DIGITAL_SIGNATURE, *encipher, _PURPOSES[wish.signer])


def unsigned_request(wish: Wish) -> x509.CertificateSigningRequestBuilder:
    """The request, to be signed with the key it is for."""
    names = [general_name(name) for name in wish.names]
    builder = x509.CertificateSigningRequestBuilder().subject_name(_subject(wish))
    return builder.add_extension(x509.SubjectAlternativeName(names), critical=False) if names else builder


def request_object(wish: Wish, key: PublicKey, pem: bytes, *, name: str = "") -> CertificateSigningRequest:
    """The object to create; without a name the server makes one up."""
    metadata = ObjectMeta(name=name) if name else ObjectMeta(generate_name="csr-")
    spec = CertificateSigningRequestSpec(request=pem, signer_name=wish.signer, usages=usages(wish, key))
    return CertificateSigningRequest(metadata=metadata, spec=spec)


def lasting_name(wish: Wish, key: PublicKey) -> str:
    """A name that is the same for the same wish and key, so that a node that starts again asks no second time."""
    parts = (
        key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        wish.user.encode(),
        NODES_GROUP.encode(),
        # Upstream appends this usage where a request of its manager has it in the middle.
        *(usage.encode() for usage in sorted(usages(wish, key), key=KEY_ENCIPHERMENT.__eq__)),
    )
    # No part can be taken for two: the mark is not in the alphabet.
    text = b"".join(_base64(part) + b"|" for part in parts)
    return f"node-csr-{_base64(hashlib.new('sha512_256', text).digest()).decode()}"


def is_request_for(found: CertificateSigningRequest, wish: Wish, key: PublicKey, now: datetime) -> bool:
    """Whether an earlier request is as good as a new one: same subject, signer and key, and what it gave is not over."""
    try:
        request, issued = parse_request(found.spec.request or b""), found.status.certificate
        if issued and x509.load_pem_x509_certificate(issued).not_valid_after_utc < now:
            return False
        return (
            request.subject == _subject(wish) and request.public_key() == key and found.spec.signer_name == wish.signer
        )
    except (RequestError, ValueError):
        return False


def satisfies(certificate: x509.Certificate, wish: Wish) -> bool:
    """Whether a certificate has everything that is wished for; it may have more."""
    held = {(attribute.oid, attribute.value) for attribute in certificate.subject}
    if not {(attribute.oid, attribute.value) for attribute in _subject(wish)} <= held:
        return False
    try:
        names = set(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (x509.ExtensionNotFound, ValueError):
        names = set()
    return {general_name(name) for name in wish.names} <= names


def general_name(name: str) -> x509.GeneralName:
    """A host name or an address as certificates have it."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _subject(wish: Wish) -> x509.Name:
    group = x509.NameAttribute(NameOID.ORGANIZATION_NAME, NODES_GROUP)
    return x509.Name([group, x509.NameAttribute(NameOID.COMMON_NAME, wish.user)])


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
