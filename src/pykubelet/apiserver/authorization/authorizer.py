"""The union authorizer: `system:masters`, the Node authorizer, then RBAC; and its Forbidden error.

Upstream: staging/src/k8s.io/apiserver/pkg/authorization/union/union.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go
"""

from dataclasses import dataclass

from pykubelet.api.errors import Forbidden
from pykubelet.api.field_errors import go_quote
from pykubelet.apiserver.authorization.node import NodeAuthorizer
from pykubelet.apiserver.authorization.rbac import RbacAuthorizer, is_resource_request
from pykubelet.apiserver.request import MASTERS, AuthorizationAttributes, AuthorizationDecision

_MASTER = AuthorizationDecision(allowed=True)
# Escaped as upstream does, so that a browser does not render the message as HTML.
_SAFE = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True, slots=True)
class Authorizer:
    """Asks all authorizers in order. A denial has the reasons of all of them."""

    nodes: NodeAuthorizer
    rbac: RbacAuthorizer

    def decide(self, review: AuthorizationAttributes) -> AuthorizationDecision:
        if MASTERS in review.user.groups:
            return _MASTER
        by_node = self.nodes.decide(review)
        if by_node.allowed:
            return by_node
        by_role = self.rbac.decide(review)
        if by_role.allowed or not by_node.reason:
            return by_role
        return AuthorizationDecision(allowed=False, reason="\n".join(filter(None, (by_node.reason, by_role.reason))))


def forbidden_error(review: AuthorizationAttributes, decision: AuthorizationDecision) -> Forbidden:
    text = _question(review).translate(_SAFE)
    if decision.reason:
        text = f"{text}: {decision.reason}"
    if not review.resource:
        return Forbidden(f"forbidden: {text}", details={})
    subject = f"{review.resource}.{review.group}" if review.group else review.resource
    if review.name:
        subject = f"{subject} {go_quote(review.name)}"
    details = {"name": review.name, "group": review.group, "kind": review.resource}
    return Forbidden(
        f"{subject} is forbidden: {text}", details={field: value for field, value in details.items() if value}
    )


def _question(review: AuthorizationAttributes) -> str:
    who = f"User {go_quote(review.user.name)} cannot {review.verb}"
    if not is_resource_request(review):
        return f"{who} path {go_quote(review.path)}"
    resource = f"{review.resource}/{review.subresource}" if review.subresource else review.resource
    scope = f"in the namespace {go_quote(review.namespace)}" if review.namespace else "at the cluster scope"
    return f"{who} resource {go_quote(resource)} in API group {go_quote(review.group)} {scope}"
