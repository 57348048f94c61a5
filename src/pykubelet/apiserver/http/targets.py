"""A request's target to its path and parameters, read as Go reads them.

In: the target of the request line, whatever a client wrote there. Out: a `Target` whose path is decoded once, so
that `%2e%2e` and `%2f` mean what they say and nothing is decoded a second time further in; or BadRequest.

Upstream: Go's net/url (ParseRequestURI, ParseQuery).
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import unquote

from pykubelet.api.errors import BadRequest
from pykubelet.api.go_query import BAD_ESCAPE, pairs, text_of

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?]*")
NO_QUERY: Mapping[str, str] = MappingProxyType({})


class Target(NamedTuple):
    """Where a request goes: the decoded path, the query as sent, and the first value of each of its parameters."""

    path: str
    raw_query: str
    query: Mapping[str, str]


def read_target(raw: str) -> Target:
    """The parts of a request line's target."""
    path, _, raw_query = raw.partition("?")
    if not path.startswith("/"):
        path = _rooted(path)
    if "%" in path or not path.isascii():
        path = _decoded_path(path)
    return Target(path, raw_query, read_query(raw_query) if raw_query else NO_QUERY)


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
