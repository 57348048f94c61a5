"""Acting as somebody else: the Impersonate headers to what must be allowed, and whom they make.

In: the headers and who really asks. Out: the reviews that must all be allowed, and the user acted as.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation.go. Groups without a user are answered 400
here, where upstream says 500.

Who asks, and may they: authentication, impersonation and authorization of one request.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/{authentication,impersonation,authorization}.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol
from urllib.parse import unquote

from pykubelet.api.errors import BadRequest
from pykubelet.apiserver.authorization.authorizer import forbidden_error
from pykubelet.apiserver.filters.requestinfo import RequestInfo
from pykubelet.apiserver.request import (
    ACCOUNT_PREFIX,
    ALL_AUTHENTICATED,
    ALL_UNAUTHENTICATED,
    ANONYMOUS_NAME,
    AuthorizationAttributes,
    AuthorizationDecision,
    UserInfo,
    account_groups,
)

_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"


class Impersonation(NamedTuple):
    """What must be allowed, and who acts then."""

    reviews: tuple[AuthorizationAttributes, ...]
    user: UserInfo


def asks_to_impersonate(names: Iterable[str]) -> bool:
    """Whether one of the headers is about it; asked of every request."""
    return any(name[:12].lower() == _PREFIX for name in names)


def impersonation(headers: Iterable[tuple[str, str]], requestor: UserInfo) -> Impersonation:
    """What the headers ask for; raises BadRequest if they name no user."""
    name, uid = "", ""
    groups: list[str] = []
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers:
        key = header.lower()
        if key == "impersonate-user":
            name = name or value
        elif key == "impersonate-uid":
            uid = uid or value
        elif key == "impersonate-group":
            groups.append(value)
        elif key.startswith(_EXTRA):
            extra_key = unquote(key.removeprefix(_EXTRA))
            extra[extra_key] = (*extra.get(extra_key, ()), value)
    if not name and (uid or groups or extra):
        raise BadRequest("requested impersonation of groups, extra fields or a uid without impersonating a user")
    if not name:
        return Impersonation((), requestor)
    return Impersonation(
        tuple(_reviews(requestor, name, groups, extra, uid)),
        UserInfo(name, _groups(name, groups), uid, extra),
    )


def _reviews(
    requestor: UserInfo, name: str, groups: list[str], extra: dict[str, tuple[str, ...]], uid: str
) -> Iterable[AuthorizationAttributes]:
    asks = partial(AuthorizationAttributes, user=requestor, verb="impersonate", version="v1")
    account = _service_account(name)
    if account:
        yield asks(resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield asks(resource="users", name=name)
    for group in groups:
        yield asks(resource="groups", name=group)
    for key, values in extra.items():
        for value in values:
            yield asks(group=_AUTHENTICATION, resource="userextras", subresource=key, name=value)
    if uid:
        yield asks(group=_AUTHENTICATION, resource="uids", name=uid)


def _groups(name: str, asked: list[str]) -> tuple[str, ...]:
    """The groups asked for and those that follow from the name."""
    groups = list(asked)
    account = _service_account(name)
    if account and not groups:
        groups = list(account_groups(account[0]))
    if name == ANONYMOUS_NAME:
        if ALL_UNAUTHENTICATED not in groups:
            groups.append(ALL_UNAUTHENTICATED)
    elif ALL_AUTHENTICATED not in groups and ALL_UNAUTHENTICATED not in groups:
        groups.append(ALL_AUTHENTICATED)
    return tuple(groups)


def _service_account(name: str) -> tuple[str, str] | None:
    """Namespace and name in a service account's user name."""
    if not name.startswith(ACCOUNT_PREFIX):
        return None
    namespace, colon, account = name.removeprefix(ACCOUNT_PREFIX).partition(":")
    return (namespace, account) if colon and namespace and account and ":" not in account else None


# Whoever gets through here runs programs, or talks to them.
_SESSIONS = frozenset({("pods", "exec"), ("pods", "attach"), ("pods", "portforward")})
# Its own API has all of these, below any path.
_NODE_API = ("nodes", "proxy")


class RequestAuthenticator(Protocol):
    """Finds out who asks."""

    def authenticate(self, headers: Mapping[str, str], certificate: bytes | None) -> UserInfo:
        """The user of these headers or this client certificate (DER); raises Unauthorized if they are wrong."""


class RequestAuthorizer(Protocol):
    """Decides who may do what."""

    def decide(self, review: AuthorizationAttributes) -> AuthorizationDecision:
        """Whether the user may do that."""


class EffectiveUser(NamedTuple):
    """Whose rights count, and who really asks, if that is somebody else."""

    user: UserInfo
    impersonator: UserInfo | None = None


class AccessFilter:
    """What every request passes before anything is done for it."""

    def __init__(self, authenticator: RequestAuthenticator, authorizer: RequestAuthorizer) -> None:
        self._authenticator, self._authorizer = authenticator, authorizer

    def caller(self, headers: Mapping[str, str], certificate: bytes | None) -> EffectiveUser:
        """Who asks; raises Unauthorized, or Forbidden for an impersonation that is not allowed."""
        user = self._authenticator.authenticate(headers, certificate)
        if not asks_to_impersonate(headers):
            return EffectiveUser(user)
        asked = impersonation(headers.items(), user)
        for review in asked.reviews:
            self.check(review)
        return EffectiveUser(asked.user, user)

    def check(self, review: AuthorizationAttributes) -> None:
        """Raises Forbidden unless the user may do that."""
        decision = self._authorizer.decide(review)
        if not decision.allowed:
            raise forbidden_error(review, decision)


def attributes_of(user: UserInfo, route: RequestInfo) -> AuthorizationAttributes:
    """What is asked of the authorizer for a request about a resource."""
    return AuthorizationAttributes(
        user=user,
        verb=route.verb,
        group=route.group,
        version=route.version,
        resource=route.plural,
        subresource=route.subresource,
        namespace=route.namespace,
        name=route.name,
        path=route.path,
        fields=route.fields,
        labels=route.labels,
    )


def session_attributes(review: AuthorizationAttributes, headers: Mapping[str, str]) -> AuthorizationAttributes | None:
    """What is asked besides: a session in a pod needs `create`, also if it is opened with a GET as WebSockets are.

    Upstream: pkg/registry/core/pod/rest/subresources.go from 1.35 on, and for pods alone.
    """
    if review.group or review.verb == "create":
        return None
    about = (review.resource, review.subresource)
    if about in _SESSIONS or (about == _NODE_API and "Upgrade" in headers):
        return replace(review, verb="create")
    return None
