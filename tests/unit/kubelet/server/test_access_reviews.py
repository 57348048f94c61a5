"""TokenReviews and SubjectAccessReviews: what is sent, what is cached, and for how long."""

from dataclasses import replace
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
    """An API server that answers reviews for one token and one permission. Implements Creator."""

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


async def test_token_reviews_are_cached() -> None:
    """A valid token for two minutes, an invalid one for a few seconds."""
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


async def test_access_reviews_are_cached() -> None:
    """Allowed for five minutes, not allowed for half a minute; denied overrides allowed."""
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


async def test_access_review_contains_node_and_user() -> None:
    """It has the node's name and the user's groups, UID and extras; users that differ are reviewed separately."""
    reviews, server, _ = made()
    await reviews.is_allowed(JANE, "create", "proxy")
    await reviews.is_allowed(KubeletUser("jane"), "create", "proxy")
    spec, other = (review.spec for review in server.reviews)
    asked = spec.resource_attributes
    assert (asked.resource, asked.subresource, asked.name, asked.verb) == ("nodes", "proxy", "node-1", "create")
    assert (spec.user, spec.groups, spec.uid, spec.extra) == ("jane", ("editors",), "uid-1", {"scopes": ("a", "b")})
    assert other.groups == ()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(JANE, name="joan"), id="name"),
        pytest.param(replace(JANE, groups=()), id="groups"),
        pytest.param(replace(JANE, uid="uid-2"), id="uid"),
        pytest.param(replace(JANE, extra={"scopes": ("a",)}), id="extra"),
    ],
)
async def test_cached_permission_is_not_used_for_a_user_that_differs_in_one_property(other: KubeletUser) -> None:
    reviews, server, _ = made()
    for user in (JANE, other, JANE, other):
        assert await reviews.is_allowed(user, "get", "pods")
    asked = [(one.spec.user, one.spec.groups, one.spec.uid, one.spec.extra) for one in server.reviews]
    assert asked == [(user.name, user.groups, user.uid, user.extra) for user in (JANE, other)]


async def test_failed_review_is_repeated() -> None:
    """Failures are not cached."""
    reviews, server, _ = made()
    server.is_down = True
    with pytest.raises(ReviewFailed, match="starting"):
        await reviews.user_of_token("good")
    with pytest.raises(ReviewFailed):
        await reviews.is_allowed(JANE, "get", "pods")
    server.is_down = False
    assert await reviews.user_of_token("good") == JANE


async def test_overlong_token_is_rejected() -> None:
    """It is not sent to the API server."""
    reviews, server, _ = made()
    assert await reviews.user_of_token("x" * 100_000) is None
    assert server.reviews == []
