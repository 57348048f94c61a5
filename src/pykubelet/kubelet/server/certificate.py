"""The kubelet's serving certificate and its TLS context.

Without a certificate of its own a kubelet creates a self-signed one and renews it before it expires.

Upstream: pkg/kubelet/server/server.go, cmd/kubelet/app/server.go
"""

import asyncio
import ipaddress
import os
import ssl
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.client.transport import CredentialError, PemSource, pem_text
from pykubelet.httpserver.listener import serving_context

log = get_logger(__name__)

_LIFETIME = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=120)
# The clocks of clients may be behind.
_SKEW = timedelta(hours=1)
_CHECK_SECONDS = 12 * 3600.0


class ServingError(ValueError):
    """A file cannot be used for TLS; the message names it, but not its content."""


class ServingFiles(NamedTuple):
    certificate: Path
    key: Path


def server_context(files: ServingFiles, client_authority: PemSource | None) -> ssl.SSLContext:
    """The TLS context. Client certificates are optional; invalid ones are rejected."""
    context = serving_context()
    try:
        context.load_cert_chain(*files)
    except (OSError, ssl.SSLError) as error:
        raise ServingError(f"{files.certificate} and {files.key} cannot be used for TLS: {error}") from error
    if client_authority is not None:
        try:
            context.load_verify_locations(cadata=pem_text(client_authority).decode())
        except (CredentialError, ValueError, ssl.SSLError) as error:
            named = client_authority.path or client_authority.setting
            raise ServingError(f"{named} cannot be used for TLS: {error}") from error
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def self_signed_certificate(directory: Path, names: Iterable[str], now: datetime) -> ServingFiles:
    """The self-signed certificate for these host names and addresses, created if the directory has no valid one."""
    files = ServingFiles(directory / "kubelet.crt", directory / "kubelet.key")
    wanted = {_general(name) for name in names}
    if not _is_usable(files, wanted, now):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        _write(files.key, pem, mode=0o600)
        certificate = _self_signed(key, sorted(wanted, key=str), now)
        _write(files.certificate, certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)
    return files


class SelfSignedRenewal:
    """Renews the self-signed certificate; `changed` receives the new files."""

    def __init__(
        self, directory: Path, names: Sequence[str], *, changed: Callable[[Path, Path], None], clock: Clock
    ) -> None:
        self._directory, self._names, self._changed, self._clock = directory, names, changed, clock

    async def run(self, ready: asyncio.Event) -> None:
        """Check twice a day until cancelled."""
        ready.set()
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            await self.check()

    async def check(self) -> None:
        """Renew the certificate if it is old; a failure is logged and tried again later."""
        try:
            files = await asyncio.to_thread(self_signed_certificate, self._directory, self._names, self._clock.now())
            self._changed(*files)
        except OSError as error:
            log.warning("self-signed certificate not renewed", cause=str(error))


def _self_signed(key: ec.EllipticCurvePrivateKey, names: list[x509.GeneralName], now: datetime) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubelet")])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )


def _is_usable(files: ServingFiles, names: set[x509.GeneralName], now: datetime) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        key = serialization.load_pem_private_key(files.key.read_bytes(), password=None)
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        # An unreadable certificate is replaced.
        return False
    is_young = certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - _RENEW_BEFORE
    return is_young and certificate.public_key() == key.public_key() and names <= set(named)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(path: Path, content: bytes, *, mode: int) -> None:
    """Create a file with its final mode, so that it is never readable by others."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    draft.replace(path)
