"""Who may see the page: a key that can be used once becomes a session of one browser.

In: keys and cookies as they come. Out: whether they count. Only digests of sessions are kept, so finding one takes no time
that tells anything about another.
"""

import hashlib
import hmac
from collections.abc import Callable

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
