"""TLS contexts: whom to trust, and which client certificate to show.

In: the trust of a cluster and the key pair of the moment. Out: an `ssl.SSLContext`, a fresh one when either changed, so
that new connections show the new certificate. Key material touches no disk.

Upstream: client-go/transport/transport.go (TLSConfigFor).

PEM texts that may live in files, read again when a file changes.

In: where each text is. Out: the texts, the very same tuple until one of them changed. Files are replaced under a running
program (a node renews its client certificate), so they are looked at again by modification time.

Upstream: client-go/transport/cert_rotation.go.

The one error of everything that finds out who we are.
"""

import asyncio
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger


class CredentialError(Exception):
    """Credentials cannot be had; the message names file and field, never a secret."""


log = get_logger(__name__)

RECHECK_SECONDS = 10.0
"""Certificates are renewed hours before they expire: looking rarely is soon enough."""


@dataclass(frozen=True, slots=True)
class PemSource:
    """One text: given inline, or the path of its file. `setting` says where that was configured."""

    setting: str
    path: str = ""
    data: bytes = field(default=b"", repr=False)


_Stamp = tuple[tuple[int, int, int], ...]


class PemFiles:
    """A few texts that belong together, such as a certificate and its key."""

    def __init__(self, *pems: PemSource, clock: Clock) -> None:
        self._pems, self._clock = pems, clock
        self._texts: tuple[bytes, ...] | None = None
        self._stamp: _Stamp = ()
        self._checked_at = float("-inf")

    async def read(self) -> tuple[bytes, ...]:
        """The texts as of a few seconds ago; CredentialError if a file cannot be read and never could be."""
        now = self._clock.monotonic()
        if self._texts is not None and now - self._checked_at < RECHECK_SECONDS:
            return self._texts
        self._checked_at = now
        try:
            stamp, texts = await asyncio.to_thread(self._read_if_changed)
        except CredentialError as error:
            if self._texts is None:
                raise
            log.warning("a certificate file cannot be read again; the last one stays in use", error=error)
            return self._texts
        if texts is not None:
            self._stamp, self._texts = stamp, texts
        assert self._texts is not None
        return self._texts

    def look_again(self) -> None:
        """Make the next `read` look at the files, however recently it was done."""
        self._checked_at = float("-inf")

    def _read_if_changed(self) -> tuple[_Stamp, tuple[bytes, ...] | None]:
        # Stamps are taken before reading: a file replaced in between differs again at the next look.
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
    """The text; CredentialError if its file cannot be read."""
    if not pem.path:
        return pem.data
    try:
        return Path(pem.path).read_bytes()
    except OSError as error:
        raise CredentialError(f"{pem.setting}: cannot read {pem.path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class ClientKeyPair:
    """A client certificate (with its chain) and its private key, both PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ServerTrust:
    """How the server proves who it is. Without `ca`, the system's authorities decide."""

    ca: PemSource | None = None
    server_name: str = ""
    insecure: bool = False


class TlsContexts:
    """The context for new connections to one server."""

    def __init__(self, trust: ServerTrust, *, clock: Clock) -> None:
        self._trust = trust
        self._ca = PemFiles(*([trust.ca] if trust.ca else []), clock=clock)
        self._built_from: tuple[tuple[bytes, ...], ClientKeyPair | None] | None = None
        self._context: ssl.SSLContext | None = None

    async def current(self, pair: ClientKeyPair | None) -> ssl.SSLContext:
        """The context for this key pair; the last good one while a pair does not fit together."""
        wanted = (await self._ca.read(), pair)
        if self._context is not None and wanted == self._built_from:
            return self._context
        try:
            context = await asyncio.to_thread(_context, self._trust, *wanted)
        except CredentialError as error:
            if self._context is None:
                raise
            # A certificate and its key are two files and never replaced in one step.
            log.warning("the new certificate cannot be used yet; the last one stays in use", error=error)
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
    """Give the pair to OpenSSL, which reads only from paths, by way of memory that has one."""
    memory = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        with os.fdopen(memory, "wb", closefd=False) as file:
            file.write(pair.certificate + b"\n" + pair.key)
        # The password stands for none: without it an encrypted key would ask at the terminal.
        context.load_cert_chain(f"/proc/self/fd/{memory}", password="")
    except (ssl.SSLError, OSError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) and error.reason else type(error).__name__
        raise CredentialError(f"the client certificate and its key cannot be used: {reason}") from error
    finally:
        os.close(memory)
