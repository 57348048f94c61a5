"""The target of a request: its path and its query.

Upstream: net/url
"""

from typing import NamedTuple

from pykubelet.api import go_query
from pykubelet.nodeapi.replies import Refused

# More than any command line the kernel takes.
_MOST_PARAMETERS = 4096


class Target(NamedTuple):
    """Path as it came, still quoted, and the pairs of the query."""

    path: str
    query: tuple[tuple[str, str], ...]


def read_target(raw: str) -> Target:
    """The parts of a request's target; Refused if it is no path."""
    path, _, query = go_query.text_of(raw).partition("#")[0].partition("?")
    if not path.startswith("/"):
        raise Refused(400, "the target of a request is a path")
    return Target(path, pairs(query))


def pairs(query: str) -> tuple[tuple[str, str], ...]:
    """The pairs of a query or a form; Refused if there are too many."""
    if query.count("&") >= _MOST_PARAMETERS:
        raise Refused(400, "the query has too many parameters")
    return tuple(go_query.pairs(query))
