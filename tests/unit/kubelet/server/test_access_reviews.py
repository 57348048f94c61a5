"""Tokens and rights asked of an API server: what is asked, what is remembered, for how long."""

from typing import Any, cast

import pytest

from pykubelet.api.errors import ServiceUnavailable
from pykubelet.api.generated.authentication import TokenReview, TokenReviewStatus, UserInfo
from pykubelet.api.generated.authorization import SubjectAccessReview, SubjectAccessReviewStatus
from pykubelet.api.scheme import TypedKind
from pykubelet.client.interface import Client
from pykubelet.kubelet.server.auth import (
    ALLOWED_SECONDS,
    DENIED_SECONDS,
    KNOWN_TOKEN_SECONDS,
    UNKNOWN_TOKEN_SECONDS,
    ApiServerAccessReviewer,
    KubeletUser,
    ReviewFailed,
)
from pykubelet.testing.virtual_time import ManualClock

JANE = KubeletUser("jane", ("editors",), "uid-1", {"scopes": ("a", "b")})


class ReviewServer:
    """An API server that only knows reviews: one token, one right. Creator."""

    def __init__(self) -> None:
        self.reviews: list[Any] = []
        self.is_down = False

    async def create(self, kind: TypedKind[Any], body: Any, *, namespace: str = "", name: str = "") -> Any:
        self.reviews.append(body)
        if self.is_down:
            raise ServiceUnavailable("starting")
        if isinstance(body, TokenReview):
            user = UserInfo(username="jane", groups=("editors",), uid="uid-1", extra={"scopes": ("a", "b")})
            is_known = body.spec.token == "good"
            return TokenReview(status=TokenReviewStatus(authenticated=is_known, user=user if is_known else UserInfo()))
        assert isinstance(body, SubjectAccessReview)
        asked = body.spec.resource_attributes
        assert asked is not None
        is_allowed = asked.subresource == "pods"
        return SubjectAccessReview(status=SubjectAccessReviewStatus(allowed=is_allowed, denied=asked.verb == "delete"))


def made() -> tuple[ApiServerAccessReviewer, ReviewServer, ManualClock]:
    server, clock = ReviewServer(), ManualClock()
    return ApiServerAccessReviewer(api=cast("Client", server), node_name="node-1", clock=clock), server, clock


async def test_token_is_asked_about_once_in_a_while() -> None:
    """A known one for two minutes, an unknown one for a few seconds."""
    reviews, server, clock = made()
    for _ in range(3):
        assert await reviews.user_of_token("good") == JANE
        assert await reviews.user_of_token("bad") is None
    assert len(server.reviews) == 2
    clock.advance(UNKNOWN_TOKEN_SECONDS)
    assert await reviews.user_of_token("bad") is None
    assert await reviews.user_of_token("good") == JANE
    assert len(server.reviews) == 3
    clock.advance(KNOWN_TOKEN_SECONDS)
    assert await reviews.user_of_token("good") == JANE
    assert len(server.reviews) == 4


async def test_right_is_asked_about_once_in_a_while() -> None:
    """One that is given for five minutes, one that is not for half a minute; a denial counts more than anything."""
    reviews, server, clock = made()
    for _ in range(3):
        assert await reviews.is_allowed(JANE, "get", "pods")
        assert not await reviews.is_allowed(JANE, "get", "proxy")
        assert not await reviews.is_allowed(JANE, "delete", "pods")
    assert len(server.reviews) == 3
    clock.advance(DENIED_SECONDS)
    assert not await reviews.is_allowed(JANE, "get", "proxy")
    assert await reviews.is_allowed(JANE, "get", "pods")
    assert len(server.reviews) == 4
    clock.advance(ALLOWED_SECONDS)
    assert await reviews.is_allowed(JANE, "get", "pods")
    assert len(server.reviews) == 5


async def test_right_is_asked_about_with_all_that_is_known() -> None:
    """The node by its name, the user with groups, UID and extras; another user's answer is another one."""
    reviews, server, _ = made()
    await reviews.is_allowed(JANE, "create", "proxy")
    await reviews.is_allowed(KubeletUser("jane"), "create", "proxy")
    spec, other = (review.spec for review in server.reviews)
    asked = spec.resource_attributes
    assert (asked.resource, asked.subresource, asked.name, asked.verb) == ("nodes", "proxy", "node-1", "create")
    assert (spec.user, spec.groups, spec.uid, spec.extra) == ("jane", ("editors",), "uid-1", {"scopes": ("a", "b")})
    assert other.groups == ()


async def test_server_that_does_not_answer_is_asked_again() -> None:
    """Nothing is remembered of a failure."""
    reviews, server, _ = made()
    server.is_down = True
    with pytest.raises(ReviewFailed, match="starting"):
        await reviews.user_of_token("good")
    with pytest.raises(ReviewFailed):
        await reviews.is_allowed(JANE, "get", "pods")
    server.is_down = False
    assert await reviews.user_of_token("good") == JANE


async def test_token_of_no_sensible_length_is_nobodys() -> None:
    """Without asking."""
    reviews, server, _ = made()
    assert await reviews.user_of_token("x" * 100_000) is None
    assert server.reviews == []
