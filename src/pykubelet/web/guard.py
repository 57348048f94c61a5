"""Which requests a page on loopback answers at all, and what every answer tells the browser.

In: what a browser says of itself. Out: why it is refused, if it is; headers.
"""

from typing import NamedTuple

COOKIE = "pykubelet-page"


class Caller(NamedTuple):
    """What the headers of a request say of who sends it."""

    host: str = ""
    cookie: str = ""
    fetch_site: str = ""
    """`Sec-Fetch-Site`: where the page is from that makes the browser ask; old browsers do not say."""


CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
"""Of every answer: no script but our own, in no frame, kept nowhere, readable by no other page."""


def is_own_host(host: str, port: int) -> bool:
    """Whether a request is for us by name: any other name was made to lead here by somebody else's name server."""
    return host.lower() in {f"127.0.0.1:{port}", f"localhost:{port}"}


def is_from_elsewhere(fetch_site: str) -> bool:
    """Whether another page makes the browser ask for data; another port of this machine is another page."""
    return fetch_site.lower() not in {"", "same-origin", "none"}


def session_of(cookies: str) -> str:
    """The session in a Cookie header; empty if it has none."""
    for pair in cookies.split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def session_cookie(session: str, place: str) -> str:
    """The Set-Cookie that begins a session.

    Cookies know no ports: without a path that nobody can guess, the browser would show this one to whatever else
    listens on this machine, a pod's web server say.
    """
    return f"{COOKIE}={session}; Path={place}; HttpOnly; SameSite=Strict"
