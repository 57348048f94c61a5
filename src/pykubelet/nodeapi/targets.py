"""The target of a request: its path and its query.

Upstream: net/url; a query that cannot be read is passed over there, too.
"""

from typing import NamedTuple
from urllib.parse import parse_qsl

from pykubelet.nodeapi.replies import Refused

# More than any command line the kernel takes.
_MOST_PARAMETERS = 4096


class Target(NamedTuple):
    """Path as it came, still quoted, and the pairs of the query."""

    path: str
    query: tuple[tuple[str, str], ...]


def read_target(raw: str) -> Target:
    """The parts of a request's target; Refused if it is no path."""
    # Bytes that are no text come as characters that cannot be written.
    text = raw.encode(errors="surrogateescape").decode(errors="replace")
    path, _, query = text.partition("#")[0].partition("?")
    if not path.startswith("/"):
        raise Refused(400, "the target of a request is a path")
    return Target(path, pairs(query))


def pairs(query: str) -> tuple[tuple[str, str], ...]:
    """The pairs of a query or a form; Refused if there are too many."""
    try:
        return tuple(parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS))
    except ValueError:
        raise Refused(400, "the query has too many parameters") from None
