"""Issues certificates for servers and clients, and writes files with secrets.

Keys are P-256, which signs ten times faster than RSA.

Upstream: cmd/kubeadm/app/util/pkiutil/pki_helpers.go, staging/src/k8s.io/client-go/util/cert/cert.go
"""

import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3650
ISSUED_DAYS = 365
# Renewed when a third of the lifetime is left, as a kubelet does.
_RENEW_AT = 2 / 3
# Clients' clocks may be slow.
_SKEW = timedelta(minutes=5)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class CertificateKeyPair:
    certificate: x509.Certificate
    key: PrivateKey = field(repr=False)

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return key_pem(self.key)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: PrivateKey) -> bytes:
    """Encodes a private key as PEM: a secret."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def read_key(pem: bytes) -> PrivateKey:
    """Parses a PEM private key; ValueError if it is missing or of another kind."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise ValueError("the private key is encrypted") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError("the private key is neither an RSA nor an elliptic curve key")  # noqa: TRY004  bad content
    return key


def make_authority(key: PrivateKey, now: datetime) -> CertificateKeyPair:
    """Makes a CA certificate for this key. A new one for the same key validates everything that the old one issued."""
    name = _name("kubernetes", ())
    builder = _builder(name, name, key, now, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return CertificateKeyPair(builder.sign(key, hashes.SHA256()), key)


def issue_server(authority: CertificateKeyPair, names: Iterable[str], now: datetime) -> CertificateKeyPair:
    """Issues a certificate for a server with these DNS names and IP addresses."""
    builder, key = _issued(authority, _name("kube-apiserver", ()), ExtendedKeyUsageOID.SERVER_AUTH, now)
    builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
    return CertificateKeyPair(builder.sign(authority.key, hashes.SHA256()), key)


def issue_client(authority: CertificateKeyPair, user: str, groups: Iterable[str], now: datetime) -> CertificateKeyPair:
    """Issues a certificate that authenticates a user and its groups."""
    builder, key = _issued(authority, _name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, now)
    return CertificateKeyPair(builder.sign(authority.key, hashes.SHA256()), key)


def is_fresh(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether the certificate does not need to be renewed yet."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return start <= now < start + (end - start) * _RENEW_AT


def belongs(pair: CertificateKeyPair, authority: CertificateKeyPair) -> bool:
    """Whether certificate and key match, and the CA issued them."""
    if pair.certificate.public_key() != pair.key.public_key():
        return False
    try:
        pair.certificate.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def server_names(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = names.get_values_for_type(x509.IPAddress)
    return {*names.get_values_for_type(x509.DNSName), *map(str, addresses)}


def _issued(
    authority: CertificateKeyPair, subject: x509.Name, purpose: x509.ObjectIdentifier, now: datetime
) -> tuple[x509.CertificateBuilder, ec.EllipticCurvePrivateKey]:
    key = new_key()
    builder = _builder(subject, authority.certificate.subject, key, now, ISSUED_DAYS)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    return builder.add_extension(issuer, critical=False), key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str, organizations: Iterable[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def write_private(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replaces a file atomically. The file has its mode from the start and is on disk on return."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            # The umask may have cleared bits of the mode.
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
