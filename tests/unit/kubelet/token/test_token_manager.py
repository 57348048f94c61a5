"""Service account tokens: when they are refreshed, and what happens when that fails."""

import math
from datetime import timedelta
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.api.errors import Forbidden
from pykubelet.api.generated.authentication import TokenRequest, TokenRequestStatus
from pykubelet.api.generated.core import ServiceAccountTokenProjection
from pykubelet.api.pods import PodUid
from pykubelet.api.scheme import TypedKind
from pykubelet.api.times import format_time
from pykubelet.client.interface import Client
from pykubelet.kubelet.token.token_manager import TokenManager, TokenRequestError, is_refresh_due
from pykubelet.testing.virtual_time import EPOCH, ManualClock
from volume_pods import UID, pod_with

POD = pod_with(serviceAccountName="clerk")
HOURLY = ServiceAccountTokenProjection(path="token", expiration_seconds=3600)


class Issuer:
    """An API server that issues numbered tokens, or refuses a number of times."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.requests: list[tuple[str, str, TokenRequest]] = []
        self.refusals: float = 0

    async def create(
        self, kind: TypedKind[TokenRequest], body: TokenRequest, *, namespace: str = "", name: str = ""
    ) -> TokenRequest:
        assert kind.resource.subresource == "token"
        if self.refusals > 0:
            self.refusals -= 1
            raise Forbidden("no more tokens")
        self.requests.append((namespace, name, body))
        life = timedelta(seconds=body.spec.expiration_seconds or 600)
        status = TokenRequestStatus(
            token=f"token-{len(self.requests)}", expiration_timestamp=format_time(self.clock.now() + life)
        )
        return replace(body, status=status)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def issuer(clock: ManualClock) -> Issuer:
    return Issuer(clock)


@pytest.fixture
def cache(clock: ManualClock, issuer: Issuer) -> TokenManager:
    return TokenManager(source=cast("Client", issuer), clock=clock, rand=lambda: 0)


async def test_token_is_bound_to_its_pod_and_kept(cache: TokenManager, issuer: Issuer, clock: ManualClock) -> None:
    """It is requested once, and again only when the refresh is due."""
    assert await cache.get(POD, HOURLY) == "token-1"
    clock.advance(2880)
    assert await cache.get(POD, HOURLY) == "token-1"
    clock.advance(1)
    assert await cache.get(POD, HOURLY) == "token-2"
    namespace, account, request = issuer.requests[0]
    assert (namespace, account) == ("default", "clerk")
    assert request.spec.audiences == ()
    bound = request.spec.bound_object_ref
    assert bound is not None
    assert (bound.kind, bound.name, bound.uid) == ("Pod", "web", UID)


async def test_refused_token_request_is_retried_at_once(cache: TokenManager, issuer: Issuer) -> None:
    """The API server may see a new pod slightly later than the node."""
    issuer.refusals = 5
    assert await cache.get(POD, HOURLY) == "token-1"


async def test_token_differs_by_audience_and_pod(cache: TokenManager, issuer: Issuer) -> None:
    """Each projection has its own token; removing a pod removes its tokens."""
    vault = ServiceAccountTokenProjection(path="token", audience="vault", expiration_seconds=3600)
    assert await cache.get(POD, HOURLY) == "token-1"
    assert await cache.get(POD, vault) == "token-2"
    assert issuer.requests[1][2].spec.audiences == ("vault",)
    cache.forget(PodUid(UID))
    assert await cache.get(POD, HOURLY) == "token-3"


async def test_token_is_used_on_when_it_cannot_be_renewed(
    cache: TokenManager, issuer: Issuer, clock: ManualClock
) -> None:
    """After that the refresh error is raised."""
    await cache.get(POD, HOURLY)
    issuer.refusals = math.inf
    clock.advance(3600)
    assert await cache.get(POD, HOURLY) == "token-1"
    clock.advance(1)
    with pytest.raises(TokenRequestError, match=r"^token clerk/default expired and refresh failed: no more tokens$"):
        await cache.get(POD, HOURLY)


async def test_token_without_an_expiration_is_never_refreshed(cache: TokenManager, clock: ManualClock) -> None:
    """A refresh time cannot be computed."""
    endless = ServiceAccountTokenProjection(path="token")
    assert await cache.get(POD, endless) == "token-1"
    clock.advance(10**6)
    assert await cache.get(POD, endless) == "token-1"


async def test_missing_token_is_an_error(issuer: Issuer, clock: ManualClock, cache: TokenManager) -> None:
    """The request is refused, or there is no API server."""
    issuer.refusals = math.inf
    with pytest.raises(TokenRequestError, match=r"^failed to fetch token: no more tokens$"):
        await cache.get(POD, HOURLY)
    alone = TokenManager(source=None, clock=clock)
    with pytest.raises(TokenRequestError, match=r"cannot use TokenManager when kubelet is in standalone mode$"):
        await alone.get(POD, HOURLY)


@settings(max_examples=200)
@given(st.integers(600, 10**6), st.integers(0, 10**6), st.floats(0, 10))
def test_refresh_is_due_after_four_fifths_or_a_day(lifetime: int, age: int, jitter: float) -> None:
    """At 80 % of the lifetime or after a day, whichever is first, and up to ten seconds earlier."""
    due = is_refresh_due(
        lifetime_seconds=lifetime,
        expires_at=EPOCH + timedelta(seconds=lifetime),
        now=EPOCH + timedelta(seconds=age),
        jitter=timedelta(seconds=jitter),
    )
    limit = min(lifetime * 0.8, 86400)
    if age < limit - 10.001:
        assert not due
    elif age > limit + 0.001:
        assert due
