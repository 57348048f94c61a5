"""Asks an API server for a certificate and waits until it is issued or refused.

In: a wish and the key it is for. Out: the certificate as PEM; RequestRefused if it was denied, an ApiError if the
request could not be made.

Upstream: client-go/util/certificate/csr/csr.go
"""

import asyncio
from datetime import datetime
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from pykubelet.aio.log import get_logger
from pykubelet.api.errors import AlreadyExists, ApiError, Forbidden, Unauthorized
from pykubelet.api.generated.certificates import CertificateSigningRequest
from pykubelet.api.typed import CERTIFICATE_SIGNING_REQUESTS
from pykubelet.kube.certificates.outcome import RequestRefused, issued_certificate
from pykubelet.kube.certificates.pair_files import PrivateKey
from pykubelet.kube.certificates.wish import Wish, is_request_for, lasting_name, request_object, unsigned_request
from pykubelet.kube.client import Reader, Selection, Watcher, Writer

log = get_logger(__name__)

_RETRY_SECONDS = 1.0


class Requests(Reader, Writer, Watcher, Protocol):
    """The part of a client that is needed."""


def new_key() -> ec.EllipticCurvePrivateKey:
    """A fresh key, of the curve that kubelets use."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: PrivateKey) -> bytes:
    """A private key as text, as kubelets write it: a secret."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


async def ask(client: Requests, wish: Wish, key: PrivateKey) -> CertificateSigningRequest:
    """Make a request."""
    return await client.create(CERTIFICATE_SIGNING_REQUESTS, _body(wish, key))


async def ask_once(client: Requests, wish: Wish, key: PrivateKey, *, now: datetime) -> CertificateSigningRequest:
    """Make a request, or use the one that was made for this key before, if that is still of use."""
    body = _body(wish, key, name=lasting_name(wish, key.public_key()))
    try:
        return await client.create(CERTIFICATE_SIGNING_REQUESTS, body)
    except AlreadyExists:
        found = await client.get(CERTIFICATE_SIGNING_REQUESTS, body.metadata.name)
    return found if is_request_for(found, wish, key.public_key(), now) else await ask(client, wish, key)


def _body(wish: Wish, key: PrivateKey, *, name: str = "") -> CertificateSigningRequest:
    pem = unsigned_request(wish).sign(key, SHA256()).public_bytes(Encoding.PEM)
    return request_object(wish, key.public_key(), pem, name=name)


async def wait_for_certificate(client: Requests, request: CertificateSigningRequest) -> bytes:
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


async def _next_outcome(client: Requests, name: str, uid: str) -> bytes | None:
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
