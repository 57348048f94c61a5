"""A request as a value, its target and its query read as Go's net/url reads them.

A path is decoded exactly once: `%2e%2e` and `%2f` are not decoded again further in. Pairs of a query that cannot be
decoded are dropped, as Go drops them.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import unquote, unquote_plus

from multidict import MultiMapping

from pykubelet.api.errors import BadRequest

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
NO_QUERY: Mapping[str, str] = MappingProxyType({})


def _nothing() -> None: ...


class BodyTooLarge(Exception):
    """The body of a request exceeds the limit."""


class BodyUnreadable(Exception):
    """The body of a request is malformed, or the client disconnected."""


class HttpRequest(NamedTuple):
    """An HTTP request; the body is read only on demand, after authorization."""

    method: str
    target: str
    """The target of the request line: path and query, still encoded."""
    headers: MultiMapping[str]
    certificate: bytes | None
    """The client's certificate in DER, if TLS has verified one."""
    source: str
    """The IP address of the client."""
    read_body: Callable[[], Awaitable[bytes]]
    """The body; raises BodyTooLarge or BodyUnreadable."""
    id: str = ""
    """The audit ID, for servers that have one."""
    authenticated: Callable[[], None] = _nothing
    """Called once it is known that a user has sent this request: the connection is then kept before others."""


class RequestTarget(NamedTuple):
    """The decoded path, the query as sent, and the first value of each query parameter."""

    path: str
    raw_query: str
    query: Mapping[str, str]


def read_target(raw: str) -> RequestTarget:
    """Decode the target of a request line; BadRequest if it is malformed."""
    path, _, raw_query = raw.partition("?")
    if not path.startswith("/"):
        path = _rooted(path)
    if "%" in path or not path.isascii():
        path = _decoded_path(path)
    return RequestTarget(path, raw_query, read_query(raw_query) if raw_query else NO_QUERY)


def split_target(raw: str) -> tuple[str, str]:
    """The path and the query of a target, both still encoded; a fragment is dropped."""
    path, _, raw_query = text_of(raw).partition("#")[0].partition("?")
    return path, raw_query


@lru_cache(maxsize=256)
def read_query(raw: str) -> Mapping[str, str]:
    """The first value of each query parameter."""
    found: dict[str, str] = {}
    for key, value in pairs(raw):
        found.setdefault(key, value)
    return MappingProxyType(found)


def pairs(raw: str) -> list[tuple[str, str]]:
    """Every parameter of a query or form with its value, in order."""
    found = []
    for part in raw.split("&"):
        if part and ";" not in part and not _BAD_ESCAPE.search(part):
            key, _, value = part.partition("=")
            found.append((text_of(unquote_plus(key, errors="replace")), text_of(unquote_plus(value, errors="replace"))))
    return found


def text_of(text: str) -> str:
    """The same text with U+FFFD for bytes that are not UTF-8, which aiohttp passes as lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _rooted(path: str) -> str:
    """The path of a target that includes the server's address, as proxies send it."""
    absolute = _ABSOLUTE.match(path)
    if absolute is None:
        raise BadRequest(f"the request's target {path[:100]!a} is not a path")
    return path[absolute.end() :] or "/"


def _decoded_path(path: str) -> str:
    if _BAD_ESCAPE.search(path):
        raise BadRequest(f"invalid URL escape in the path {path[:100]!a}")
    return text_of(unquote(path, errors="replace"))
