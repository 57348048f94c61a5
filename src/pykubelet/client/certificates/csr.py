"""What a node asks to be certified: whom it is, for what, under which names (pure).

In: the node's name and addresses. Out: a `Wish`, the request to sign for it, the object to create, and whether a
certificate is what was wished for.

Upstream: pkg/kubelet/certificate/kubelet.go, pkg/kubelet/certificate/bootstrap/bootstrap.go (digestedName),
client-go/util/certificate/csr/csr.go

Asks an API server for a certificate and waits until it is issued or refused.

In: a wish and the key it is for. Out: the certificate as PEM; RequestRefused if it was denied, an ApiError if the
request could not be made.

Upstream: client-go/util/certificate/csr/csr.go

What became of a request for a certificate (pure).

Upstream: client-go/util/certificate/csr/csr.go (WaitForCertificate)
"""

import asyncio
import base64
import hashlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from pykubelet.aio.log import get_logger
from pykubelet.api.certificates import (
    APPROVED,
    CLIENT_AUTH,
    DENIED,
    DIGITAL_SIGNATURE,
    FAILED,
    KEY_ENCIPHERMENT,
    KUBELET_CLIENT_SIGNER,
    KUBELET_SERVING_SIGNER,
    NODE_PREFIX,
    NODES_GROUP,
    SERVER_AUTH,
    RequestError,
    parse_request,
)
from pykubelet.api.errors import AlreadyExists, ApiError, Forbidden, Unauthorized
from pykubelet.api.generated.certificates import CertificateSigningRequest, CertificateSigningRequestSpec
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import CERTIFICATE_SIGNING_REQUESTS
from pykubelet.client.certificates.store import PrivateKey
from pykubelet.client.interface import Reader, Selection, Watcher, Writer


class RequestRefused(Exception):
    """There will be no certificate; the message says why."""


def issued_certificate(request: CertificateSigningRequest, uid: str) -> bytes | None:
    """The certificate as PEM; None while it is not decided or not signed, RequestRefused if it never will be."""
    name = request.metadata.name
    if request.metadata.uid != uid:
        raise RequestRefused(f"the certificate signing request {name} was deleted, and another made in its place")
    types = set()
    for condition in request.status.conditions:
        if condition.type in (DENIED, FAILED):
            what = "is denied" if condition.type == DENIED else "failed"
            why = f"reason: {condition.reason}, message: {condition.message}"
            raise RequestRefused(f"the certificate signing request {name} {what}, {why}")
        types.add(condition.type)
    return request.status.certificate or None if APPROVED in types else None


PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
_FILE_NAMES = {KUBELET_CLIENT_SIGNER: "kubelet-client", KUBELET_SERVING_SIGNER: "kubelet-server"}
_PURPOSES = {KUBELET_CLIENT_SIGNER: CLIENT_AUTH, KUBELET_SERVING_SIGNER: SERVER_AUTH}


@dataclass(frozen=True, slots=True)
class CertificateTemplate:
    """A certificate that is wanted: by whom, from which signer, for which host names and addresses."""

    signer: str
    user: str
    names: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """What the files of such a certificate begin with."""
        return _FILE_NAMES[self.signer]


def client_template(node_name: str) -> CertificateTemplate:
    """The certificate by which API servers know the node."""
    return CertificateTemplate(KUBELET_CLIENT_SIGNER, NODE_PREFIX + node_name)


def serving_template(node_name: str, names: Iterable[str]) -> CertificateTemplate:
    """The certificate by which others know the node's own API, under its host names and addresses."""
    return CertificateTemplate(
        KUBELET_SERVING_SIGNER, NODE_PREFIX + node_name, tuple(sorted({name for name in names if name}))
    )


def usages(wish: CertificateTemplate, key: PublicKey) -> tuple[str, ...]:
    """What the key will do; only RSA keys encipher other keys."""
    encipher = (KEY_ENCIPHERMENT,) if isinstance(key, rsa.RSAPublicKey) else ()
    return (DIGITAL_SIGNATURE, *encipher, _PURPOSES[wish.signer])


def unsigned_request(wish: CertificateTemplate) -> x509.CertificateSigningRequestBuilder:
    """The request, to be signed with the key it is for."""
    names = [general_name(name) for name in wish.names]
    builder = x509.CertificateSigningRequestBuilder().subject_name(_subject(wish))
    return builder.add_extension(x509.SubjectAlternativeName(names), critical=False) if names else builder


def request_object(
    wish: CertificateTemplate, key: PublicKey, pem: bytes, *, name: str = ""
) -> CertificateSigningRequest:
    """The object to create; without a name the server makes one up."""
    metadata = ObjectMeta(name=name) if name else ObjectMeta(generate_name="csr-")
    spec = CertificateSigningRequestSpec(request=pem, signer_name=wish.signer, usages=usages(wish, key))
    return CertificateSigningRequest(metadata=metadata, spec=spec)


def stable_request_name(wish: CertificateTemplate, key: PublicKey) -> str:
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


def is_request_for(found: CertificateSigningRequest, wish: CertificateTemplate, key: PublicKey, now: datetime) -> bool:
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


def satisfies(certificate: x509.Certificate, wish: CertificateTemplate) -> bool:
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


def _subject(wish: CertificateTemplate) -> x509.Name:
    group = x509.NameAttribute(NameOID.ORGANIZATION_NAME, NODES_GROUP)
    return x509.Name([group, x509.NameAttribute(NameOID.COMMON_NAME, wish.user)])


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


log = get_logger(__name__)

_RETRY_SECONDS = 1.0


class CsrClient(Reader, Writer, Watcher, Protocol):
    """The part of a client that is needed."""


def new_key() -> ec.EllipticCurvePrivateKey:
    """A fresh key, of the curve that kubelets use."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: PrivateKey) -> bytes:
    """A private key as text, as kubelets write it: a secret."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


async def request_certificate(
    client: CsrClient, wish: CertificateTemplate, key: PrivateKey
) -> CertificateSigningRequest:
    """Make a request."""
    return await client.create(CERTIFICATE_SIGNING_REQUESTS, _body(wish, key))


async def request_certificate_once(
    client: CsrClient, wish: CertificateTemplate, key: PrivateKey, *, now: datetime
) -> CertificateSigningRequest:
    """Make a request, or use the one that was made for this key before, if that is still of use."""
    body = _body(wish, key, name=stable_request_name(wish, key.public_key()))
    try:
        return await client.create(CERTIFICATE_SIGNING_REQUESTS, body)
    except AlreadyExists:
        found = await client.get(CERTIFICATE_SIGNING_REQUESTS, body.metadata.name)
    return found if is_request_for(found, wish, key.public_key(), now) else await request_certificate(client, wish, key)


def _body(wish: CertificateTemplate, key: PrivateKey, *, name: str = "") -> CertificateSigningRequest:
    pem = unsigned_request(wish).sign(key, SHA256()).public_bytes(Encoding.PEM)
    return request_object(wish, key.public_key(), pem, name=name)


async def wait_for_certificate(client: CsrClient, request: CertificateSigningRequest) -> bytes:
    """The certificate, however long it takes; failures that may pass are waited out."""
    uid = request.metadata.uid
    certificate = issued_certificate(request, uid)
    while certificate is None:
        try:
            certificate = await _next_outcome(client, request.metadata.name, uid)
        except (Unauthorized, Forbidden):
            raise
        except ApiError as error:
            log.debug("the certificate request cannot be followed at the moment", error=error)
        if certificate is None:
            await asyncio.sleep(_RETRY_SECONDS)
    return certificate


async def _next_outcome(client: CsrClient, name: str, uid: str) -> bytes | None:
    """The certificate once it is there; None when the watch has ended before that."""
    selection = Selection(fields=f"metadata.name={name}")
    listing = await client.list(CERTIFICATE_SIGNING_REQUESTS, selection=selection)
    if not listing.items:
        raise RequestRefused(f"the certificate signing request {name} was deleted")
    if found := issued_certificate(listing.items[0], uid):
        return found
    revision = listing.resource_version
    async with client.watch(CERTIFICATE_SIGNING_REQUESTS, selection=selection, resource_version=revision) as events:
        async for event in events:
            if event.type == "DELETED":
                raise RequestRefused(f"the certificate signing request {name} was deleted")
            if event.object is not None and (found := issued_certificate(event.object, uid)):
                return found
    return None
