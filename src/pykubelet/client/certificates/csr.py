"""Certificate signing requests of a node: what to request, creating it, waiting for the result.

A `CertificateTemplate` says for whom, from which signer and for which names. `wait_for_certificate` returns the
certificate as PEM; RequestRefused if the request was denied or failed.

Upstream: staging/src/k8s.io/client-go/util/certificate/csr/csr.go, pkg/kubelet/certificate/kubelet.go,
pkg/kubelet/certificate/bootstrap/bootstrap.go
"""

import asyncio
import base64
import hashlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

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
from pykubelet.client.interface import Client, Selection

log = get_logger(__name__)

PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
_FILE_NAMES = {KUBELET_CLIENT_SIGNER: "kubelet-client", KUBELET_SERVING_SIGNER: "kubelet-server"}
_PURPOSES = {KUBELET_CLIENT_SIGNER: CLIENT_AUTH, KUBELET_SERVING_SIGNER: SERVER_AUTH}
_RETRY_SECONDS = 1.0


class RequestRefused(Exception):
    """The request was denied, failed or was replaced; there will be no certificate."""


def issued_certificate(request: CertificateSigningRequest, uid: str) -> bytes | None:
    """The certificate as PEM; None while it is pending, RequestRefused if it will never be issued."""
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


@dataclass(frozen=True, slots=True)
class CertificateTemplate:
    """The requested certificate: user, signer, host names and addresses."""

    signer: str
    user: str
    names: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """The prefix of the certificate's file names."""
        return _FILE_NAMES[self.signer]


def client_template(node_name: str) -> CertificateTemplate:
    return CertificateTemplate(KUBELET_CLIENT_SIGNER, NODE_PREFIX + node_name)


def serving_template(node_name: str, names: Iterable[str]) -> CertificateTemplate:
    """The serving certificate of a node's API for these host names and addresses."""
    return CertificateTemplate(
        KUBELET_SERVING_SIGNER, NODE_PREFIX + node_name, tuple(sorted({name for name in names if name}))
    )


def usages(template: CertificateTemplate, key: PublicKey) -> tuple[str, ...]:
    """The key usages of the certificate; only RSA keys encipher other keys."""
    encipher = (KEY_ENCIPHERMENT,) if isinstance(key, rsa.RSAPublicKey) else ()
    return (DIGITAL_SIGNATURE, *encipher, _PURPOSES[template.signer])


def unsigned_request(template: CertificateTemplate) -> x509.CertificateSigningRequestBuilder:
    """The PKCS #10 request, not yet signed with its key."""
    names = [general_name(name) for name in template.names]
    builder = x509.CertificateSigningRequestBuilder().subject_name(_subject(template))
    return builder.add_extension(x509.SubjectAlternativeName(names), critical=False) if names else builder


def request_object(
    template: CertificateTemplate, key: PublicKey, pem: bytes, *, name: str = ""
) -> CertificateSigningRequest:
    """The CertificateSigningRequest to create; without a name the server generates one."""
    metadata = ObjectMeta(name=name) if name else ObjectMeta(generate_name="csr-")
    spec = CertificateSigningRequestSpec(request=pem, signer_name=template.signer, usages=usages(template, key))
    return CertificateSigningRequest(metadata=metadata, spec=spec)


def stable_request_name(template: CertificateTemplate, key: PublicKey) -> str:
    """A name that is the same for the same template and key, so that a restarted node reuses its request."""
    parts = (
        key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        template.user.encode(),
        NODES_GROUP.encode(),
        # Upstream appends this usage here, but its certificate manager has it in the middle.
        *(usage.encode() for usage in sorted(usages(template, key), key=KEY_ENCIPHERMENT.__eq__)),
    )
    # The separator is not in the base64 alphabet, so the parts cannot be confused.
    text = b"".join(_base64(part) + b"|" for part in parts)
    return f"node-csr-{_base64(hashlib.new('sha512_256', text).digest()).decode()}"


def is_request_for(
    found: CertificateSigningRequest, template: CertificateTemplate, key: PublicKey, now: datetime
) -> bool:
    """Whether an earlier request can be reused: same subject, signer and key, certificate not expired."""
    try:
        request, issued = parse_request(found.spec.request or b""), found.status.certificate
        if issued and x509.load_pem_x509_certificate(issued).not_valid_after_utc < now:
            return False
        return (
            request.subject == _subject(template)
            and request.public_key() == key
            and found.spec.signer_name == template.signer
        )
    except (RequestError, ValueError):
        return False


def satisfies(certificate: x509.Certificate, template: CertificateTemplate) -> bool:
    """Whether a certificate has everything in the template; it may have more."""
    held = {(attribute.oid, attribute.value) for attribute in certificate.subject}
    if not {(attribute.oid, attribute.value) for attribute in _subject(template)} <= held:
        return False
    try:
        names = set(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (x509.ExtensionNotFound, ValueError):
        names = set()
    return {general_name(name) for name in template.names} <= names


def general_name(name: str) -> x509.GeneralName:
    """A host name or an address as a subject alternative name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _subject(template: CertificateTemplate) -> x509.Name:
    group = x509.NameAttribute(NameOID.ORGANIZATION_NAME, NODES_GROUP)
    return x509.Name([group, x509.NameAttribute(NameOID.COMMON_NAME, template.user)])


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new private key, on the curve that kubelets use."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: PrivateKey) -> bytes:
    """A private key as PEM, in the kubelet's format; a secret."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


async def request_certificate(
    client: Client, template: CertificateTemplate, key: PrivateKey
) -> CertificateSigningRequest:
    """Create a request with a generated name."""
    return await client.create(CERTIFICATE_SIGNING_REQUESTS, _body(template, key))


async def request_certificate_once(
    client: Client, template: CertificateTemplate, key: PrivateKey, *, now: datetime
) -> CertificateSigningRequest:
    """Create a request, or reuse the earlier one for this key if it is still usable."""
    body = _body(template, key, name=stable_request_name(template, key.public_key()))
    try:
        return await client.create(CERTIFICATE_SIGNING_REQUESTS, body)
    except AlreadyExists:
        found = await client.get(CERTIFICATE_SIGNING_REQUESTS, body.metadata.name)
    return (
        found
        if is_request_for(found, template, key.public_key(), now)
        else await request_certificate(client, template, key)
    )


def _body(template: CertificateTemplate, key: PrivateKey, *, name: str = "") -> CertificateSigningRequest:
    pem = unsigned_request(template).sign(key, SHA256()).public_bytes(Encoding.PEM)
    return request_object(template, key.public_key(), pem, name=name)


async def wait_for_certificate(client: Client, request: CertificateSigningRequest) -> bytes:
    """Wait for the certificate without a time limit; temporary failures are retried."""
    uid = request.metadata.uid
    certificate = issued_certificate(request, uid)
    while certificate is None:
        try:
            certificate = await _next_outcome(client, request.metadata.name, uid)
        except (Unauthorized, Forbidden):
            raise
        except ApiError as error:
            log.debug("watch of the certificate request failed, trying again", error=error)
        if certificate is None:
            await asyncio.sleep(_RETRY_SECONDS)
    return certificate


async def _next_outcome(client: Client, name: str, uid: str) -> bytes | None:
    """The certificate once it is issued; None when the watch ended before that."""
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
