"""Who asks, and may they: authentication, impersonation and authorization of one request.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/{authentication,impersonation,authorization}.go.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from pykubelet.apiserver.auth.refusal import not_allowed
from pykubelet.apiserver.call import Decision, Review, User
from pykubelet.apiserver.http.impersonate import asks_to_impersonate, impersonation
from pykubelet.apiserver.requests.routes import Route

# Whoever gets through here runs programs, or talks to them.
_SESSIONS = frozenset({("pods", "exec"), ("pods", "attach"), ("pods", "portforward")})
# Its own API has all of these, below any path.
_NODE_API = ("nodes", "proxy")


class Authenticator(Protocol):
    """Finds out who asks."""

    def authenticate(self, headers: Mapping[str, str], certificate: bytes | None) -> User:
        """The user of these headers or this client certificate (DER); raises Unauthorized if they are wrong."""


class Authorizer(Protocol):
    """Decides who may do what."""

    def decide(self, review: Review) -> Decision:
        """Whether the user may do that."""


class Caller(NamedTuple):
    """Whose rights count, and who really asks, if that is somebody else."""

    user: User
    impersonator: User | None = None


class Gate:
    """What every request passes before anything is done for it."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator, self._authorizer = authenticator, authorizer

    def caller(self, headers: Mapping[str, str], certificate: bytes | None) -> Caller:
        """Who asks; raises Unauthorized, or Forbidden for an impersonation that is not allowed."""
        user = self._authenticator.authenticate(headers, certificate)
        if not asks_to_impersonate(headers):
            return Caller(user)
        asked = impersonation(headers.items(), user)
        for review in asked.reviews:
            self.check(review)
        return Caller(asked.user, user)

    def check(self, review: Review) -> None:
        """Raises Forbidden unless the user may do that."""
        decision = self._authorizer.decide(review)
        if not decision.allowed:
            raise not_allowed(review, decision)


def review_of(user: User, route: Route) -> Review:
    """What is asked of the authorizer for a request about a resource."""
    return Review(
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


def review_of_session(review: Review, headers: Mapping[str, str]) -> Review | None:
    """What is asked besides: a session in a pod needs `create`, also if it is opened with a GET as WebSockets are.

    Upstream: pkg/registry/core/pod/rest/subresources.go from 1.35 on, and for pods alone.
    """
    if review.group or review.verb == "create":
        return None
    about = (review.resource, review.subresource)
    if about in _SESSIONS or (about == _NODE_API and "Upgrade" in headers):
        return replace(review, verb="create")
    return None
