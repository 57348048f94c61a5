"""Routes and responses of the page as values: paths, text responses, redirects, server-sent events."""

from enum import Enum
from html import escape
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from pykubelet.httpserver.request import split_target
from pykubelet.httpserver.response import TEXT, HttpResponse, HttpStream, text_response

HELLO = b"retry: 500\n\n"
"""Sets the reconnect delay of the browser, in milliseconds."""
KEEP_ALIVE = b": still here\n\n"
"""An empty comment that keeps the connection alive."""
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
_MOST_PARAMETERS = 20


def message(event: str, data: bytes) -> bytes:
    """One server-sent event; `data` is JSON on one line."""
    return b"event: " + event.encode() + b"\ndata: " + data + b"\n\n"


def see_other(location: str, cookie: str) -> HttpResponse:
    """A redirect that sets a cookie."""
    return HttpResponse(303, b"", TEXT, (("Location", location), ("Set-Cookie", cookie)))


def text(code: int, words: str) -> HttpResponse:
    return text_response(code, f"{words}\n")


def sign_in(link_file: str, *, is_used: bool = False, place: str = "") -> HttpResponse:
    """The page that explains how to sign in. `place` is the target for a browser that just used a link."""
    first = "This link is invalid or was used before" if is_used else "The page opens with a link"
    main = (
        f"<h1>{first}</h1>"
        "<p>Each link works once. The next one is always in this file, which only you can read:</p>"
        f"<pre>{escape(link_file)}</pre>"
        "<p>Copy the link from there to the address bar.</p>"
    )
    if place:
        # A browser coming from another site withholds the cookie on the first request and sends it from the next one on.
        main += f'<p>Have you just used a link? <a href="{escape(place)}">Continue</a></p>'
    return HttpResponse(403, _PAGE.format(main=main).encode(errors="replace"), HTML)


class PagePart(Enum):
    """A part of the page that can be requested."""

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
"""The parts that need no session because they contain no data."""


class PageRoute(NamedTuple):
    """A part, the names in its path, and its query."""

    part: PagePart
    names: tuple[str, ...] = ()
    query: tuple[tuple[str, str], ...] = ()

    def value(self, name: str) -> str:
        """A value of the query; empty if absent."""
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
    """The route of a request target; None if there is none. `place` begins and ends with a slash."""
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
