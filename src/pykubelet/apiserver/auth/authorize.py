"""May they? `system:masters` always; others if the Node authorizer or RBAC allows it.

Upstream: staging/src/k8s.io/apiserver/pkg/authorization/union/union.go
"""

from dataclasses import dataclass

from pykubelet.apiserver.auth.node_authorizer import NodeAuthorizer
from pykubelet.apiserver.auth.rbac import Rbac
from pykubelet.apiserver.call import MASTERS, Decision, Review

_MASTER = Decision(allowed=True)


@dataclass(frozen=True, slots=True)
class Authorizer:
    """All authorizers in their order. A refusal carries the reasons of all of them."""

    nodes: NodeAuthorizer
    rbac: Rbac

    def decide(self, review: Review) -> Decision:
        """Whether the user may do that."""
        if MASTERS in review.user.groups:
            return _MASTER
        by_node = self.nodes.decide(review)
        if by_node.allowed:
            return by_node
        by_role = self.rbac.decide(review)
        if by_role.allowed or not by_node.reason:
            return by_role
        return Decision(allowed=False, reason="\n".join(filter(None, (by_node.reason, by_role.reason))))
