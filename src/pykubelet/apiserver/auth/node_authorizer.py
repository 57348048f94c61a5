"""What a node may ask for: itself, its pods, and the objects its pods name.

Upstream: plugin/pkg/auth/authorizer/node/node_authorizer.go. What a node may write of these is the business of
`admission/node_restriction.py`. Pods and volumes are looked at as they are when a question needs them; see `following.py`.
"""

from collections.abc import Callable, Sequence

from pykubelet.api.field_selector import parse_field_selector
from pykubelet.api.selector import SelectorError
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.apiserver.auth.following import Following, Objects
from pykubelet.apiserver.auth.identity import node_of
from pykubelet.apiserver.auth.node_graph import NodeGraph, Vertex
from pykubelet.apiserver.auth.rules import Rule, about_resource
from pykubelet.apiserver.call import Decision, Review

NODE_LEASES = "kube-node-lease"
NO_OPINION = Decision(allowed=False)
_ALLOWED = Decision(allowed=True)
_OWN_VERBS = frozenset({"get", "create", "update", "patch", "delete"})
_READ = frozenset({"get", "list", "watch"})


class NodeAuthorizer:
    """The Node authorizer. `rules` are those of the role `system:node`, for what is not divided among nodes."""

    def __init__(self, objects: Objects, rules: Sequence[Rule]) -> None:
        self._following = Following(objects, ("pods", "persistentvolumes"))
        self._graph = NodeGraph()
        self._rules = tuple(rules)
        self._divided: dict[tuple[str, str], Callable[[str, Review], Decision]] = {
            ("", "secrets"): self._read_named,
            ("", "configmaps"): self._read_named,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._get,
            ("storage.k8s.io", "volumeattachments"): self._get,
            ("resource.k8s.io", "resourceclaims"): self._get,
            ("", "serviceaccounts"): self._service_account,
            ("coordination.k8s.io", "leases"): _lease,
            ("storage.k8s.io", "csinodes"): _csi_node,
            ("", "nodes"): _node,
            ("", "pods"): self._pod,
        }

    def decide(self, review: Review) -> Decision:
        """Allowed, or no opinion with a reason: another authorizer may still allow it."""
        node = node_of(review.user)
        if node is None:
            return NO_OPINION
        if not node:
            return _denied(f"unknown node for user {go_quote(review.user.name)}")
        divided = self._divided.get((review.group, review.resource)) if about_resource(review) else None
        if divided is not None:
            return divided(node, review)
        return _ALLOWED if any(rule.allows(review) for rule in self._rules) else NO_OPINION

    def _related(self, node: str, review: Review) -> Decision:
        if not review.name:
            return _denied("No Object name found")
        for key, entry in self._following.take():
            document = None if entry is None else entry.document
            if key.collection == "pods":
                self._graph.set_pod(key.namespace, key.name, document)
            else:
                self._graph.set_volume(key.name, document)
        if self._graph.leads_to(Vertex(review.resource, review.namespace, review.name), node):
            return _ALLOWED
        return _denied(f"no relationship found between node '{node}' and this object")

    def _get(self, node: str, review: Review) -> Decision:
        if review.verb != "get":
            return _denied("can only get individual resources of this type")
        if review.subresource:
            return _denied("cannot get subresource")
        return self._related(node, review)

    def _read_named(self, node: str, review: Review) -> Decision:
        if review.verb not in _READ:
            return _denied("can only read resources of this type")
        if review.subresource:
            return _denied("cannot read subresource")
        if not review.namespace:
            return _denied("can only read namespaced object of this type")
        return self._related(node, review)

    def _claim(self, node: str, review: Review) -> Decision:
        if review.subresource != "status":
            return self._get(node, review)
        if review.verb not in {"update", "patch"}:
            return _denied("can only get/update/patch this type")
        return self._related(node, review)

    def _service_account(self, node: str, review: Review) -> Decision:
        if review.verb == "get" and not review.subresource:
            return self._read_named(node, review)
        if review.verb != "create" or not review.name:
            return _denied("can only create tokens for individual service accounts")
        if review.subresource != "token":
            return _denied("can only create token subresource of serviceaccount")
        return self._related(node, review)

    def _pod(self, node: str, review: Review) -> Decision:
        match review.subresource, review.verb:
            case "", "get":
                return self._related(node, review)
            case "", "list" | "watch":
                if _selects(review, "spec.nodeName", node):
                    return _ALLOWED
                if review.name:
                    return self._related(node, review)
                return _denied("can only list/watch pods with spec.nodeName field selector")
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return _ALLOWED
        return NO_OPINION


def _node(node: str, review: Review) -> Decision:
    match review.subresource, review.verb:
        case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
            return _ALLOWED
        case "", "get" | "list" | "watch":
            # By name and not by existence, so that a node can look for itself before it registers.
            if review.name == node:
                return _ALLOWED
            what = f"'{review.name}'" if review.name else "all nodes"
            return _denied(f"node '{node}' cannot read {what}, only its own Node object")
    return NO_OPINION


def _lease(node: str, review: Review) -> Decision:
    if review.verb not in _OWN_VERBS:
        return _denied("can only get, create, update, patch, or delete a node lease")
    if review.namespace != NODE_LEASES:
        return _denied(f"can only access leases in the {go_quote(NODE_LEASES)} system namespace")
    if review.verb != "create" and review.name != node:
        return _denied("can only access node lease with the same name as the requesting node")
    return _ALLOWED


def _csi_node(node: str, review: Review) -> Decision:
    if review.verb not in _OWN_VERBS:
        return _denied("can only get, create, update, patch, or delete a CSINode")
    if review.subresource:
        return _denied("cannot authorize CSINode subresources")
    if review.verb != "create" and review.name != node:
        return _denied("can only access CSINode with the same name as the requesting node")
    return _ALLOWED


def _selects(review: Review, field: str, value: str) -> bool:
    """Whether the field selector asks for this value alone; one that cannot be read asks for nothing."""
    try:
        requirements = parse_field_selector(review.fields).requirements
    except SelectorError:
        return False
    return any(one.equal and one.field == field and one.value == value for one in requirements)


def _denied(reason: str) -> Decision:
    return Decision(allowed=False, reason=reason)
