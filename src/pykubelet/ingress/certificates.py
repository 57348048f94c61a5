"""The certificates of Ingresses, chosen by the server name of the TLS handshake.

A secret is read when the first Ingress names it, and again when it changes; connections that are made afterwards get its
new certificate. A host whose secret is missing or broken, and every other name, gets a self-made certificate, which no
client trusts.
"""

import os
import ssl
from collections.abc import Iterator
from datetime import timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Secret
from pykubelet.api.generated.networking import Ingress
from pykubelet.client.indexer import key_of
from pykubelet.httpserver.listener import serving_context
from pykubelet.ingress.routes import Precedence, host_names, precedence

_DEFAULT_NAME = "Ingress default certificate of pykubelet"
_LIFETIME = timedelta(days=3650)
# The clocks of clients may be behind.
_SKEW = timedelta(hours=1)


class BrokenSecret(ValueError):
    """A secret cannot be used for TLS; the message does not quote its content."""


class IngressCertificates:
    """The TLS contexts of all hosts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hosts: dict[str, dict[str, tuple[Precedence, str]]] = {}
        self._secrets: dict[str, Secret] = {}
        self._contexts: dict[str, ssl.SSLContext | BrokenSecret] = {}
        self._placed: dict[str, dict[str, str]] = {}

    def put(self, ingress: Ingress) -> None:
        """Add or replace an Ingress."""
        self.remove(key_of(ingress))
        order, hosts = precedence(ingress), secrets_of(ingress)
        if hosts:
            self._placed[order.ingress] = hosts
        for host, secret in hosts.items():
            self._hosts.setdefault(host, {})[order.ingress] = (order, secret)

    def remove(self, key: str) -> None:
        """Remove the Ingress of this name, if it is there."""
        for host in self._placed.pop(key, {}):
            claims = self._hosts[host]
            del claims[key]
            if not claims:
                del self._hosts[host]

    def put_secret(self, secret: Secret) -> None:
        """Adds or replaces a secret; its certificate is loaded when a handshake asks for it."""
        self._secrets[key_of(secret)] = secret
        self._contexts.pop(key_of(secret), None)

    def remove_secret(self, secret: Secret) -> None:
        self._secrets.pop(key_of(secret), None)
        self._contexts.pop(key_of(secret), None)

    def secrets(self, ingress: str) -> frozenset[str]:
        """The secrets that an Ingress names."""
        return frozenset(self._placed.get(ingress, {}).values())

    def problems(self, ingress: str) -> Iterator[tuple[str, str]]:
        """The secrets of an Ingress that cannot be used, each with the reason."""
        for secret in sorted(self.secrets(ingress)):
            if secret not in self._secrets:
                yield secret, "there is no secret of this name with type kubernetes.io/tls"
            elif isinstance(found := self._context(secret), BrokenSecret):
                yield secret, str(found)

    def context(self, server_name: str) -> ssl.SSLContext | None:
        """The context for a server name; None for the default certificate."""
        for name in host_names(server_name.lower().rstrip(".")):
            if claims := self._hosts.get(name):
                found = self._context(min(claims.values())[1])
                if isinstance(found, ssl.SSLContext):
                    return found
        return None

    def serving_context(self) -> ssl.SSLContext:
        """A context for a listener: it has the default certificate, and changes to that of the host."""

        def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _first: ssl.SSLContext) -> None:
            if (found := self.context(name or "")) is not None:
                connection.context = found

        context = serving_context()
        _load(context, *self_signed(self._clock))
        context.sni_callback = choose
        return context

    def _context(self, secret: str) -> ssl.SSLContext | BrokenSecret | None:
        known = self._contexts.get(secret)
        if known is None and (found := self._secrets.get(secret)) is not None:
            try:
                known = self._contexts[secret] = _context_of(found)
            except OSError as error:
                # No fault of the secret, such as too many open files: it is tried again.
                return BrokenSecret(f"it cannot be loaded now: {error.strerror}")
        return known


def secrets_of(ingress: Ingress) -> dict[str, str]:
    """The secret of each host; an entry without hosts is for those of the rules."""
    of_rules, namespace = [rule.host for rule in ingress.spec.rules], ingress.metadata.namespace
    found: dict[str, str] = {}
    for entry in ingress.spec.tls:
        for host in (entry.hosts or of_rules) if entry.secret_name else ():
            found.setdefault(host.lower(), f"{namespace}/{entry.secret_name}")
    return found


def _context_of(secret: Secret) -> ssl.SSLContext | BrokenSecret:
    """The context of a secret, or why it has none; OSError if the machine prevents it."""
    certificate, key = (secret.data.get(name, b"") for name in ("tls.crt", "tls.key"))
    context = serving_context()
    try:
        _load(context, certificate, key)
    except BrokenSecret as error:
        return error
    return context


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a pair into OpenSSL, which reads only from paths, through a memory file.

    BrokenSecret if it is unusable, OSError if the machine prevents it.
    """
    memory = os.memfd_create("ingress-certificate", os.MFD_CLOEXEC)
    try:
        with os.fdopen(memory, "wb", closefd=False) as file:
            file.write(certificate + b"\n" + key)
        # Without an empty password OpenSSL would prompt for one on the terminal.
        context.load_cert_chain(f"/proc/self/fd/{memory}", password="")
    except ssl.SSLError as error:
        raise BrokenSecret(f"tls.crt and tls.key cannot be used: {error.reason or type(error).__name__}") from error
    finally:
        os.close(memory)


def self_signed(clock: Clock) -> tuple[bytes, bytes]:
    """A certificate for no host, and its key, as PEM."""
    key, now = ec.generate_private_key(ec.SECP256R1()), clock.now()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _DEFAULT_NAME)])
    builder = x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - _SKEW).not_valid_after(now + _LIFETIME)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("ingress.invalid")]), critical=False)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate, private
