"""Asks the API server whose a token is and what somebody may do; remembers the answers for a while.

Upstream: staging/src/k8s.io/apiserver/plugin/pkg/{authenticator/token,authorizer}/webhook/webhook.go; the times are
those of a kubelet's configuration.
"""

import asyncio
import hashlib
from typing import Protocol, TypeVar

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.authentication import TokenReview, TokenReviewSpec
from pykubelet.api.generated.authorization import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from pykubelet.api.typed import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Kind
from pykubelet.nodeapi.access.callers import Caller
from pykubelet.nodeapi.access.remembered import Remembered

T = TypeVar("T")

KNOWN_TOKEN_SECONDS = 120.0
# Shorter than upstream: a token may become valid, and who guesses is slowed down anyway.
UNKNOWN_TOKEN_SECONDS = 10.0
ALLOWED_SECONDS = 300.0
DENIED_SECONDS = 30.0
REVIEW_SECONDS = 10.0
_MOST_ANSWERS = 1024
# The longest token that is asked about; a service account's has a kilobyte.
_LONGEST_TOKEN = 16 * 1024


class ReviewFailed(Exception):
    """The API server gave no answer."""


class Creator(Protocol):
    """Creates reviews; a Writer does."""

    async def create(self, kind: Kind[T], body: T, *, namespace: str = "", name: str = "") -> T:
        """What the server answers."""


class Reviews:
    """Authentication and authorization by an API server."""

    def __init__(self, *, api: Creator, node_name: str, clock: Clock) -> None:
        self._api, self._node_name, self._clock = api, node_name, clock
        self._callers: Remembered[Caller | bool] = Remembered(_MOST_ANSWERS)
        self._rights: Remembered[bool] = Remembered(_MOST_ANSWERS)

    async def caller_of_token(self, token: str) -> Caller | None:
        """Whose token it is; None if nobody's. ReviewFailed if that cannot be found out."""
        if len(token) > _LONGEST_TOKEN:
            return None
        # The token itself is kept nowhere.
        key = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        known = self._callers.get(key, self._clock.monotonic())
        if known is None:
            review = TokenReview(spec=TokenReviewSpec(token=token))
            status = (await self._ask(TOKEN_REVIEWS, review)).status
            user = status.user
            known = Caller(user.username, user.groups, user.uid, user.extra) if status.authenticated else False
            seconds = KNOWN_TOKEN_SECONDS if known else UNKNOWN_TOKEN_SECONDS
            self._callers.put(key, known, self._clock.monotonic() + seconds)
        return known if isinstance(known, Caller) else None

    async def is_allowed(self, caller: Caller, verb: str, subresource: str) -> bool:
        """Whether somebody may do that to a subresource of this node. ReviewFailed if that cannot be found out."""
        key = (*caller.key, verb, subresource)
        known = self._rights.get(key, self._clock.monotonic())
        if known is None:
            asked = ResourceAttributes(
                version="v1", resource="nodes", subresource=subresource, name=self._node_name, verb=verb
            )
            spec = SubjectAccessReviewSpec(
                user=caller.name,
                groups=caller.groups,
                uid=caller.uid,
                extra=caller.extra,
                resource_attributes=asked,
            )
            status = (await self._ask(SUBJECT_ACCESS_REVIEWS, SubjectAccessReview(spec=spec))).status
            known = status.allowed and not status.denied
            seconds = ALLOWED_SECONDS if known else DENIED_SECONDS
            self._rights.put(key, known, self._clock.monotonic() + seconds)
        return known

    async def _ask(self, kind: Kind[T], review: T) -> T:
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                return await self._api.create(kind, review)
        except (ApiError, TimeoutError) as error:
            raise ReviewFailed(str(error) or "no answer") from error
