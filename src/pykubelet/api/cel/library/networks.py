"""IP addresses, CIDRs and URLs: `ip('10.0.0.1')`, `cidr('10.0.0.0/8')`, `url('https://a/b')`.

Errors follow Go's net/netip and net/url.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/ip.go, staging/src/k8s.io/apiserver/pkg/cel/library/cidr.go,
staging/src/k8s.io/apiserver/pkg/cel/library/urls.go
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface
from typing import Any
from urllib.parse import quote, unquote, unquote_plus

from pykubelet.api.cel.values import CelError, add_kind, succeeds
from pykubelet.api.field_errors import go_quote

_Address = IPv4Address | IPv6Address
_Network = IPv4Interface | IPv6Interface
_LENGTH = re.compile("0|[1-9][0-9]{0,2}", re.ASCII)
_NO_NETWORK = "network address parse error during conversion from string"

for _cls in (IPv4Address, IPv6Address):
    add_kind(_cls, "net.IP")
for _cls in (IPv4Interface, IPv6Interface):
    add_kind(_cls, "net.CIDR")


def _ip(text: str) -> _Address:
    try:
        address = ip_address(text)
    except ValueError:
        reason = f"ParseAddr({go_quote(text)}): {_problem(text)}"
        raise CelError(f"IP Address {go_quote(text)} parse error during conversion from string: {reason}") from None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise CelError(f"IP address {go_quote(text)} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise CelError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return address


def _problem(text: str) -> str:
    """Explains why a text is not an IP address, with Go's messages where they concern numbers."""
    parts = text.split(".")
    if not all(part.isdecimal() for part in parts) or len(parts) == 1:
        return "unable to parse IP"
    if any(len(part) > 1 and part.startswith("0") for part in parts):
        return "IPv4 field has octet with leading zero"
    if any(len(part) > 3 or int(part) > 255 for part in parts):
        return "IPv4 field has value >255"
    return "IPv4 address too short" if len(parts) < 4 else "IPv4 address too long"


def _cidr(text: str) -> _Network:
    address, slash, length = text.rpartition("/")
    problem = "" if slash else "no '/'"
    try:
        found = ip_address(address)
    except ValueError:
        problem = problem or f"ParseAddr({go_quote(address)}): {_problem(address)}"
        raise _no_network(text, problem) from None
    if "%" in address:
        raise _no_network(text, "IPv6 zones cannot be present in a prefix")
    if _LENGTH.fullmatch(length) is None:
        raise _no_network(text, f"bad bits after slash: {go_quote(length)}")
    if int(length) > found.max_prefixlen:
        raise _no_network(text, "prefix length out of range")
    network = ip_interface(f"{found}/{length}")
    if isinstance(network, IPv6Interface) and network.ip.ipv4_mapped is not None:
        raise CelError(f"{_NO_NETWORK}: IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return network


def _no_network(text: str, problem: str) -> CelError:
    # Upstream repeats the first part.
    return CelError(f"{_NO_NETWORK}: {_NO_NETWORK}: netip.ParsePrefix({go_quote(text)}): {problem}")


def _is_local_multicast(address: _Address) -> bool:
    if address.version == 4:
        return address.packed[:3] == b"\xe0\x00\x00"
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 2


def _is_local_unicast(address: _Address) -> bool:
    if address.version == 4:
        return address.packed[:2] == b"\xa9\xfe"
    return address.packed[0] == 0xFE and address.packed[1] & 0xC0 == 0x80


def _is_global_unicast(address: _Address) -> bool:
    if address.is_unspecified or address.packed == b"\xff\xff\xff\xff":
        return False
    return not (address.is_loopback or address.is_multicast or _is_local_unicast(address))


def _contains_ip(network: _Network, address: _Address) -> bool:
    return address.version == network.version and address in network.network


def _contains_cidr(network: _Network, other: _Network) -> bool:
    return _contains_ip(network, other.ip) and network.network.prefixlen <= other.network.prefixlen


OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("ip(string) -> net.IP", _ip),
    ("isIP(string) -> bool", succeeds(_ip)),
    ("ip.isCanonical(string) -> bool", lambda text: str(_ip(text)) == text),
    ("(net.IP).family() -> int", lambda address: address.version),
    ("(net.IP).isUnspecified() -> bool", lambda address: address.is_unspecified),
    ("(net.IP).isLoopback() -> bool", lambda address: address.is_loopback),
    ("(net.IP).isLinkLocalMulticast() -> bool", _is_local_multicast),
    ("(net.IP).isLinkLocalUnicast() -> bool", _is_local_unicast),
    ("(net.IP).isGlobalUnicast() -> bool", _is_global_unicast),
    ("string(net.IP) -> string", str),
    ("cidr(string) -> net.CIDR", _cidr),
    ("isCIDR(string) -> bool", succeeds(_cidr)),
    ("(net.CIDR).containsIP(string) -> bool", lambda network, text: _contains_ip(network, _ip(text))),
    ("(net.CIDR).containsIP(net.IP) -> bool", _contains_ip),
    ("(net.CIDR).containsCIDR(string) -> bool", lambda network, text: _contains_cidr(network, _cidr(text))),
    ("(net.CIDR).containsCIDR(net.CIDR) -> bool", _contains_cidr),
    ("(net.CIDR).ip() -> net.IP", lambda network: network.ip),
    ("(net.CIDR).prefixLength() -> int", lambda network: network.network.prefixlen),
    ("(net.CIDR).masked() -> net.CIDR", lambda network: ip_interface(str(network.network))),
    ("string(net.CIDR) -> string", str),
)


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.DOTALL)
_BAD_HOST = re.compile(r"[ \"<>\\^`{|}]")
_PORT = re.compile(r"(?::\d*)?", re.ASCII)
_SAFE = "$&+,/:;=@-_.~"
# Characters that a path may contain unescaped, some of which Go itself would escape.
_ESCAPED_PATH = re.compile(r"[A-Za-z0-9$&+,/:;=@\-_.~!'()*\[\]%]*", re.ASCII)


class UrlError(ValueError):
    """The text is not a URL; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a parsed URL."""

    scheme: str
    host: str
    path: str
    query: str


add_kind(Url, "kubernetes.URL")


def read_url(text: str) -> Url:
    """Parses an absolute URL or an absolute path; raises UrlError."""
    try:
        _parts(text, is_request=True)
        return _parts(text.partition("#")[0], is_request=False)
    except UrlError as error:
        raise UrlError(f"parse {go_quote(text)}: {error}") from None


def _parts(text: str, *, is_request: bool) -> Url:
    if any(char < " " or char == "\x7f" for char in text):
        raise UrlError("net/url: invalid control character in URL")
    if not text and is_request:
        raise UrlError("empty url")
    if text.startswith(":"):
        raise UrlError("missing protocol scheme")
    match = _SCHEME.fullmatch(text)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, "", "", query)
        if is_request:
            raise UrlError("invalid URI for request")
    host = ""
    if rest.startswith("//") and (scheme or not is_request):
        authority, slash, after = rest[2:].partition("/")
        host, rest = _host(authority), slash + after
    _check_escapes(rest)
    return Url(scheme, host, rest, query)


def _check_escapes(text: str) -> None:
    if wrong := _BAD_ESCAPE.search(text):
        raise UrlError(f"invalid URL escape {go_quote(wrong[0])}")


def _host(authority: str) -> str:
    host = authority.rpartition("@")[2]
    if host.startswith("["):
        inner, closed, port = host.rpartition("]")
        if not closed:
            raise UrlError("missing ']' in host")
        _check_port(port)
        _check_escapes(inner)
    elif ":" in host:
        _check_port(host[host.rindex(":") :])
    if wrong := _BAD_HOST.search(host):
        raise UrlError(f"invalid character {go_quote(wrong[0])} in host name")
    if not host.startswith("["):
        _check_escapes(host)
    return unquote(host)


def _check_port(port: str) -> None:
    if _PORT.fullmatch(port) is None:
        raise UrlError(f"invalid port {go_quote(port)} after host")


def _url(text: str) -> Url:
    try:
        return read_url(text)
    except UrlError as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from None


def _hostname(url: Url) -> str:
    host = url.host
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _port(url: Url) -> str:
    after = url.host.rpartition("]")[2]
    return after.rpartition(":")[2] if ":" in after else ""


def _escaped_path(url: Url) -> str:
    return url.path if _ESCAPED_PATH.fullmatch(url.path) else quote(unquote(url.path), safe=_SAFE)


def _query(url: Url) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue
        key, _, value = pair.partition("=")
        found.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return found


URL_OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("url(string) -> kubernetes.URL", _url),
    ("isURL(string) -> bool", succeeds(_url)),
    ("(kubernetes.URL).getScheme() -> string", lambda url: url.scheme),
    ("(kubernetes.URL).getHost() -> string", lambda url: url.host),
    ("(kubernetes.URL).getHostname() -> string", _hostname),
    ("(kubernetes.URL).getPort() -> string", _port),
    ("(kubernetes.URL).getEscapedPath() -> string", _escaped_path),
    ("(kubernetes.URL).getQuery() -> map<string, list<string>>", _query),
)
