"""Why a node may not write an object, by the object itself (pure).

In: the node's name, the object as it would be stored and as it is. Out: the reason in the API server's words; empty if
there is none.

Upstream: plugin/pkg/admission/noderestriction/admission.go
"""

from collections.abc import Sequence

from pykubelet.api.validation.field_errors import go_quote
from pykubelet.api.validation.static_pods import UnknownVolumeError, api_references
from pykubelet.api.wire import Document
from pykubelet.apiserver.admission.node_labels import forbidden_labels
from pykubelet.apiserver.auth.node_graph import MIRROR_ANNOTATION

_CLAIM_STATUS = frozenset({"capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"})
_OWN_PODS = "can only update pod status for pods with spec.nodeName set to itself"
_UNSEEN_METADATA = frozenset({"resourceVersion", "managedFields"})


def node_name(pod: Document | None) -> str:
    """The node a pod is bound to."""
    name: str = ((pod or {}).get("spec") or {}).get("nodeName", "")
    return name


def mirror_problem(node: str, pod: Document) -> str:
    """Why this is no mirror pod of the node."""
    shown, metadata = go_quote(node), pod["metadata"]
    if MIRROR_ANNOTATION not in (metadata.get("annotations") or {}):
        annotation = go_quote(MIRROR_ANNOTATION)
        return f"pod does not have {annotation} annotation, node {shown} can only create mirror pods"
    if node_name(pod) != node:
        return f"node {shown} can only create pods with spec.nodeName set to itself"
    return _owner_problem(node, metadata.get("ownerReferences") or ())


def reference_problem(node: str, pod: Document) -> str:
    """Why a mirror pod would give the node rights: it names other objects."""
    try:
        referenced = next(api_references(pod), "")
    except UnknownVolumeError as error:
        return f"error checking mirror pod for API references: {error}"
    return f"node {go_quote(node)} can not create pods that reference {referenced}" if referenced else ""


def pod_status_problem(node: str, new: Document, old: Document) -> str:
    """Why a node may not write this status of a pod."""
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
    """Why a node may not register so."""
    shown = go_quote(node)
    if (new.get("spec") or {}).get("configSource") is not None:
        return f"node {shown} is not allowed to create pods with a non-nil configSource"
    labels = forbidden_labels(new["metadata"].get("labels") or {}, {})
    return f"node {shown} is not allowed to set the following labels: {', '.join(labels)}" if labels else ""


def node_change_problem(node: str, new: Document, old: Document) -> str:
    """Why a node may not change itself so."""
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
    """Why a node may not write this status of a claim. Upstream shows a difference of Go values at the end."""
    now, before = _without_claim_status(new), _without_claim_status(old)
    if now == before:
        return ""
    changed = ", ".join(sorted(part for part in now.keys() | before.keys() if now.get(part) != before.get(part)))
    allowed = "status.quantity and status.conditions"
    return f"node {go_quote(node)} is not allowed to update fields other than {allowed}: {changed}"


def audiences_of(pod: Document) -> set[str]:
    """For whom the pod's volumes want tokens; the empty text is this server."""
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
    """What a node may not change of a claim."""
    metadata = {field: value for field, value in claim["metadata"].items() if field not in _UNSEEN_METADATA}
    status = {field: value for field, value in (claim.get("status") or {}).items() if field not in _CLAIM_STATUS}
    return claim | {"metadata": metadata, "status": status}
