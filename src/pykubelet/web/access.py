"""Access to the page: host and origin checks, sessions, cookies, and the file with the sign-in link.

A key that works once becomes the session of one browser. Only digests of sessions are kept, so that a lookup
leaks no timing about others.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pykubelet.aio.log import get_logger
from pykubelet.client.certificates.store import write_secret

log = get_logger(__name__)

COOKIE = "pykubelet-page"
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
"""Security headers of every response: own scripts only, no frames, no caching, no other origin."""
MOST_SESSIONS = 32
"""The maximum of sessions; the oldest ends when there are more."""


def is_own_host(host: str, port: int) -> bool:
    """Whether the Host header names this page; any other name is a DNS rebinding attempt."""
    return host.lower() in {f"127.0.0.1:{port}", f"localhost:{port}"}


def is_from_elsewhere(fetch_site: str) -> bool:
    """Whether another site's page made the browser send the request; another port is another site."""
    return fetch_site.lower() not in {"", "same-origin", "none"}


def session_of(cookies: str) -> str:
    """The session in a Cookie header; empty if there is none."""
    for pair in cookies.split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def session_cookie(session: str, place: str) -> str:
    """The Set-Cookie header that starts a session.

    Cookies ignore ports: without an unguessable path the browser would send this cookie to every other server on this
    machine, such as a pod's web server.
    """
    return f"{COOKIE}={session}; Path={place}; HttpOnly; SameSite=Strict"


class Sessions:
    """The valid key and the open sessions."""

    def __init__(self, new_secret: Callable[[], str]) -> None:
        self._new_secret = new_secret
        self._key = new_secret()
        self._digests: dict[bytes, None] = {}

    def __repr__(self) -> str:
        return f"Sessions({len(self._digests)} begun)"

    @property
    def key(self) -> str:
        """The key that the next browser must present."""
        return self._key

    def redeem(self, key: str) -> str | None:
        """Exchange the key for a new session; the key becomes invalid. None if it is the wrong key."""
        if not hmac.compare_digest(key.encode(errors="replace"), self._key.encode()):
            return None
        self._key, session = self._new_secret(), self._new_secret()
        self._digests[_digest(session)] = None
        while len(self._digests) > MOST_SESSIONS:
            del self._digests[next(iter(self._digests))]
        return session

    def is_known(self, session: str) -> bool:
        """Whether a session was opened here."""
        return bool(session) and _digest(session) in self._digests


def _digest(session: str) -> bytes:
    return hashlib.sha256(session.encode(errors="replace")).digest()


class LinkFile:
    """Writes the sign-in link with the valid key to a file that only its owner can read."""

    def __init__(self, path: Path, port: int, sessions: Sessions) -> None:
        self.path, self._port, self._sessions = path, port, sessions

    @property
    def url(self) -> str:
        """The link that is valid now."""
        return f"http://127.0.0.1:{self._port}/?key={self._sessions.key}"

    async def write(self) -> None:
        """Write the valid link; a folder that is not writable is not an error."""
        try:
            await asyncio.to_thread(write_secret, self.path, f"{self.url}\n".encode())
        except OSError as error:
            log.warning("page link not written", path=str(self.path), cause=error.strerror)

    def remove(self) -> None:
        """Remove the file: its link is no longer valid."""
        with suppress(OSError):
            self.path.unlink()
