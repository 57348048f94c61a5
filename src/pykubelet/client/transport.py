"""Credentials and TLS of a client: tokens, client certificates, SSL contexts, and its `RestConfig`.

Files are read again when they change, and at once after the server rejected their content; new connections use the new
certificate. Key material is never written to disk.

Upstream: staging/src/k8s.io/client-go/transport/transport.go, staging/src/k8s.io/client-go/transport/cert_rotation.go,
staging/src/k8s.io/client-go/transport/token_source.go, staging/src/k8s.io/client-go/transport/round_trippers.go,
staging/src/k8s.io/client-go/rest/config.go
"""

import asyncio
import base64
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger

log = get_logger(__name__)

RECHECK_SECONDS = 10.0
"""Certificates are renewed hours before they expire, so rare checks are enough."""
_Stamp = tuple[tuple[int, int, int], ...]


class CredentialError(Exception):
    """Credentials are unavailable; the message names file and field, never a secret."""


@dataclass(frozen=True, slots=True)
class PemSource:
    """A PEM text: inline, or the path of its file. `setting` says where it was configured."""

    setting: str
    path: str = ""
    data: bytes = field(default=b"", repr=False)


class PemFiles:
    """PEM texts that belong together, such as a certificate and its key."""

    def __init__(self, *pems: PemSource, clock: Clock) -> None:
        self._pems, self._clock = pems, clock
        self._texts: tuple[bytes, ...] | None = None
        self._stamp: _Stamp = ()
        self._checked_at = float("-inf")

    async def read(self) -> tuple[bytes, ...]:
        """The texts, at most a few seconds old; CredentialError if a file was never readable.

        Returns the same tuple until a text changes.
        """
        now = self._clock.monotonic()
        if self._texts is not None and now - self._checked_at < RECHECK_SECONDS:
            return self._texts
        self._checked_at = now
        try:
            stamp, texts = await asyncio.to_thread(self._read_if_changed)
        except CredentialError as error:
            if self._texts is None:
                raise
            log.warning("certificate file unreadable, keeping the last one", error=error)
            return self._texts
        if texts is not None:
            self._stamp, self._texts = stamp, texts
        assert self._texts is not None
        return self._texts

    def read_again(self) -> None:
        """Force the next `read` to check the files."""
        self._checked_at = float("-inf")

    def _read_if_changed(self) -> tuple[_Stamp, tuple[bytes, ...] | None]:
        # Stamps are taken before reading: a file replaced in between differs again at the next check.
        stamp = tuple(_stamp(pem) for pem in self._pems)
        if self._texts is not None and stamp == self._stamp:
            return stamp, None
        texts = tuple(pem_text(pem) for pem in self._pems)
        return stamp, (self._texts if texts == self._texts else texts)


def _stamp(pem: PemSource) -> tuple[int, int, int]:
    if not pem.path:
        return (0, 0, 0)
    try:
        found = Path(pem.path).stat()
    except OSError as error:
        raise CredentialError(f"{pem.setting}: cannot read {pem.path}: {error.strerror}") from error
    return (found.st_mtime_ns, found.st_ino, found.st_size)


def pem_text(pem: PemSource) -> bytes:
    """The PEM text; CredentialError if its file cannot be read."""
    if not pem.path:
        return pem.data
    try:
        return Path(pem.path).read_bytes()
    except OSError as error:
        raise CredentialError(f"{pem.setting}: cannot read {pem.path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class ClientKeyPair:
    """A client certificate (with its chain) and its private key, as PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ServerTrust:
    """How to verify the server. Without `ca`, the system's authorities decide."""

    ca: PemSource | None = None
    server_name: str = ""
    insecure: bool = False


class TlsContexts:
    """The SSL context for new connections to one server."""

    def __init__(self, trust: ServerTrust, *, clock: Clock) -> None:
        self._trust = trust
        self._ca = PemFiles(*([trust.ca] if trust.ca else []), clock=clock)
        self._built_from: tuple[tuple[bytes, ...], ClientKeyPair | None] | None = None
        self._context: ssl.SSLContext | None = None

    async def current(self, pair: ClientKeyPair | None) -> ssl.SSLContext:
        """The context for this key pair; the last valid one while certificate and key do not match."""
        wanted = (await self._ca.read(), pair)
        if self._context is not None and wanted == self._built_from:
            return self._context
        try:
            context = await asyncio.to_thread(_context, self._trust, *wanted)
        except CredentialError as error:
            if self._context is None:
                raise
            # A certificate and its key are two files, never replaced in one step.
            log.warning("new certificate unusable, keeping the last one", error=error)
            self._built_from = wanted
            return self._context
        self._built_from, self._context = wanted, context
        return context


def _context(trust: ServerTrust, ca: tuple[bytes, ...], pair: ClientKeyPair | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if trust.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif trust.ca:
        _load_authorities(context, trust.ca.setting, b"".join(ca))
    else:
        context.load_default_certs()
    if pair:
        _load_pair(context, pair)
    return context


def _load_authorities(context: ssl.SSLContext, setting: str, ca: bytes) -> None:
    try:
        context.load_verify_locations(cadata=ca.decode("ascii", errors="replace"))
    except (ssl.SSLError, ValueError) as error:
        raise CredentialError(f"{setting}: no usable PEM certificate") from error


def _load_pair(context: ssl.SSLContext, pair: ClientKeyPair) -> None:
    """Load the pair into OpenSSL, which reads only from paths, through a memory file."""
    memory = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        with os.fdopen(memory, "wb", closefd=False) as file:
            file.write(pair.certificate + b"\n" + pair.key)
        # Without an empty password OpenSSL would prompt for one on the terminal.
        context.load_cert_chain(f"/proc/self/fd/{memory}", password="")
    except (ssl.SSLError, OSError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) and error.reason else type(error).__name__
        raise CredentialError(f"the client certificate and its key cannot be used: {reason}") from error
    finally:
        os.close(memory)


TOKEN_SECONDS = 60.0
"""A projected service account token is valid for at least ten minutes and is renewed two minutes before it expires."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential of one request: an Authorization header, a client certificate, both or neither."""

    authorization: str = field(default="", repr=False)
    pair: ClientKeyPair | None = None


class ClientCredentials(Protocol):
    """Supplies the credential of each request."""

    async def current(self) -> Credential:
        """The current credential; CredentialError if there is none."""

    async def rejected(self, credential: Credential) -> None:
        """The server answered 401: the next `current` must read its files or run its plugin again."""


def bearer(token: str) -> str:
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """The Authorization header of a user name and password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class TokenFile:
    """A token in a file that another program renews."""

    def __init__(self, path: str, *, setting: str, clock: Clock, fallback: str = "") -> None:
        """`fallback` is used until the file could be read; `setting` says where the path was configured."""
        self._path, self._setting, self._clock = path, setting, clock
        self._token = fallback
        self._read_at = float("-inf")

    async def token(self) -> str:
        """The token, at most a minute old; the last valid one while the file cannot be read."""
        now = self._clock.monotonic()
        if now - self._read_at >= TOKEN_SECONDS:
            try:
                self._token = await asyncio.to_thread(self._read)
                self._read_at = now
            except CredentialError as error:
                if not self._token:
                    raise
                log.warning("token file unreadable, keeping the last token", error=error)
        return self._token

    def read_again(self) -> None:
        """Force the next `token` to read the file."""
        self._read_at = float("-inf")

    def _read(self) -> str:
        try:
            token = Path(self._path).read_text().strip()
        except (OSError, ValueError) as error:
            raise CredentialError(f"{self._setting}: cannot read {self._path}: {_cause(error)}") from error
        if not token:
            raise CredentialError(f"{self._setting}: {self._path} is empty")
        return token


class UserCredentials:
    """Credentials of a kubeconfig user without a plugin: inline or from files; anonymous if nothing is given."""

    def __init__(
        self, *, authorization: str = "", token_file: TokenFile | None = None, pair: PemFiles | None = None
    ) -> None:
        """`pair` holds certificate and key, in this order. The token file takes precedence over `authorization`."""
        self._authorization, self._token_file, self._pair = authorization, token_file, pair
        self._last_pair: ClientKeyPair | None = None

    async def current(self) -> Credential:
        authorization = bearer(await self._token_file.token()) if self._token_file else self._authorization
        if self._pair is None:
            return Credential(authorization)
        certificate, key = await self._pair.read()
        if self._last_pair is None or (self._last_pair.certificate, self._last_pair.key) != (certificate, key):
            self._last_pair = ClientKeyPair(certificate, key)
        return Credential(authorization, self._last_pair)

    async def rejected(self, credential: Credential) -> None:  # noqa: ARG002  the files are read again in any case
        if self._token_file:
            self._token_file.read_again()
        if self._pair:
            self._pair.read_again()


class RotatingCertificate:
    """The credentials of a kubeconfig, until a renewed certificate replaces them."""

    def __init__(self, given: ClientCredentials, *, clock: Clock) -> None:
        self._given, self._clock = given, clock
        self._renewed: UserCredentials | None = None

    def use(self, path: Path) -> None:
        """Use the certificate and key in this file from now on, also when it is replaced."""
        pem = PemSource("the node's client certificate", path=str(path))
        self._renewed = UserCredentials(pair=PemFiles(pem, pem, clock=self._clock))

    async def current(self) -> Credential:
        return await (self._renewed or self._given).current()

    async def rejected(self, credential: Credential) -> None:
        await (self._renewed or self._given).rejected(credential)


def _cause(error: Exception) -> str:
    """The cause of an error without anything of the file's content."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "it is not text"


@dataclass(frozen=True, slots=True)
class RestConfig:
    """How to reach an API server. `server` is an http or https URL, possibly with a path."""

    server: str
    credentials: ClientCredentials
    trust: ServerTrust = field(default_factory=ServerTrust)
    namespace: str = "default"
