"""Server-sent events: the form in which a browser hears of changes.

Upstream: the HTML standard, "Server-sent events".
"""

HELLO = b"retry: 500\n\n"
"""How soon a browser comes back that was cut off, in milliseconds."""
KEEP_ALIVE = b": still here\n\n"
"""Says nothing, and shows that the connection stands."""


def message(event: str, data: bytes) -> bytes:
    """One message; `data` is JSON, which has no line ends of its own."""
    return b"event: " + event.encode() + b"\ndata: " + data + b"\n\n"
