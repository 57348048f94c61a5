"""Responses as values: a complete one, a stream, or the connection handed over to a handler.

Handlers return one of them and `HttpServer` sends it, so that handlers need no socket in tests.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from aiohttp import web

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"

Headers = tuple[tuple[str, str], ...]
Write = Callable[[bytes], Awaitable[None]]
"""Sends a part of a body; waits while the client is slow. ConnectionError if it is gone, TimeoutError if it stalls."""
Ended = Callable[[int], None]
"""Called with the status code when a long-running response is over."""


class HttpResponse(NamedTuple):
    """A complete response; `headers` come in addition to those of every response of the server."""

    code: int
    body: bytes
    content_type: str = JSON
    headers: Headers = ()
    parts: AsyncGenerator[bytes, None] | None = None
    """The parts of a body that is too large to be held as a whole; then `body` is empty."""


class HttpStream(NamedTuple):
    """A response with status 200 whose body is written as it arises: a log, a watch, server-sent events."""

    content_type: str
    copy: Callable[[Write], Awaitable[None]]
    headers: Headers = ()
    ended: Ended | None = None
    ends_cleanly: bool = False
    """Whether a stopping server ends the body in order, rather than breaking off the connection."""


class Handover(NamedTuple):
    """A request whose connection a handler takes over: an upgrade, or a proxied request."""

    serve: "Callable[[web.BaseRequest], Awaitable[web.StreamResponse | HttpResponse]]"
    ended: Ended | None = None


HandlerResult = HttpResponse | HttpStream | Handover


class HttpError(Exception):
    """A request that is answered with an error in plain text."""

    def __init__(self, code: int, text: str, headers: Headers = ()) -> None:
        super().__init__(text)
        self.reply = text_response(code, text, headers)


def text_response(code: int, text: str, headers: Headers = ()) -> HttpResponse:
    """A plain text response that browsers do not interpret as anything else."""
    return HttpResponse(code, text.encode(errors="replace"), TEXT, (("X-Content-Type-Options", "nosniff"), *headers))


NOT_FOUND = text_response(404, "404 page not found\n")
