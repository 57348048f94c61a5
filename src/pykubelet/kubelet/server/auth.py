"""Authenticates and authorizes requests to the kubelet.

A client certificate authenticates by itself; the API server reviews tokens and permissions. Reviews are cached for the
kubelet's default durations. Anonymous requests are rejected. Other than upstream, endpoints that run commands or open
connections need `create` for every method: upstream derives the verb from the method, so with a WebSocket, which starts
with GET, permission to read a node is permission to run anything in its pods.

Upstream: pkg/kubelet/server/auth.go, pkg/kubelet/server/server.go,
staging/src/k8s.io/apiserver/plugin/pkg/authenticator/token/webhook/webhook.go,
staging/src/k8s.io/apiserver/plugin/pkg/authorizer/webhook/webhook.go,
staging/src/k8s.io/apiserver/pkg/authentication/request/x509/x509.go,
staging/src/k8s.io/apimachinery/pkg/util/cache/lruexpirecache.go
"""

import asyncio
import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from cryptography import x509
from cryptography.x509.oid import NameOID

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.authentication import TokenReview, TokenReviewSpec
from pykubelet.api.generated.authorization import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from pykubelet.api.scheme import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, TypedKind
from pykubelet.client.interface import Client
from pykubelet.httpserver.response import HttpError

log = get_logger(__name__)

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# Checked first; `proxy`, the right to everything, is the alternative.
_FINE_GRAINED = {
    "/pods": "pods",
    "/healthz": "healthz",
    "/configz": "configz",
    "/runningpods": "pods",
    "/pykubelet/why": "pods",
}
_SUBRESOURCES = {
    "/stats": "stats",
    "/metrics": "metrics",
    "/logs": "log",
    "/checkpoint": "checkpoint",
    "/statusz": "statusz",
    "/flagz": "configz",
}
_CREATE_PATHS = ("/exec", "/attach", "/portForward", "/run", "/checkpoint")

AUTHENTICATED = "system:authenticated"
T = TypeVar("T")
KNOWN_TOKEN_SECONDS = 120.0
# Shorter than upstream: a token may become valid, and guessing is rate limited anyway.
UNKNOWN_TOKEN_SECONDS = 10.0
ALLOWED_SECONDS = 300.0
DENIED_SECONDS = 30.0
REVIEW_SECONDS = 10.0
_MAX_ENTRIES = 1024
# The longest token that is reviewed; a service account token has about a kilobyte.
_MAX_TOKEN_LENGTH = 16 * 1024


class NodeAttributes(NamedTuple):
    """A verb, and the subresources of the node of which one must be allowed."""

    verb: str
    subresources: tuple[str, ...]


def attributes_of(method: str, path: str) -> NodeAttributes:
    """The permission that a request needs; defined for every path."""
    verb = "create" if _is_below(path, _CREATE_PATHS) else _VERBS.get(method, "")
    fine = tuple(name for prefix, name in _FINE_GRAINED.items() if _is_below(path, (prefix,)))
    own = tuple(name for prefix, name in _SUBRESOURCES.items() if _is_below(path, (prefix,)))
    return NodeAttributes(verb, (*fine, *(own or ("proxy",))))


def _is_below(path: str, prefixes: tuple[str, ...]) -> bool:
    return any(path == prefix or path.startswith(f"{prefix}/") for prefix in prefixes)


@dataclass(frozen=True, slots=True)
class KubeletUser:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[object, ...]:
        """The cache key: users with different rights differ in it."""
        return self.name, self.uid, self.groups, tuple(sorted(self.extra.items()))


def user_of_certificate(certificate: bytes) -> KubeletUser | None:
    """The user of a verified client certificate (DER); None if it names none."""
    try:
        subject = x509.load_der_x509_certificate(certificate).subject
    except ValueError:
        return None
    names = [_text(found) for found in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [_text(found) for found in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    if not names or not names[-1]:
        return None
    return KubeletUser(names[-1], (*groups, *(() if AUTHENTICATED in groups else (AUTHENTICATED,))))


def _text(attribute: x509.NameAttribute[str | bytes]) -> str:
    value = attribute.value
    return value if isinstance(value, str) else value.decode(errors="replace")


class ExpiringCache(Generic[T]):
    """At most `limit` entries, each until its expiry; the least recently used one is dropped first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[Hashable, tuple[float, T]] = {}

    def get(self, key: Hashable, now: float) -> T | None:
        """The entry, if it has not expired."""
        found = self._entries.pop(key, None)
        if found is None or now >= found[0]:
            return None
        self._entries[key] = found
        return found[1]

    def put(self, key: Hashable, answer: T, until: float) -> None:
        self._entries.pop(key, None)
        self._entries[key] = until, answer
        while len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]

    def __len__(self) -> int:
        return len(self._entries)


class ReviewFailed(Exception):
    """The API server did not respond to a review."""


class ApiServerAccessReviewer:
    """Authenticates and authorizes with TokenReviews and SubjectAccessReviews."""

    def __init__(self, *, api: Client, node_name: str, clock: Clock) -> None:
        self._api, self._node_name, self._clock = api, node_name, clock
        self._users: ExpiringCache[KubeletUser | bool] = ExpiringCache(_MAX_ENTRIES)
        self._permissions: ExpiringCache[bool] = ExpiringCache(_MAX_ENTRIES)

    async def user_of_token(self, token: str) -> KubeletUser | None:
        """The user of a token; None if it is invalid. Raises ReviewFailed if the API server does not respond."""
        if len(token) > _MAX_TOKEN_LENGTH:
            return None
        # The cache stores a digest, not the token.
        key = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        known = self._users.get(key, self._clock.monotonic())
        if known is None:
            review = TokenReview(spec=TokenReviewSpec(token=token))
            status = (await self._ask(TOKEN_REVIEWS, review)).status
            user = status.user
            known = KubeletUser(user.username, user.groups, user.uid, user.extra) if status.authenticated else False
            seconds = KNOWN_TOKEN_SECONDS if known else UNKNOWN_TOKEN_SECONDS
            self._users.put(key, known, self._clock.monotonic() + seconds)
        return known if isinstance(known, KubeletUser) else None

    async def is_allowed(self, user: KubeletUser, verb: str, subresource: str) -> bool:
        """Whether a user may do this to a subresource of this node; raises ReviewFailed if there is no response."""
        key = (*user.key, verb, subresource)
        known = self._permissions.get(key, self._clock.monotonic())
        if known is None:
            asked = ResourceAttributes(
                version="v1", resource="nodes", subresource=subresource, name=self._node_name, verb=verb
            )
            spec = SubjectAccessReviewSpec(
                user=user.name, groups=user.groups, uid=user.uid, extra=user.extra, resource_attributes=asked
            )
            status = (await self._ask(SUBJECT_ACCESS_REVIEWS, SubjectAccessReview(spec=spec))).status
            known = status.allowed and not status.denied
            seconds = ALLOWED_SECONDS if known else DENIED_SECONDS
            self._permissions.put(key, known, self._clock.monotonic() + seconds)
        return known

    async def _ask(self, kind: TypedKind[T], review: T) -> T:
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                return await self._api.create(kind, review)
        except (ApiError, TimeoutError) as error:
            raise ReviewFailed(str(error) or "no response") from error


class AccessReviewer(Protocol):
    """Authenticates tokens and authorizes users."""

    async def user_of_token(self, token: str) -> KubeletUser | None:
        """The user of a token; None if it is invalid. Raises ReviewFailed if that cannot be determined."""

    async def is_allowed(self, user: KubeletUser, verb: str, subresource: str) -> bool:
        """Whether a user may do this to a subresource of this node; raises ReviewFailed if that cannot be determined."""


class CertificateOnlyAccess:
    """Without an API server: clients with a certificate of the authority may do everything, others nothing."""

    async def user_of_token(self, _token: str) -> KubeletUser | None:
        return None

    async def is_allowed(self, _user: KubeletUser, _verb: str, _subresource: str) -> bool:
        return True


class KubeletAuth:
    def __init__(self, reviewer: AccessReviewer) -> None:
        self._reviewer = reviewer

    async def check(self, method: str, path: str, authorization: str, certificate: bytes | None) -> KubeletUser:
        """The user of a permitted request; raises HttpError otherwise. `certificate` is the verified one in DER."""
        user = await self._user(authorization, certificate)
        if user is None:
            raise HttpError(401, "Unauthorized")
        needed = attributes_of(method, path)
        for subresource in needed.subresources:
            what = f"user={user.name}, verb={needed.verb}, resource=nodes"
            try:
                if await self._reviewer.is_allowed(user, needed.verb, subresource):
                    return user
            except ReviewFailed as error:
                log.warning("authorization failed", cause=str(error), user=user.name, subresource=subresource)
                raise HttpError(500, f"Authorization error ({what}, subresource={subresource})") from error
        raise HttpError(403, f"Forbidden ({what}, subresource(s)=[{' '.join(needed.subresources)}])\n")

    async def _user(self, authorization: str, certificate: bytes | None) -> KubeletUser | None:
        if certificate is not None and (user := user_of_certificate(certificate)):
            return user
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        # A token that is not ASCII is not reviewed.
        if scheme.lower() != "bearer" or not token or not token.isascii():
            return None
        try:
            return await self._reviewer.user_of_token(token)
        except ReviewFailed as error:
            log.warning("authentication failed", cause=str(error))
            return None
