"""Where the server listens, and by which address others know it.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/net/interface.go (ResolveBindAddress), apiserver/pkg/server/config.go.

At which address a node's API should listen, and by which one others reach it.

In: what the settings say, where the API server is, the machine's address. Out: both addresses. A node beside its API
server listens where nobody else can reach it.

The TLS that everything here serves with: 1.2 or newer, and only ciphers that are thought safe.

Of TLS 1.2 those with forward secrecy that authenticate what they encrypt; of 1.3 all. They are the ones that the CIS
benchmark for Kubernetes names (4.2.12), without those that use a server's key to encrypt.
"""

import ipaddress
import socket
import ssl
from typing import NamedTuple
from urllib.parse import urlsplit

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


def serving_context() -> ssl.SSLContext:
    """A context for a server of HTTP; its certificate, and whom it trusts, are for the caller to add."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    return context


# Connections that wait to be accepted while the loop is busy.
_BACKLOG = 1024
# Addresses for documentation (RFC 5737, RFC 3849): nothing is sent there, the kernel only says which way it would go.
_SOMEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections; OSError if the address is not ours or the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def public_host(bind: str) -> str:
    """How this machine is called by others: the bound address, or if that is local that of the network it is in."""
    try:
        address = ipaddress.ip_address(bind)
    except ValueError:
        return bind
    if not (address.is_loopback or address.is_unspecified):
        return bind
    for family, somewhere in _SOMEWHERE.items():
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((somewhere, 9))
            except OSError:
                continue
            found: str = probe.getsockname()[0]
            return found
    return bind


def with_port(host: str, port: int) -> str:
    """`host:port`, unless the host says its port already."""
    if host.count(":") > 1 and not host.startswith("["):
        return f"[{host}]:{port}"
    return host if ":" in host.rpartition("]")[2] else f"{host}:{port}"


def local_url(bind: str, port: int) -> str:
    """The URL by which a program on this machine reaches a server that is bound so."""
    try:
        address = ipaddress.ip_address(bind)
    except ValueError:
        return f"https://{with_port(bind, port)}"
    if address.is_unspecified:
        bind = "127.0.0.1" if address.version == 4 else "::1"
    return f"https://{with_port(bind, port)}"


LOOPBACK = "127.0.0.1"


class ListenAddress(NamedTuple):
    """Where to listen, and the address that others use."""

    bind: str
    address: str


def listen_address(bind: str, server: str, machine: str) -> ListenAddress:
    """As told by `bind`, else on loopback if the server's URL is there or there is none, else on the machine's address."""
    if not bind:
        chosen = LOOPBACK if _is_local(server) else machine or LOOPBACK
        return ListenAddress(chosen, chosen)
    try:
        is_anywhere = ipaddress.ip_address(bind).is_unspecified
    except ValueError:
        is_anywhere = False
    return ListenAddress(bind, (machine or LOOPBACK) if is_anywhere else bind)


def _is_local(server: str) -> bool:
    host = urlsplit(server).hostname or "localhost"
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
