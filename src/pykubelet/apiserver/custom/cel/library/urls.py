"""Addresses of the web: whether a text is one, and its parts.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/urls.go, net/url of Go's standard library
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, unquote_plus

from pykubelet.api.validation.field_errors import go_quote
from pykubelet.apiserver.custom.cel.faults import CelError
from pykubelet.apiserver.custom.cel.values import add_kind

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.DOTALL)
_BAD_HOST = re.compile(r"[ \"<>\\^`{|}]")
_PORT = re.compile(r"(?::\d*)?", re.ASCII)
_SAFE = "$&+,/:;=@-_.~"
# What a path may hold as it is, though Go itself would escape some of it.
_ESCAPED_PATH = re.compile(r"[A-Za-z0-9$&+,/:;=@\-_.~!'()*\[\]%]*", re.ASCII)


class UrlError(ValueError):
    """The text is no address; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Url:
    """An address in its parts."""

    scheme: str
    host: str
    path: str
    query: str


add_kind(Url, "kubernetes.URL")


def read_url(text: str) -> Url:
    """The address that a text is: a whole one, or a path from the root."""
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


def is_url(text: str) -> bool:
    """Whether a text is an address."""
    try:
        read_url(text)
    except UrlError:
        return False
    return True


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


OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("url(string) -> kubernetes.URL", _url),
    ("isURL(string) -> bool", is_url),
    ("(kubernetes.URL).getScheme() -> string", lambda url: url.scheme),
    ("(kubernetes.URL).getHost() -> string", lambda url: url.host),
    ("(kubernetes.URL).getHostname() -> string", _hostname),
    ("(kubernetes.URL).getPort() -> string", _port),
    ("(kubernetes.URL).getEscapedPath() -> string", _escaped_path),
    ("(kubernetes.URL).getQuery() -> map<string, list<string>>", _query),
)
