"""Keys, certificates and requests for tests."""

from datetime import datetime, timedelta
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from pykubelet.api.generated.certificates import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from pykubelet.client.certificates.csr import (
    CertificateTemplate,
    client_template,
    new_key,
    request_object,
    unsigned_request,
    usages,
)
from pykubelet.controllers.certificates.signer import CertificateAuthority, sign_certificate

NOW = datetime.fromisoformat("2026-05-01T12:00:00+00:00")
YEAR = timedelta(days=365)


def a_key(number: int = 0) -> ec.EllipticCurvePrivateKey:
    """The same key for the same number."""
    return _key(number)


@cache
def _key(_number: int) -> ec.EllipticCurvePrivateKey:
    return new_key()


@cache
def an_authority() -> CertificateAuthority:
    key, name = a_key(1000), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW - YEAR).not_valid_after(NOW + 10 * YEAR)
    return CertificateAuthority(builder.sign(key, SHA256()), key)


def request_pem(wish: CertificateTemplate, key: ec.EllipticCurvePrivateKey) -> bytes:
    return unsigned_request(wish).sign(key, SHA256()).public_bytes(Encoding.PEM)


def certificate_pem(
    wish: CertificateTemplate, *, at: datetime = NOW, seconds: int | None = None, key: int = 0
) -> bytes:
    """A certificate that our signer issues for a template."""
    request, uses = x509.load_pem_x509_csr(request_pem(wish, a_key(key))), usages(wish, a_key(key).public_key())
    return sign_certificate(request, uses, authority=an_authority(), now=at, seconds=seconds)


def a_request(
    *conditions: str,
    wish: CertificateTemplate | None = None,
    certificate: bytes | None = None,
    changed: str | None = None,
) -> CertificateSigningRequest:
    """A CertificateSigningRequest with conditions of these types."""
    wish = wish or client_template("n1")
    made = request_object(wish, a_key().public_key(), request_pem(wish, a_key()), name="csr-1")
    listed = tuple(
        CertificateSigningRequestCondition(type=type, status="True", reason="Why", last_update_time=changed)
        for type in conditions
    )
    return CertificateSigningRequest(
        metadata=made.metadata,
        spec=made.spec,
        status=CertificateSigningRequestStatus(conditions=listed, certificate=certificate),
    )
