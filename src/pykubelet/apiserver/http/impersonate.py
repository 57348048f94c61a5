"""Acting as somebody else: the Impersonate headers to what must be allowed, and whom they make.

In: the headers and who really asks. Out: the reviews that must all be allowed, and the user acted as.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation.go. Groups without a user are answered 400
here, where upstream says 500.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

from pykubelet.api.errors import BadRequest
from pykubelet.apiserver.auth.identity import ACCOUNT_PREFIX, account_groups
from pykubelet.apiserver.call import ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS_NAME, Review, User

_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"


class Impersonation(NamedTuple):
    """What must be allowed, and who acts then."""

    reviews: tuple[Review, ...]
    user: User


def asks_to_impersonate(names: Iterable[str]) -> bool:
    """Whether one of the headers is about it; asked of every request."""
    return any(name[:12].lower() == _PREFIX for name in names)


def impersonation(headers: Iterable[tuple[str, str]], requestor: User) -> Impersonation:
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
        User(name, _groups(name, groups), uid, extra),
    )


def _reviews(
    requestor: User, name: str, groups: list[str], extra: dict[str, tuple[str, ...]], uid: str
) -> Iterable[Review]:
    asks = partial(Review, user=requestor, verb="impersonate", version="v1")
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
