"""Where the server listens, and by which address others know it.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/net/interface.go (ResolveBindAddress), apiserver/pkg/server/config.go.
"""

import ipaddress
import socket

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
