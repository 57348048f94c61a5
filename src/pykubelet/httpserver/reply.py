"""An HTTP answer as a value. Errors of the node's API are plain text, as upstream's are.

Upstream: pkg/kubelet/server/server.go
"""

from typing import NamedTuple

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class Reply(NamedTuple):
    """Code, body, and headers beside those that every answer has."""

    code: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


class HttpError(Exception):
    """The request is answered with an error."""

    def __init__(self, code: int, text: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(text)
        self.reply = text_reply(code, text, headers)


def text_reply(code: int, text: str, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """Plain text, which a browser must not take for anything else."""
    return Reply(code, text.encode(errors="replace"), TEXT, (("X-Content-Type-Options", "nosniff"), *headers))


NOT_FOUND = text_reply(404, "404 page not found\n")
