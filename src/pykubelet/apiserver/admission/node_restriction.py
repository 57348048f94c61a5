"""What a node may write: itself, its lease, its mirror pods, its pods' status, tokens for its pods.

The Node authorizer decides by names; here the objects themselves are looked at. Requests by others pass.

Upstream: plugin/pkg/admission/noderestriction/admission.go
"""

from collections.abc import Callable
from typing import Protocol

from pykubelet.api.resources import LEASES, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, SERVICE_ACCOUNTS
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.api.wire import Document
from pykubelet.apiserver.admission import Request
from pykubelet.apiserver.admission.node_writes import (
    audiences_of,
    claim_status_problem,
    mirror_problem,
    new_node_problem,
    node_change_problem,
    node_name,
    pod_status_problem,
    reference_problem,
)
from pykubelet.apiserver.auth.identity import node_of
from pykubelet.apiserver.auth.node_authorizer import NODE_LEASES
from pykubelet.apiserver.call import Decision, Review
from pykubelet.apiserver.failures import forbidden, not_found
from pykubelet.apiserver.store import Entry, Key


class Authorizer(Protocol):
    """Decides who may do what."""

    def decide(self, review: Review) -> Decision:
        """Whether the user may do that."""


class NodeRestriction:
    """The rule; `newest` gives the newest entry of a key."""

    def __init__(self, newest: Callable[[Key], Entry | None], authorizer: Authorizer) -> None:
        self._newest, self._authorizer = newest, authorizer

    def admit(self, request: Request, new: Document | None, old: Document | None) -> Document | None:
        """The object as it came; Forbidden if it is none of the node's business."""
        node = node_of(request.user)
        if node is None or request.verb == "connect":
            return new
        why = self._problem(node, request, new or {}, old or {})
        if why:
            metadata = (new or {}).get("metadata") or {}
            name = request.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
            raise forbidden(request.served.resource, name, why)
        return new

    def _problem(self, node: str, request: Request, new: Document, old: Document) -> str:
        if not node:
            return f"could not determine node from user {go_quote(request.user.name)}"
        match request.served.resource.group_resource:
            case PODS.group_resource:
                return self._pod(node, request, new, old)
            case NODES.group_resource:
                return _node(node, request, new, old)
            case PERSISTENT_VOLUME_CLAIMS.group_resource:
                return _claim(node, request, new, old)
            case SERVICE_ACCOUNTS.group_resource if request.subresource == "token" and request.verb == "create":
                return self._token(node, request, new["spec"])
            case LEASES.group_resource:
                return _lease(node, request, new)
        return ""

    def _pod(self, node: str, request: Request, new: Document, old: Document) -> str:
        operation = go_quote(request.verb.upper())
        match request.subresource, request.verb:
            case "", "create":
                return self._mirror(node, new)
            case "", "delete":
                only = f"node {go_quote(node)} can only delete pods with spec.nodeName set to itself"
                return "" if node_name(old) == node else only
            case "", _:
                return f"unexpected operation {operation}, node {go_quote(node)} can only create and delete mirror pods"
            case "status", "update":
                return pod_status_problem(node, new, old)
            case "eviction", "create":
                only = f"node {node} can only evict pods with spec.nodeName set to itself"
                return "" if node_name(self._found(request.namespace, request.name)) == node else only
            case "status" | "eviction", _:
                return f"unexpected operation {operation}"
        subresource = go_quote(request.subresource)
        return f"unexpected pod subresource {subresource}, only 'status' and 'eviction' are allowed"

    def _mirror(self, node: str, pod: Document) -> str:
        if why := mirror_problem(node, pod):
            return why
        entry = self._newest(Key("nodes", "", node))
        if entry is None:
            raise not_found(NODES, node)
        named, real = pod["metadata"]["ownerReferences"][0].get("uid", ""), entry.document["metadata"].get("uid", "")
        if named != real:
            return f"node {node} UID mismatch: expected {named} got {real}"
        return reference_problem(node, pod)

    def _token(self, node: str, request: Request, spec: Document) -> str:
        """Why a node may not have this token: it must be bound to a pod of the node, for an audience of that pod."""
        bound = spec.get("boundObjectRef") or {}
        if bound.get("apiVersion") != "v1" or bound.get("kind") != "Pod" or not bound.get("name"):
            return "node requested token not bound to a pod"
        if not (uid := bound.get("uid")):
            return "node requested token with a pod binding without a uid"
        pod = self._found(request.namespace, bound["name"])
        if pod["metadata"].get("uid") != uid:
            lost = "The object might have been deleted and then recreated"
            return f"the UID in the bound object reference ({uid}) does not match the UID in record. {lost}"
        if node_name(pod) != node:
            return "node requested token bound to a pod scheduled on a different node"
        audiences = spec.get("audiences") or [""]
        if len(audiences) > 1:
            return "node may only request 0 or 1 audiences"
        if audiences[0] in audiences_of(pod) or self._may_ask_for(audiences[0], request):
            return ""
        missing = f"audience {go_quote(audiences[0])} not found in pod spec volume"
        return f"{missing}, {request.user.name} is not authorized to request tokens for this audience"

    def _may_ask_for(self, audience: str, request: Request) -> bool:
        review = Review(
            user=request.user,
            verb="request-serviceaccounts-token-audience",
            version="v1",
            resource=audience,
            namespace=request.namespace,
            name=request.name,
        )
        return self._authorizer.decide(review).allowed

    def _found(self, namespace: str, pod: str) -> Document:
        entry = self._newest(Key("pods", namespace, pod))
        if entry is None:
            raise not_found(PODS, pod)
        return entry.document


def _node(node: str, request: Request, new: Document, old: Document) -> str:
    if request.name != node:
        return f"node {go_quote(node)} is not allowed to modify node {go_quote(request.name)}"
    if request.verb == "create":
        return new_node_problem(node, new)
    return node_change_problem(node, new, old) if request.verb == "update" else ""


def _claim(node: str, request: Request, new: Document, old: Document) -> str:
    if request.subresource != "status":
        return "may only update PVC status"
    if request.verb != "update":
        return f"unexpected operation {go_quote(request.verb.upper())}"
    return claim_status_problem(node, new, old)


def _lease(node: str, request: Request, new: Document) -> str:
    if request.namespace != NODE_LEASES:
        return f"can only access leases in the {go_quote(NODE_LEASES)} system namespace"
    name = new["metadata"].get("name") if request.verb == "create" else request.name
    return "" if name == node else "can only access node lease with the same name as the requesting node"
