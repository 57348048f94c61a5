"""Signs approved CertificateSigningRequests of nodes.

Subject, alternative names and key come from the request, usages from its spec; nothing else of it enters the
certificate. A request that violates its signer's rules gets the condition Failed.

Upstream: pkg/controller/certificates/signer/signer.go, pkg/controller/certificates/authority/authority.go,
pkg/controller/certificates/authority/policies.go
"""

import asyncio
import base64
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.certificates import (
    CLIENT_AUTH,
    DIGITAL_SIGNATURE,
    FAILED,
    KEY_ENCIPHERMENT,
    SERVER_AUTH,
    signed_request,
)
from pykubelet.api.generated.certificates import CertificateSigningRequest
from pykubelet.api.scheme import CERTIFICATE_SIGNING_REQUESTS
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.interface import Client, PatchType
from pykubelet.controllers.certificates.certificate_controller import (
    CertificateController,
    csr_problem,
    is_to_sign,
    status_patch,
    with_condition,
)

log = get_logger(__name__)
LIFE = timedelta(days=365)
"""Upstream's default of --cluster-signing-duration."""
_SHORTEST = timedelta(minutes=10)
# Certificates are backdated for clock skew; long-lived ones end earlier by as much.
_BACKDATE, _SHORT = timedelta(minutes=5), timedelta(hours=8)
_PURPOSES = {CLIENT_AUTH: ExtendedKeyUsageOID.CLIENT_AUTH, SERVER_AUTH: ExtendedKeyUsageOID.SERVER_AUTH}


class AuthorityExpired(Exception):
    """The certificate of the signing authority has expired."""


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """The certificate and private key that sign."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = field(repr=False)


class CertificateSigner(CertificateController):
    """Signs requests, by name."""

    def __init__(
        self,
        *,
        client: Client,
        requests: ObjectIndex[CertificateSigningRequest],
        authority: CertificateAuthority,
        clock: Clock,
        longest: timedelta = LIFE,
    ) -> None:
        super().__init__(requests)
        self._client, self._authority, self._clock, self._longest = client, authority, clock, longest

    async def sync(self, name: str) -> None:
        request = self._request(name)
        if request is None or not is_to_sign(request):
            return
        if problem := csr_problem(request):
            conditions = with_condition(request, FAILED, "SignerValidationFailure", problem)
            patch = status_patch(request, conditions=conditions)
        else:
            pem = await asyncio.to_thread(self._signed, request, self._clock.now())
            patch = status_patch(request, certificate=base64.b64encode(pem).decode())
        await self._client.patch(
            CERTIFICATE_SIGNING_REQUESTS, name, patch, patch_type=PatchType.MERGE, subresource="status"
        )
        log.info("certificate request signed" if not problem else "certificate request failed", request=name)

    def _signed(self, request: CertificateSigningRequest, now: datetime) -> bytes:
        spec = request.spec
        return sign_certificate(
            signed_request(spec.request or b""),
            spec.usages,
            authority=self._authority,
            now=now,
            seconds=spec.expiration_seconds,
            longest=self._longest,
        )


def sign_certificate(
    request: x509.CertificateSigningRequest,
    usages: Collection[str],
    *,
    authority: CertificateAuthority,
    now: datetime,
    seconds: int | None = None,
    longest: timedelta = LIFE,
) -> bytes:
    """Returns the certificate as PEM, valid as long as requested within `longest` and the authority's expiry."""
    last = authority.certificate.not_valid_after_utc
    if now >= last:
        raise AuthorityExpired(f"the signer has expired: NotAfter={last}")
    builder = (
        x509.CertificateBuilder()
        .subject_name(request.subject)
        .issuer_name(authority.certificate.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(min(_end(now, certificate_lifetime(seconds, longest)), last))
        .add_extension(_key_usage(usages), critical=True)
        .add_extension(x509.ExtendedKeyUsage([_PURPOSES[use] for use in usages if use in _PURPOSES]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        builder = builder.add_extension(names.value, critical=False)
    except x509.ExtensionNotFound:
        pass
    return builder.sign(authority.key, SHA256()).public_bytes(Encoding.PEM)


def certificate_lifetime(seconds: int | None, longest: timedelta) -> timedelta:
    """The requested lifetime within the limits; `longest` if none was requested."""
    return longest if seconds is None else min(max(timedelta(seconds=seconds), _SHORTEST), longest)


def _end(now: datetime, length: timedelta) -> datetime:
    return now + length if length < _SHORT else now + length - _BACKDATE


def _key_usage(usages: Collection[str]) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=DIGITAL_SIGNATURE in usages,
        key_encipherment=KEY_ENCIPHERMENT in usages,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
