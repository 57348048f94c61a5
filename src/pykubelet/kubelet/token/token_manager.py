"""Requests, caches and renews the service account tokens of pods.

Upstream: pkg/kubelet/token/token_manager.go
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from pykubelet.aio.backoff import Random, system_random
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, Forbidden
from pykubelet.api.generated.authentication import BoundObjectReference, TokenRequest, TokenRequestSpec
from pykubelet.api.generated.core import Pod, ServiceAccountTokenProjection
from pykubelet.api.pods import PodUid, pod_label
from pykubelet.api.scheme import SERVICE_ACCOUNT_TOKENS
from pykubelet.api.times import parse_time
from pykubelet.client.interface import Client

log = get_logger(__name__)

MAX_AGE = timedelta(hours=24)
MAX_JITTER = timedelta(seconds=10)
_KEPT_SHARE = 0.8
# Delays of retries: the API server's authorizer may learn later than the node that the pod is on it.
_FORBIDDEN_RETRY_SECONDS = (0.02, 0.05, 0.1, 0.2, 0.4)


def is_refresh_due(*, lifetime_seconds: int, expires_at: datetime, now: datetime, jitter: timedelta) -> bool:
    """Whether a token is older than a day or than 80 % of its lifetime; the jitter makes both a little earlier."""
    issued_at = expires_at - timedelta(seconds=lifetime_seconds)
    due = min(MAX_AGE, timedelta(seconds=lifetime_seconds) * _KEPT_SHARE)
    return now > issued_at + due - jitter


class TokenRequestError(Exception):
    """No usable token is available."""


class _Key(NamedTuple):
    namespace: str
    account: str
    projection: ServiceAccountTokenProjection


@dataclass(frozen=True, slots=True, repr=False)
class _CachedToken:
    """A token; the repr hides it."""

    text: str
    lifetime_seconds: int | None
    expires_at: datetime


class TokenManager:
    """Caches the tokens of this node's pods. Owned by one loop; a pod makes one request at a time."""

    def __init__(self, *, source: Client | None, clock: Clock, rand: Random = system_random) -> None:
        self._source, self._clock, self._rand = source, clock, rand
        self._tokens: dict[PodUid, dict[_Key, _CachedToken]] = {}

    async def get(self, pod: Pod, projection: ServiceAccountTokenProjection) -> str:
        """A token for a volume of a pod; raises TokenRequestError if none is available.

        A token that is due for renewal but still valid is used if the renewal fails.
        """
        key = _Key(pod.metadata.namespace, pod.spec.service_account_name, projection)
        known = self._tokens.get(PodUid(pod.metadata.uid), {}).get(key)
        if known is not None and not self._is_due(known):
            return known.text
        try:
            token = await self._request(pod, key)
        except (ApiError, ValueError) as error:
            if known is None:
                raise TokenRequestError(f"failed to fetch token: {error}") from error
            if self._clock.now() > known.expires_at:
                account = f"{key.account}/{key.namespace}"
                raise TokenRequestError(f"token {account} expired and refresh failed: {error}") from error
            log.warning("service account token not renewed", pod=pod_label(pod), account=key.account, cause=str(error))
            return known.text
        self._tokens.setdefault(PodUid(pod.metadata.uid), {})[key] = token
        return token.text

    def forget(self, uid: PodUid) -> None:
        self._tokens.pop(uid, None)

    async def _request(self, pod: Pod, key: _Key) -> _CachedToken:
        if self._source is None:
            raise ValueError("cannot use TokenManager when kubelet is in standalone mode")
        spec = TokenRequestSpec(
            audiences=(key.projection.audience,) if key.projection.audience else (),
            expiration_seconds=key.projection.expiration_seconds,
            bound_object_ref=BoundObjectReference(
                api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid
            ),
        )
        answer = await self._create(self._source, TokenRequest(spec=spec), key)
        expires_at = parse_time(answer.status.expiration_timestamp or "")
        return _CachedToken(answer.status.token, answer.spec.expiration_seconds, expires_at)

    async def _create(self, source: Client, request: TokenRequest, key: _Key) -> TokenRequest:
        for pause_seconds in _FORBIDDEN_RETRY_SECONDS:
            try:
                return await source.create(SERVICE_ACCOUNT_TOKENS, request, namespace=key.namespace, name=key.account)
            except Forbidden:
                await asyncio.sleep(pause_seconds)
        return await source.create(SERVICE_ACCOUNT_TOKENS, request, namespace=key.namespace, name=key.account)

    def _is_due(self, token: _CachedToken) -> bool:
        if token.lifetime_seconds is None:
            return False
        return is_refresh_due(
            lifetime_seconds=token.lifetime_seconds,
            expires_at=token.expires_at,
            now=self._clock.now(),
            jitter=MAX_JITTER * self._rand(),
        )
