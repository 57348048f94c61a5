"""Which part of the page a path is, and whose pod or object it names.

In: method and target of a request, and the place below which a signed-in browser works. Out: a route, or None.

Answers of the page as values, and the few pages that are made of words alone.

Server-sent events: the form in which a browser hears of changes.

Upstream: the HTML standard, "Server-sent events".
"""

from enum import Enum
from html import escape
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from pykubelet.httpserver.request import split_target
from pykubelet.httpserver.response import TEXT, HttpResponse, HttpStream, text_response

HELLO = b"retry: 500\n\n"
"""How soon a browser comes back that was cut off, in milliseconds."""
KEEP_ALIVE = b": still here\n\n"
"""Says nothing, and shows that the connection stands."""


def message(event: str, data: bytes) -> bytes:
    """One message; `data` is JSON, which has no line ends of its own."""
    return b"event: " + event.encode() + b"\ndata: " + data + b"\n\n"


HTML = "text/html; charset=utf-8"
EVENT_STREAM = "text/event-stream"


PageOutcome = HttpResponse | HttpStream

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>pykubelet</title>
<link rel="icon" href="/static/icon.svg">
<link rel="stylesheet" href="/static/page.css">
</head>
<body class="words"><main>{main}</main></body>
</html>
"""


def see_other(location: str, cookie: str) -> HttpResponse:
    """Go there, and take this along."""
    return HttpResponse(303, b"", TEXT, (("Location", location), ("Set-Cookie", cookie)))


def text(code: int, words: str) -> HttpResponse:
    """A line for whoever reads it, a script of the page say."""
    return text_response(code, f"{words}\n")


def sign_in(link_file: str, *, is_used: bool = False, place: str = "") -> HttpResponse:
    """How to get in: with a link that was not used yet. `place` is where it leads who has just used one."""
    first = "This link was used before, or is not right" if is_used else "The page opens with a link"
    main = (
        f"<h1>{first}</h1>"
        "<p>Each link works once. The next one is always in this file, which only you can read:</p>"
        f"<pre>{escape(link_file)}</pre>"
        "<p>Copy the link from there to the address bar.</p>"
    )
    if place:
        # A browser that comes here from another site's page keeps the cookie back, and shows it from the next page on.
        main += f'<p>You have just used a link? <a href="{escape(place)}">Go on</a></p>'
    return HttpResponse(403, _PAGE.format(main=main).encode(errors="replace"), HTML)


_MOST_PARAMETERS = 20


class PagePart(Enum):
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


OPEN = frozenset({PagePart.ENTRANCE, PagePart.STATIC})
"""What needs no session: there is nothing of anybody in it."""


class PageRoute(NamedTuple):
    """A part, the names in its path, and its query."""

    part: PagePart
    names: tuple[str, ...] = ()
    query: tuple[tuple[str, str], ...] = ()

    def value(self, name: str) -> str:
        """One of the query's values; empty if it is not there."""
        return next((value for known, value in self.query if known == name), "")


_BELOW = {
    ("stream", 0): PagePart.STREAM,
    ("pods", 2): PagePart.POD,
    ("logs", 3): PagePart.LOG,
    ("kinds", 0): PagePart.KINDS,
    ("objects", 0): PagePart.OBJECTS,
    ("object", 0): PagePart.OBJECT,
}


def route(target: str, place: str) -> PageRoute | None:
    """Where a request leads; `place` begins and ends with a slash."""
    path, text = split_target(target)
    query = _pairs(text)
    if query is None:
        return None
    if path == "/":
        return PageRoute(PagePart.ENTRANCE, (), query)
    if path == place:
        return PageRoute(PagePart.INDEX)
    first, *names = (unquote(part) for part in path.removeprefix("/").split("/"))
    if first == "static" and len(names) == 1:
        return PageRoute(PagePart.STATIC, tuple(names))
    if not path.startswith(place):
        return None
    first, *names = (unquote(part) for part in path.removeprefix(place).split("/"))
    part = _BELOW.get((first, len(names)))
    return PageRoute(part, tuple(names), query) if part is not None and all(names) else None


def _pairs(text: str) -> tuple[tuple[str, str], ...] | None:
    try:
        return tuple(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS, errors="replace"))
    except ValueError:
        return None
