"""Which part of the page a path is, and whose pod or object it names.

In: method and target of a request, and the place below which a signed-in browser works. Out: a route, or None.
"""

from enum import Enum
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

_MOST_PARAMETERS = 20


class Part(Enum):
    """What can be asked for."""

    ENTRANCE = "entrance"
    STATIC = "static"
    INDEX = "index"
    STREAM = "stream"
    POD = "pod"
    LOG = "log"
    KINDS = "kinds"
    OBJECTS = "objects"
    OBJECT = "object"


OPEN = frozenset({Part.ENTRANCE, Part.STATIC})
"""What needs no session: there is nothing of anybody in it."""


class Route(NamedTuple):
    """A part, the names in its path, and its query."""

    part: Part
    names: tuple[str, ...] = ()
    query: tuple[tuple[str, str], ...] = ()

    def value(self, name: str) -> str:
        """One of the query's values; empty if it is not there."""
        return next((value for known, value in self.query if known == name), "")


_BELOW = {
    ("stream", 0): Part.STREAM,
    ("pods", 2): Part.POD,
    ("logs", 3): Part.LOG,
    ("kinds", 0): Part.KINDS,
    ("objects", 0): Part.OBJECTS,
    ("object", 0): Part.OBJECT,
}


def route(target: str, place: str) -> Route | None:
    """Where a request leads; `place` begins and ends with a slash."""
    path, _, text = target.partition("#")[0].partition("?")
    query = _pairs(text)
    if query is None:
        return None
    if path == "/":
        return Route(Part.ENTRANCE, (), query)
    if path == place:
        return Route(Part.INDEX)
    first, *names = (unquote(part) for part in path.removeprefix("/").split("/"))
    if first == "static" and len(names) == 1:
        return Route(Part.STATIC, tuple(names))
    if not path.startswith(place):
        return None
    first, *names = (unquote(part) for part in path.removeprefix(place).split("/"))
    part = _BELOW.get((first, len(names)))
    return Route(part, tuple(names), query) if part is not None and all(names) else None


def _pairs(text: str) -> tuple[tuple[str, str], ...] | None:
    try:
        return tuple(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS, errors="replace"))
    except ValueError:
        return None
