"""Confines what a node may write of persistent volumes to those that it provisions on its own disk.

Upstream's nodes write no volumes: a provisioner is another program there. Without these rules a node that may write volumes
could have another node's pods use any folder of that other node.
"""

from collections.abc import Mapping

from pykubelet.api.field_errors import go_quote
from pykubelet.api.serializer import Document

_HOSTNAME = "kubernetes.io/hostname"
_PROVISIONED_BY, _PROVISIONER = "pv.kubernetes.io/provisioned-by", "pykubelet.io/local-path"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_FIXED = ("local", "nodeAffinity", "claimRef", "accessModes", "volumeMode", "persistentVolumeReclaimPolicy")


def volume_problem(node: str, verb: str, new: Document, old: Document, claim: Document | None) -> str:
    """Why a node may not write a volume like this; empty if it may. `claim` is the one that a new volume is for."""
    if verb not in ("create", "update", "delete"):
        return "may only create, update and delete persistent volumes"
    only = f"node {go_quote(node)} may only write volumes that it has provisioned on itself"
    if not all(_is_own(node, each) for each in (new, old) if each):
        return only
    if verb == "create" and not _is_selected(node, new, claim):
        return f"{only}, for claims that it was selected for"
    if verb == "update" and any(new["spec"].get(field) != old["spec"].get(field) for field in _FIXED):
        return f"{only}, and change only their capacity"
    return ""


def _is_own(node: str, volume: Document) -> bool:
    """Whether a volume is a folder of exactly this node, as its provisioner makes them."""
    spec, annotations = volume.get("spec") or {}, volume["metadata"].get("annotations") or {}
    term = {"matchExpressions": [{"key": _HOSTNAME, "operator": "In", "values": [node]}]}
    path = (spec.get("local") or {}).get("path", "")
    return (
        annotations.get(_PROVISIONED_BY) == _PROVISIONER
        and spec.get("nodeAffinity") == {"required": {"nodeSelectorTerms": [term]}}
        # A folder of this name is made for this volume and has nothing else in it.
        and path.endswith(f"/{volume['metadata'].get('name')}")
    )


def _is_selected(node: str, volume: Document, claim: Document | None) -> bool:
    if claim is None:
        return False
    metadata: Mapping[str, str] = claim["metadata"]
    reference: Document = volume["spec"].get("claimRef") or {}
    is_for_claim = reference.get("uid") == metadata["uid"] and volume["metadata"]["name"] == f"pvc-{metadata['uid']}"
    return is_for_claim and (claim["metadata"].get("annotations") or {}).get(_SELECTED_NODE) == node
