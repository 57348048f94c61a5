"""NodeRestriction: limits what a node may write; NodeTaint: taints new nodes.

A node may write itself, its lease, its CSINode and ResourceSlices, its mirror pods, its pods' status and tokens for its pods. It may not set labels
that decide where pods run. The Node authorizer decides by name; this plugin reads the objects.

Upstream: plugin/pkg/admission/noderestriction/admission.go, plugin/pkg/admission/nodetaint/admission.go,
staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go
"""

from collections.abc import Callable, Mapping, Sequence

from pykubelet.api.field_errors import go_quote
from pykubelet.api.schema import LEASES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, SERVICE_ACCOUNTS
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.nodevolumes import volume_problem
from pykubelet.apiserver.authorization.node import MIRROR_ANNOTATION, NODE_LEASES
from pykubelet.apiserver.errors import forbidden, not_found
from pykubelet.apiserver.request import AuthorizationAttributes, AuthorizationDecision, node_of
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.kinds.node import with_not_ready_taint
from pykubelet.kinds.pod.visitors import UnknownVolumeError, api_references

_RESTRICTED = "node-restriction.kubernetes.io"
_KUBERNETES = ("kubernetes.io", "k8s.io")
_OF_NODES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_ALLOWED = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
_CLAIM_STATUS = frozenset({"capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"})
_OWN_PODS = "can only update pod status for pods with spec.nodeName set to itself"
_UNSEEN_METADATA = frozenset({"resourceVersion", "managedFields"})


class NodeRestriction:
    """Limits what a node may write. `newest` returns the newest entry of a key."""

    resources = None

    def __init__(
        self,
        newest: Callable[[StoreKey], StoreEntry | None],
        authorize: Callable[[AuthorizationAttributes], AuthorizationDecision],
    ) -> None:
        self._newest, self._authorize = newest, authorize

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        """Returns the object unchanged; Forbidden if the node may not write it."""
        node = node_of(attributes.user)
        if node is None or attributes.verb == "connect":
            return new
        why = self._problem(node, attributes, new or {}, old or {})
        if why:
            metadata = (new or {}).get("metadata") or {}
            name = attributes.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
            raise forbidden(attributes.served.resource, name, why)
        return new

    def _problem(self, node: str, attributes: AdmissionAttributes, new: Document, old: Document) -> str:
        if not node:
            return f"could not determine node from user {go_quote(attributes.user.name)}"
        match attributes.served.resource.group_resource:
            case PODS.group_resource:
                return self._pod(node, attributes, new, old)
            case NODES.group_resource:
                return _node(node, attributes, new, old)
            case PERSISTENT_VOLUMES.group_resource:
                return self._volume(node, attributes, new, old)
            case PERSISTENT_VOLUME_CLAIMS.group_resource:
                return _claim(node, attributes, new, old)
            case SERVICE_ACCOUNTS.group_resource if attributes.subresource == "token" and attributes.verb == "create":
                return self._token(node, attributes, new["spec"])
            case LEASES.group_resource:
                return _lease(node, attributes, new)
            case "csinodes.storage.k8s.io":
                name = new["metadata"].get("name") if attributes.verb == "create" else attributes.name
                return "" if name == node else "can only access CSINode with the same name as the requesting node"
            case "resourceslices.resource.k8s.io" if attributes.verb in ("create", "delete"):
                slice_spec = (new if attributes.verb == "create" else old).get("spec") or {}
                only = f"can only {attributes.verb} ResourceSlice with the same NodeName as the requesting node"
                return "" if slice_spec.get("nodeName") == node else only
        return ""

    def _pod(self, node: str, attributes: AdmissionAttributes, new: Document, old: Document) -> str:
        operation = go_quote(attributes.verb.upper())
        match attributes.subresource, attributes.verb:
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
                return "" if node_name(self._found(attributes.namespace, attributes.name)) == node else only
            case "status" | "eviction", _:
                return f"unexpected operation {operation}"
        subresource = go_quote(attributes.subresource)
        return f"unexpected pod subresource {subresource}, only 'status' and 'eviction' are allowed"

    def _volume(self, node: str, attributes: AdmissionAttributes, new: Document, old: Document) -> str:
        if attributes.subresource:
            return "may not write the status of persistent volumes"
        claim = (new.get("spec") or {}).get("claimRef") or {}
        key = StoreKey(PERSISTENT_VOLUME_CLAIMS.group_resource, claim.get("namespace", ""), claim.get("name", ""))
        entry = self._newest(key) if claim else None
        return volume_problem(node, attributes.verb, new, old, None if entry is None else entry.document)

    def _mirror(self, node: str, pod: Document) -> str:
        if why := mirror_problem(node, pod):
            return why
        entry = self._newest(StoreKey("nodes", "", node))
        if entry is None:
            raise not_found(NODES, node)
        named, real = pod["metadata"]["ownerReferences"][0].get("uid", ""), entry.document["metadata"].get("uid", "")
        if named != real:
            return f"node {node} UID mismatch: expected {named} got {real}"
        return reference_problem(node, pod)

    def _token(self, node: str, attributes: AdmissionAttributes, spec: Document) -> str:
        """Why a node may not request this token: it must be bound to a pod of the node, for an audience of that pod."""
        bound = spec.get("boundObjectRef") or {}
        if bound.get("apiVersion") != "v1" or bound.get("kind") != "Pod" or not bound.get("name"):
            return "node requested token not bound to a pod"
        if not (uid := bound.get("uid")):
            return "node requested token with a pod binding without a uid"
        pod = self._found(attributes.namespace, bound["name"])
        if pod["metadata"].get("uid") != uid:
            lost = "The object might have been deleted and then recreated"
            return f"the UID in the bound object reference ({uid}) does not match the UID in record. {lost}"
        if node_name(pod) != node:
            return "node requested token bound to a pod scheduled on a different node"
        audiences = spec.get("audiences") or [""]
        if len(audiences) > 1:
            return "node may only request 0 or 1 audiences"
        if audiences[0] in audiences_of(pod) or self._may_ask_for(audiences[0], attributes):
            return ""
        missing = f"audience {go_quote(audiences[0])} not found in pod spec volume"
        return f"{missing}, {attributes.user.name} is not authorized to request tokens for this audience"

    def _may_ask_for(self, audience: str, attributes: AdmissionAttributes) -> bool:
        review = AuthorizationAttributes(
            user=attributes.user,
            verb="request-serviceaccounts-token-audience",
            version="v1",
            resource=audience,
            namespace=attributes.namespace,
            name=attributes.name,
        )
        return self._authorize(review).allowed

    def _found(self, namespace: str, pod: str) -> Document:
        entry = self._newest(StoreKey("pods", namespace, pod))
        if entry is None:
            raise not_found(PODS, pod)
        return entry.document


class NodeTaint:
    """Taints a new node as not ready."""

    resources = frozenset({NODES.group_resource})

    def admit(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> Document | None:
        if new is None or old is not None or attributes.subresource:
            return new
        return with_not_ready_taint(new)


def forbidden_labels(new: Mapping[str, str], old: Mapping[str, str]) -> list[str]:
    """The changed labels that a node may not set, change or remove, sorted."""
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    return sorted(filter(_is_forbidden, changed))


def _is_forbidden(label: str) -> bool:
    prefix, slash, _ = label.partition("/")
    domain = prefix if slash else ""
    if _is_within(domain, _RESTRICTED):
        return True
    if not any(_is_within(domain, parent) for parent in _KUBERNETES):
        return False
    return label not in _ALLOWED and not any(_is_within(domain, parent) for parent in _OF_NODES)


def _is_within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def node_name(pod: Document | None) -> str:
    name: str = ((pod or {}).get("spec") or {}).get("nodeName", "")
    return name


def mirror_problem(node: str, pod: Document) -> str:
    """Why the pod is not a mirror pod of the node; empty if it is."""
    shown, metadata = go_quote(node), pod["metadata"]
    if MIRROR_ANNOTATION not in (metadata.get("annotations") or {}):
        annotation = go_quote(MIRROR_ANNOTATION)
        return f"pod does not have {annotation} annotation, node {shown} can only create mirror pods"
    if node_name(pod) != node:
        return f"node {shown} can only create pods with spec.nodeName set to itself"
    return _owner_problem(node, metadata.get("ownerReferences") or ())


def reference_problem(node: str, pod: Document) -> str:
    """Why a mirror pod is rejected: it references other objects."""
    try:
        referenced = next(api_references(pod), "")
    except UnknownVolumeError as error:
        return f"error checking mirror pod for API references: {error}"
    return f"node {go_quote(node)} can not create pods that reference {referenced}" if referenced else ""


def pod_status_problem(node: str, new: Document, old: Document) -> str:
    """Why a node may not write this pod status; empty if it may."""
    shown = go_quote(node)
    if node_name(old) != node:
        return f"node {shown} {_OWN_PODS}"
    if (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
        return f"node {shown} cannot update labels through pod status"
    now, before = new.get("status") or {}, old.get("status") or {}
    if (now.get("resourceClaimStatuses") or []) != (before.get("resourceClaimStatuses") or []):
        return f"node {shown} cannot update resource claim statues"
    if now.get("extendedResourceClaimStatus") != before.get("extendedResourceClaimStatus"):
        return f"node {shown} cannot update extended resource claim status"
    return ""


def new_node_problem(node: str, new: Document) -> str:
    """Why a node may not register with this object; empty if it may."""
    shown = go_quote(node)
    if (new.get("spec") or {}).get("configSource") is not None:
        return f"node {shown} is not allowed to create pods with a non-nil configSource"
    labels = forbidden_labels(new["metadata"].get("labels") or {}, {})
    return f"node {shown} is not allowed to set the following labels: {', '.join(labels)}" if labels else ""


def node_change_problem(node: str, new: Document, old: Document) -> str:
    """Why a node may not change itself like this; empty if it may."""
    shown = go_quote(node)
    now, before = new.get("spec") or {}, old.get("spec") or {}
    if now.get("configSource") not in (None, before.get("configSource")):
        return f"node {shown} is not allowed to update configSource to a new non-nil configSource"
    if (now.get("taints") or []) != (before.get("taints") or []):
        return f"node {shown} is not allowed to modify taints"
    if (new["metadata"].get("ownerReferences") or []) != (old["metadata"].get("ownerReferences") or []):
        return f"node {shown} is not allowed to modify ownerReferences"
    labels = forbidden_labels(new["metadata"].get("labels") or {}, old["metadata"].get("labels") or {})
    return f"is not allowed to modify labels: {', '.join(labels)}" if labels else ""


def claim_status_problem(node: str, new: Document, old: Document) -> str:
    """Why a node may not write this claim status; empty if it may. Upstream appends a diff of Go values."""
    now, before = _without_claim_status(new), _without_claim_status(old)
    if now == before:
        return ""
    changed = ", ".join(sorted(part for part in now.keys() | before.keys() if now.get(part) != before.get(part)))
    allowed = "status.quantity and status.conditions"
    return f"node {go_quote(node)} is not allowed to update fields other than {allowed}: {changed}"


def audiences_of(pod: Document) -> set[str]:
    """The audiences of the pod's projected tokens; empty for this server."""
    return {
        source["serviceAccountToken"].get("audience", "")
        for volume in pod["spec"].get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
        if source.get("serviceAccountToken") is not None
    }


def _owner_problem(node: str, owners: Sequence[Document]) -> str:
    only = f"node {go_quote(node)} can only create pods with"
    if len(owners) > 1:
        return f"{only} a single owner reference set to itself"
    if not owners or [owners[0].get(field) for field in ("apiVersion", "kind", "name")] != ["v1", "Node", node]:
        return f"{only} an owner reference set to itself"
    if not owners[0].get("controller"):
        return f"{only} a controller owner reference set to itself"
    if owners[0].get("blockOwnerDeletion"):
        return f"node {go_quote(node)} must not set blockOwnerDeletion on an owner reference"
    return ""


def _without_claim_status(claim: Document) -> Document:
    """The parts of a claim that a node may not change."""
    metadata = {field: value for field, value in claim["metadata"].items() if field not in _UNSEEN_METADATA}
    status = {field: value for field, value in (claim.get("status") or {}).items() if field not in _CLAIM_STATUS}
    return claim | {"metadata": metadata, "status": status}


def _node(node: str, attributes: AdmissionAttributes, new: Document, old: Document) -> str:
    if attributes.name != node:
        return f"node {go_quote(node)} is not allowed to modify node {go_quote(attributes.name)}"
    if attributes.verb == "create":
        return new_node_problem(node, new)
    return node_change_problem(node, new, old) if attributes.verb == "update" else ""


def _claim(node: str, attributes: AdmissionAttributes, new: Document, old: Document) -> str:
    if attributes.subresource != "status":
        return "may only update PVC status"
    if attributes.verb != "update":
        return f"unexpected operation {go_quote(attributes.verb.upper())}"
    return claim_status_problem(node, new, old)


def _lease(node: str, attributes: AdmissionAttributes, new: Document) -> str:
    if attributes.namespace != NODE_LEASES:
        return f"can only access leases in the {go_quote(NODE_LEASES)} system namespace"
    name = new["metadata"].get("name") if attributes.verb == "create" else attributes.name
    return "" if name == node else "can only access node lease with the same name as the requesting node"
