"""The server's keys and certificates: created at the first start, reused, and renewed in time.

Keys that cannot be read are an error and are never replaced. The server authenticates to nodes with its own client
certificate and accepts any certificate of theirs, as a kube-apiserver without --kubelet-certificate-authority does.
A node chooses its own address and could point it back at this server, so the user of that certificate has only the
rights to nodes (default_roles.txt).

Upstream: cmd/kubeadm/app/phases/certs/certs.go, pkg/kubelet/client/kubelet_client.go
"""

import asyncio
import ipaddress
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from cryptography import x509

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.apiserver.certs import certificates
from pykubelet.apiserver.certs.certificates import CertificateKeyPair, PrivateKey
from pykubelet.httpserver.listener import serving_context

log = get_logger(__name__)
_CLUSTER_NAMES = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
# A certificate of a year is renewed four months before its end, so checking twice a day suffices.
_CHECK_SECONDS = 12 * 3600.0
NAME = "kube-apiserver-kubelet-client"


@dataclass(frozen=True, slots=True)
class Pki:
    """The server's CA, its certificate, and the key that signs service account tokens."""

    directory: Path
    names: frozenset[str]
    authority: CertificateKeyPair
    serving: CertificateKeyPair
    signing_key: PrivateKey = field(repr=False)

    def client(self, user: str, groups: tuple[str, ...], now: datetime) -> CertificateKeyPair:
        return certificates.issue_client(self.authority, user, groups, now)


def open_pki(directory: Path, *, hosts: tuple[str, ...], now: datetime) -> Pki:
    """Opens the folder; creates and renews what is needed. `hosts` are the names and addresses of the server."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    names = frozenset((*_CLUSTER_NAMES, *filter(_is_reachable, hosts)))
    authority = _authority(directory, now)
    serving = _serving(directory, authority, names, now)
    signing_key = _key(directory / "sa.key")
    return Pki(directory, names, authority, serving, signing_key)


class PkiError(ValueError):
    """A key or certificate file cannot be used; the message names the file, never its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Files of the user's own: a serving certificate, and a CA whose client certificates are also accepted."""

    certificate: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None


def server_context(pki: Pki, files: TlsFiles = TlsFiles()) -> ssl.SSLContext:  # noqa: B008  a frozen value
    """The server's TLS context. Client certificates are optional; one of an unknown CA ends the handshake."""
    context = serving_context()
    context.load_verify_locations(cadata=pki.authority.certificate_pem.decode())
    if files.client_authority is not None:
        _load_for_tls(files.client_authority, lambda: context.load_verify_locations(files.client_authority))
    context.verify_mode = ssl.CERT_OPTIONAL
    if files.certificate is None:
        _load_own(context, pki.directory)
    else:
        _load_for_tls(files.certificate, lambda: context.load_cert_chain(str(files.certificate), files.key))
    return context


def serving_authority(pki: Pki, files: TlsFiles = TlsFiles()) -> bytes:  # noqa: B008  a frozen value
    """The CA certificates (PEM) that clients must trust."""
    return pki.authority.certificate_pem if files.certificate is None else files.certificate.read_bytes()


class Renewal:
    """Renews the server's certificate while it runs; new connections use the new one. The authority stays."""

    def __init__(self, pki: Pki, context: ssl.SSLContext, *, clock: Clock) -> None:
        self._pki, self._context, self._clock = pki, context, clock
        self._named = asyncio.Event()

    def add_name(self, name: str) -> None:
        """Has the certificate issued again, if need be, with a further name or address of the server."""
        self._pki = replace(self._pki, names=self._pki.names | {name})
        self._named.set()

    async def run(self, ready: asyncio.Event) -> None:
        """Checks the certificate periodically, and when the server gets a name, until cancelled."""
        ready.set()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_SECONDS):
                    await self._named.wait()
            self._named.clear()
            now, pki = self._clock.now(), self._pki
            current = pki.serving.certificate
            if certificates.is_fresh(current, now) and pki.names <= certificates.server_names(current):
                continue
            serving = await asyncio.to_thread(_serving, pki.directory, pki.authority, pki.names, now)
            self._pki = replace(self._pki, serving=serving)
            _load_own(self._context, pki.directory)
            log.info("serving certificate renewed", expires=serving.certificate.not_valid_after_utc)


def _authority(directory: Path, now: datetime) -> CertificateKeyPair:
    path, key_path = directory / "ca.crt", directory / "ca.key"
    if path.exists() and not key_path.exists():
        raise PkiError(f"{path} is there, but its key {key_path} is not")
    key = _key(key_path)
    if path.exists():
        pair = CertificateKeyPair(_certificate(path), key)
        if pair.certificate.public_key() != key.public_key():
            raise PkiError(f"{path} does not belong to {key_path}")
        if certificates.is_fresh(pair.certificate, now):
            return pair
    # The key stays, so that everything issued stays valid.
    pair = certificates.make_authority(key, now)
    certificates.write_private(path, pair.certificate_pem, mode=0o644)
    return pair


def _serving(
    directory: Path, authority: CertificateKeyPair, names: frozenset[str], now: datetime
) -> CertificateKeyPair:
    key_path, path = directory / "apiserver.key", directory / "apiserver.crt"
    try:
        pair = CertificateKeyPair(_certificate(path), _read_key(key_path))
        is_valid = certificates.belongs(pair, authority) and certificates.is_fresh(pair.certificate, now)
        if is_valid and names <= certificates.server_names(pair.certificate):
            return pair
    except (OSError, PkiError) as error:
        # The serving certificate can be replaced at any time.
        log.debug("serving certificate is issued again", error=error)
    pair = certificates.issue_server(authority, sorted(names), now)
    certificates.write_private(key_path, pair.key_pem)
    certificates.write_private(path, pair.certificate_pem, mode=0o644)
    return pair


def _key(path: Path) -> PrivateKey:
    """The key in a file, created if there is no file."""
    if not path.exists():
        certificates.write_private(path, certificates.key_pem(certificates.new_key()))
    return _read_key(path)


def _read_key(path: Path) -> PrivateKey:
    try:
        return certificates.read_key(path.read_bytes())
    except ValueError as error:
        raise PkiError(f"{path} holds no private key that can be used") from error


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError as error:
        raise PkiError(f"{path} holds no certificate: {error}") from error


def _load_own(context: ssl.SSLContext, directory: Path) -> None:
    context.load_cert_chain(directory / "apiserver.crt", directory / "apiserver.key")


def _load_for_tls(path: Path, load: Callable[[], None]) -> None:
    try:
        load()
    except (OSError, ssl.SSLError) as error:
        raise PkiError(f"{path} cannot be used for TLS: {error}") from error


def _is_reachable(host: str) -> bool:
    """Whether clients can use this host; wildcard addresses are not usable."""
    try:
        return not ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return bool(host)


def node_context(pki: Pki, clock: Clock) -> ssl.SSLContext:
    """The TLS context for connections to nodes, with a client certificate made for this run."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    pair = pki.client(NAME, (), clock.now())
    # OpenSSL reads only files; one in memory leaves no key on disk.
    with os.fdopen(os.memfd_create(NAME), "wb") as file:
        file.write(pair.certificate_pem + pair.key_pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context
