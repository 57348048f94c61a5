"""TLS contexts: whom to trust, and which client certificate to show.

In: the trust of a cluster and the key pair of the moment. Out: an `ssl.SSLContext`, a fresh one when either changed, so
that new connections show the new certificate. Key material touches no disk.

Upstream: client-go/transport/transport.go (TLSConfigFor).
"""

import asyncio
import os
import ssl
from dataclasses import dataclass, field

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.kube.credential_error import CredentialError
from pykubelet.kube.pem_files import Pem, PemFiles

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A client certificate (with its chain) and its private key, both PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Trust:
    """How the server proves who it is. Without `ca`, the system's authorities decide."""

    ca: Pem | None = None
    server_name: str = ""
    insecure: bool = False


class TlsContexts:
    """The context for new connections to one server."""

    def __init__(self, trust: Trust, *, clock: Clock) -> None:
        self._trust = trust
        self._ca = PemFiles(*([trust.ca] if trust.ca else []), clock=clock)
        self._built_from: tuple[tuple[bytes, ...], KeyPair | None] | None = None
        self._context: ssl.SSLContext | None = None

    async def current(self, pair: KeyPair | None) -> ssl.SSLContext:
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


def _context(trust: Trust, ca: tuple[bytes, ...], pair: KeyPair | None) -> ssl.SSLContext:
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


def _load_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
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
