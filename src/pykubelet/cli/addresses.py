"""Option callbacks for addresses and ranges, IPv4 only, and for what a node needs to join a cluster."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ipaddress import IPv4Network

_SERVICE_BITS = range(12, 29)
"""Upstream's limit, and room for the cluster DNS, whose address is the tenth."""
_CLUSTER_BITS = range(8, 25)
"""Upstream's limit of 65,536 nodes, and room for one of them."""


def ipv4_address(_context: click.Context, _option: click.Parameter, text: str) -> str:
    """Checks an address; an option callback."""
    from ipaddress import IPv4Address

    try:
        return str(IPv4Address(text))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not an IPv4 address") from error


def service_range(_context: click.Context, _option: click.Parameter, text: str) -> "IPv4Network":
    """Checks a range of Services."""
    return _network(text, _SERVICE_BITS)


def cluster_range(_context: click.Context, _option: click.Parameter, text: str) -> "IPv4Network":
    """Checks a range of pods, of which each node gets a part."""
    return _network(text, _CLUSTER_BITS)


def server_url(_context: click.Context, _option: click.Parameter, text: str) -> str:
    """Checks the URL of an API server, with TLS."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        is_usable = parts.scheme == "https" and bool(parts.hostname) and (parts.port or 443) > 0
    except ValueError:
        is_usable = False
    if text and (not is_usable or parts.path not in ("", "/") or parts.query or parts.username):
        raise click.BadParameter(f"{text!r} is not of the form https://ADDRESS:PORT")
    return text.rstrip("/")


def bootstrap_token(_context: click.Context, _option: click.Parameter, text: str) -> str:
    """Checks a bootstrap token, without repeating it."""
    from pykubelet.kinds.bootstrap_token import BootstrapToken, TokenFormatError

    try:
        return BootstrapToken.parse(text).text if text else ""
    except TokenFormatError as error:
        raise click.BadParameter(str(error)) from error


def public_key_hashes(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Checks hashes of public keys."""
    from pykubelet.client.certificates.discovery import is_pin

    if bad := next((text for text in texts if not is_pin(text)), ""):
        raise click.BadParameter(f"{bad!r} is not of the form sha256: and 64 hexadecimal digits")
    return texts


def _network(text: str, bits: range) -> "IPv4Network":
    from ipaddress import IPv4Network

    try:
        found = IPv4Network(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if found.prefixlen not in bits:
        raise click.BadParameter(f"{text} is not a range between /{bits[0]} and /{bits[-1]}")
    return found
