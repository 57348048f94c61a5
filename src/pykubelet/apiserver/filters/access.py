"""Authenticates, impersonates and authorizes one request.

Impersonation of groups without a user is a 400 here; upstream answers 500. A session in a pod needs `create`, also if
it is opened with a GET as WebSockets are; upstream has that rule from 1.35 on.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/authentication.go,
staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation.go,
staging/src/k8s.io/apiserver/pkg/endpoints/filters/authorization.go
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple
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
# These subresources run programs in a pod, or talk to them.
_SESSIONS = frozenset({("pods", "exec"), ("pods", "attach"), ("pods", "portforward")})
# The kubelet's API, which offers all of these.
_NODE_API = ("nodes", "proxy")

Authenticate = Callable[[Mapping[str, str], bytes | None], UserInfo]
"""The user of these headers or this client certificate (DER); raises Unauthorized if they are invalid."""
Authorize = Callable[[AuthorizationAttributes], AuthorizationDecision]


class EffectiveUser(NamedTuple):
    """The user whose rights count, and the impersonator if there is one."""

    user: UserInfo
    impersonator: UserInfo | None = None


class AccessFilter:
    """Checks who sends a request and whether they may."""

    def __init__(self, authenticate: Authenticate, authorize: Authorize) -> None:
        self._authenticate, self._authorize = authenticate, authorize

    def authenticate(self, headers: Mapping[str, str], certificate: bytes | None) -> EffectiveUser:
        """The user of a request; raises Unauthorized, or Forbidden if an impersonation is not allowed."""
        user = self._authenticate(headers, certificate)
        if not asks_to_impersonate(headers):
            return EffectiveUser(user)
        impersonated = impersonation(headers.items(), user)
        for attributes in impersonated.required:
            self.check(attributes)
        return EffectiveUser(impersonated.user, user)

    def check(self, attributes: AuthorizationAttributes) -> None:
        """Raises Forbidden unless the authorizer allows the request."""
        decision = self._authorize(attributes)
        if not decision.allowed:
            raise forbidden_error(attributes, decision)


def attributes_of(user: UserInfo, info: RequestInfo) -> AuthorizationAttributes:
    return AuthorizationAttributes(
        user=user,
        verb=info.verb,
        group=info.group,
        version=info.version,
        resource=info.plural,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name,
        path=info.path,
        fields=info.fields,
        labels=info.labels,
    )


def session_attributes(
    attributes: AuthorizationAttributes, headers: Mapping[str, str]
) -> AuthorizationAttributes | None:
    """The additional attributes to authorize for a session: `create`; None for other requests."""
    if attributes.group or attributes.verb == "create":
        return None
    about = (attributes.resource, attributes.subresource)
    if about in _SESSIONS or (about == _NODE_API and "Upgrade" in headers):
        return replace(attributes, verb="create")
    return None


class Impersonation(NamedTuple):
    """The attributes that must all be allowed, and the impersonated user."""

    required: tuple[AuthorizationAttributes, ...]
    user: UserInfo


def asks_to_impersonate(names: Iterable[str]) -> bool:
    return any(name[:12].lower() == _PREFIX for name in names)


def impersonation(headers: Iterable[tuple[str, str]], requestor: UserInfo) -> Impersonation:
    """Parses the Impersonate headers; raises BadRequest if they name no user."""
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
    required = tuple(_required(requestor, name, groups, extra, uid))
    return Impersonation(required, UserInfo(name, _groups(name, groups), uid, extra))


def _required(
    requestor: UserInfo, name: str, groups: list[str], extra: dict[str, tuple[str, ...]], uid: str
) -> Iterable[AuthorizationAttributes]:
    attributes = partial(AuthorizationAttributes, user=requestor, verb="impersonate", version="v1")
    if account := _service_account(name):
        yield attributes(resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield attributes(resource="users", name=name)
    for group in groups:
        yield attributes(resource="groups", name=group)
    for key, values in extra.items():
        for value in values:
            yield attributes(group=_AUTHENTICATION, resource="userextras", subresource=key, name=value)
    if uid:
        yield attributes(group=_AUTHENTICATION, resource="uids", name=uid)


def _groups(name: str, requested: list[str]) -> tuple[str, ...]:
    """The requested groups and those that follow from the user name."""
    groups = list(requested)
    if not groups and (account := _service_account(name)):
        groups = list(account_groups(account[0]))
    if name == ANONYMOUS_NAME:
        if ALL_UNAUTHENTICATED not in groups:
            groups.append(ALL_UNAUTHENTICATED)
    elif ALL_AUTHENTICATED not in groups and ALL_UNAUTHENTICATED not in groups:
        groups.append(ALL_AUTHENTICATED)
    return tuple(groups)


def _service_account(name: str) -> tuple[str, str] | None:
    """The namespace and name in a service account's user name."""
    if not name.startswith(ACCOUNT_PREFIX):
        return None
    namespace, colon, account = name.removeprefix(ACCOUNT_PREFIX).partition(":")
    return (namespace, account) if colon and namespace and account and ":" not in account else None
