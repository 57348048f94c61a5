"""A request's target to its path and parameters, read as Go reads them.

In: the target of the request line, whatever a client wrote there. Out: a `Target` whose path is decoded once, so
that `%2e%2e` and `%2f` mean what they say and nothing is decoded a second time further in; or BadRequest.

Upstream: Go's net/url (ParseRequestURI, ParseQuery).

The query of a URL as Go reads it.

In: the text after the question mark, whatever a client wrote there. Out: its pairs; one that cannot be read is passed
over.

Upstream: Go's net/url (ParseQuery).
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import unquote, unquote_plus

from pykubelet.api.errors import BadRequest

BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def pairs(raw: str) -> list[tuple[str, str]]:
    """Every parameter with its value, in the order of the query."""
    found = []
    for part in raw.split("&"):
        if part and ";" not in part and not BAD_ESCAPE.search(part):
            key, _, value = part.partition("=")
            found.append((text_of(unquote_plus(key, errors="replace")), text_of(unquote_plus(value, errors="replace"))))
    return found


def text_of(text: str) -> str:
    """The same with U+FFFD for bytes that are no UTF-8, which arrive as lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?]*")
NO_QUERY: Mapping[str, str] = MappingProxyType({})


class RequestTarget(NamedTuple):
    """Where a request goes: the decoded path, the query as sent, and the first value of each of its parameters."""

    path: str
    raw_query: str
    query: Mapping[str, str]


def read_target(raw: str) -> RequestTarget:
    """The parts of a request line's target."""
    path, _, raw_query = raw.partition("?")
    if not path.startswith("/"):
        path = _rooted(path)
    if "%" in path or not path.isascii():
        path = _decoded_path(path)
    return RequestTarget(path, raw_query, read_query(raw_query) if raw_query else NO_QUERY)


@lru_cache(maxsize=256)
def read_query(raw: str) -> Mapping[str, str]:
    """The first value of each parameter. Go passes over a pair that it cannot read, and so do we."""
    found: dict[str, str] = {}
    for key, value in pairs(raw):
        found.setdefault(key, value)
    return MappingProxyType(found)


def _rooted(path: str) -> str:
    """The path of a target that names the server too, as proxies write it."""
    absolute = _ABSOLUTE.match(path)
    if absolute is None:
        raise BadRequest(f"the request's target {path[:100]!a} is not a path")
    return path[absolute.end() :] or "/"


def _decoded_path(path: str) -> str:
    if BAD_ESCAPE.search(path):
        raise BadRequest(f"invalid URL escape in the path {path[:100]!a}")
    return text_of(unquote(path, errors="replace"))
