"""Answers of the page as values, and the few pages that are made of words alone."""

from collections.abc import Awaitable, Callable
from html import escape
from typing import NamedTuple

from pykubelet.web.collaborators import Write

HTML = "text/html; charset=utf-8"
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
EVENT_STREAM = "text/event-stream"


class Reply(NamedTuple):
    """An answer that is complete; `headers` come beside those that every answer has."""

    code: int
    body: bytes = b""
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


class Flow(NamedTuple):
    """An answer that goes on until one of the two sides has enough."""

    content_type: str
    copy: Callable[[Write], Awaitable[None]]


Outcome = Reply | Flow

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


def see_other(location: str, cookie: str) -> Reply:
    """Go there, and take this along."""
    return Reply(303, b"", TEXT, (("Location", location), ("Set-Cookie", cookie)))


def text(code: int, words: str) -> Reply:
    """A line for whoever reads it, a script of the page say."""
    return Reply(code, f"{words}\n".encode(errors="replace"))


def sign_in(link_file: str, *, is_used: bool = False, place: str = "") -> Reply:
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
    return Reply(403, _PAGE.format(main=main).encode(errors="replace"), HTML)
