"""Listening sockets, their addresses, and the TLS context of all servers.

TLS 1.2 needs ciphers with forward secrecy and authenticated encryption (CIS benchmark 4.2.12); TLS 1.3 is unrestricted.
This module does not import aiohttp, so that commands start quickly.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/net/interface.go,
staging/src/k8s.io/apiserver/pkg/server/config.go
"""

import ipaddress
import socket
import ssl
from typing import NamedTuple
from urllib.parse import urlsplit

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"

# Connections that may wait while the loop is busy.
BACKLOG = 1024
# Documentation addresses (RFC 5737, RFC 3849): nothing is sent, the kernel only chooses a route.
_SOMEWHERE = {4: "192.0.2.1", 6: "2001:db8::1"}
LOOPBACK = "127.0.0.1"
_LOOPBACKS = {4: LOOPBACK, 6: "::1"}


def serving_context() -> ssl.SSLContext:
    """A TLS context for servers; the caller adds the certificate and client authorities."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    return context


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; raises OSError if the address is not local or the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def public_host(bind: str) -> str:
    """The address of this machine for others: the bound one, or that of its network if it is loopback or unspecified."""
    address = _ip_address(bind)
    if address is None or not (address.is_loopback or address.is_unspecified):
        return bind
    # A server that listens on all addresses does so for one version of IP.
    versions = (address.version,) if address.is_unspecified else (4, 6)
    return next(filter(None, (_source_address(_SOMEWHERE[version]) for version in versions)), bind)


def _source_address(target: str) -> str:
    """The address that this machine sends from to an IP address; empty without a route."""
    with socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((target, 9))
        except OSError:
            return ""
        found: str = probe.getsockname()[0]
        return found


def with_port(host: str, port: int) -> str:
    """`host:port`, unless the host includes a port already."""
    if host.count(":") > 1 and not host.startswith("["):
        return f"[{host}]:{port}"
    return host if ":" in host.rpartition("]")[2] else f"{host}:{port}"


def local_url(bind: str, port: int) -> str:
    """The URL of a server with this bind address for programs on this machine.

    If it listens on all addresses, this is the address for others, where there is one: a node that knows its server by
    a loopback address listens on loopback, where a server with nodes elsewhere does not look for nodes.
    """
    address = _ip_address(bind)
    if address is not None and address.is_unspecified:
        bind = found if (found := public_host(bind)) != bind else _LOOPBACKS[address.version]
    return f"https://{with_port(bind, port)}"


class ListenAddress(NamedTuple):
    """The address to bind, and the address for clients."""

    bind: str
    address: str


def listen_address(bind: str, server: str, machine: str) -> ListenAddress:
    """`bind` if given, else loopback if the API server is local or missing, else the machine's address.

    A machine without a known address (`machine` is empty) has that from which it reaches the API server.
    """
    if not bind:
        host = urlsplit(server).hostname or "localhost"
        machine = machine or (_source_address(host) if _ip_address(host) else "")
        chosen = LOOPBACK if is_loopback(host) else machine or LOOPBACK
        return ListenAddress(chosen, chosen)
    address = _ip_address(bind)
    is_anywhere = address is not None and address.is_unspecified
    return ListenAddress(bind, (machine or LOOPBACK) if is_anywhere else bind)


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a server at this address or name."""
    address = _ip_address(host)
    return address.is_loopback if address else host == "localhost" or host.endswith(".localhost")


def is_unspecified(host: str) -> bool:
    """Whether a server at this address listens at all addresses of the machine."""
    address = _ip_address(host)
    return address is not None and address.is_unspecified


def _ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
