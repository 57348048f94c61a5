"""Which requests a page on loopback answers at all, and what every answer tells the browser.

In: what a browser says of itself. Out: why it is refused, if it is; headers.

The file with the link that the next browser can use; only its owner may read it.

Who may see the page: a key that can be used once becomes a session of one browser.

In: keys and cookies as they come. Out: whether they count. Only digests of sessions are kept, so finding one takes no time
that tells anything about another.
"""

import asyncio
import hashlib
import hmac
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pykubelet.aio.log import get_logger

COOKIE = "pykubelet-page"


class RequestOrigin(NamedTuple):
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


MOST_SESSIONS = 32
"""Of one program; the oldest goes when there are more."""


class Sessions:
    """The key that is valid now, and the sessions that were begun."""

    def __init__(self, new_secret: Callable[[], str]) -> None:
        self._new_secret = new_secret
        self._key = new_secret()
        self._digests: dict[bytes, None] = {}

    def __repr__(self) -> str:
        return f"Sessions({len(self._digests)} begun)"

    @property
    def key(self) -> str:
        """What the next browser has to bring."""
        return self._key

    def redeem(self, key: str) -> str | None:
        """A new session for this key, which is worth nothing from now on; None if it is not the one."""
        if not hmac.compare_digest(key.encode(errors="replace"), self._key.encode()):
            return None
        self._key, session = self._new_secret(), self._new_secret()
        self._digests[_digest(session)] = None
        while len(self._digests) > MOST_SESSIONS:
            del self._digests[next(iter(self._digests))]
        return session

    def is_known(self, session: str) -> bool:
        """Whether a browser shows a session that was begun here."""
        return bool(session) and _digest(session) in self._digests


def _digest(session: str) -> bytes:
    return hashlib.sha256(session.encode(errors="replace")).digest()


log = get_logger(__name__)


class LinkFile:
    """Keeps the file in step with the key that is valid."""

    def __init__(self, path: Path, port: int, sessions: Sessions) -> None:
        self.path, self._port, self._sessions = path, port, sessions

    @property
    def url(self) -> str:
        """The link that is valid now."""
        return f"http://127.0.0.1:{self._port}/?key={self._sessions.key}"

    async def write(self) -> None:
        """Write down the link that is valid now; a folder that cannot be written to is no reason to refuse anybody."""
        try:
            await asyncio.to_thread(self._write, self.url)
        except OSError as error:
            log.warning("the link of the page is not written down", path=str(self.path), cause=error.strerror)

    def remove(self) -> None:
        """It leads nowhere any more."""
        with suppress(OSError):
            self.path.unlink()

    def _write(self, url: str) -> None:
        draft = self.path.with_name(f".{self.path.name}.new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{url}\n")
        draft.replace(self.path)
