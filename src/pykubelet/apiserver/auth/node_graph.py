"""Which objects a node's pods lead to (pure).

Pods and persistent volumes go in as they change; out comes whether a node may see an object:

    node <- pod <- secret, configmap, serviceaccount, claim        claim <- volume <- secret

Every object that pods name is kept with the number of pods per node that name it, so a question costs O(1) and a change
costs as much as the pod names objects, however many pods there are.

Upstream: plugin/pkg/auth/authorizer/node/graph.go, pkg/api/v1/persistentvolume/util.go
"""

from collections.abc import Iterator
from typing import NamedTuple

from pykubelet.api.validation.static_pods import config_map_names, secret_names
from pykubelet.api.wire import Document

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"

# Where a persistent volume names the secrets that a node needs to mount it; the others are for controllers.
_VOLUME_SECRETS = {
    "cephfs": ("secretRef",),
    "cinder": ("secretRef",),
    "flexVolume": ("secretRef",),
    "rbd": ("secretRef",),
    "scaleIO": ("secretRef",),
    "iscsi": ("secretRef",),
    "storageos": ("secretRef",),
    "csi": ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"),
}
# These never fall back to the namespace of the claim.
_OWN_NAMESPACE = frozenset({"cinder", "storageos", "csi"})


class Vertex(NamedTuple):
    """One object by resource, namespace and name."""

    resource: str
    namespace: str
    name: str


class NodeGraph:
    """The objects that lead to nodes."""

    def __init__(self) -> None:
        self._pods: dict[Vertex, tuple[str, frozenset[Vertex]]] = {}
        self._nodes: dict[Vertex, dict[str, int]] = {}
        self._claims: dict[str, Vertex] = {}
        self._volume_secrets: dict[str, frozenset[Vertex]] = {}
        self._volumes_of_secret: dict[Vertex, set[str]] = {}

    def leads_to(self, vertex: Vertex, node: str) -> bool:
        """Whether the object belongs to a pod of the node."""
        if node in self._nodes.get(vertex, ()):
            return True
        if vertex.resource == "persistentvolumes":
            return self._volume_leads_to(vertex.name, node)
        return any(self._volume_leads_to(name, node) for name in self._volumes_of_secret.get(vertex, ()))

    def set_pod(self, namespace: str, name: str, pod: Document | None) -> None:
        """Take in a pod as it is now; None if it is gone."""
        key = Vertex("pods", namespace, name)
        node = "" if pod is None else pod.get("spec", {}).get("nodeName", "")
        new = (node, frozenset(_pod_vertices(key, pod))) if pod is not None and node else None
        old = self._pods.get(key)
        if new == old:
            return
        if old is not None:
            del self._pods[key]
            self._count(old, -1)
        if new is not None:
            self._pods[key] = new
            self._count(new, 1)

    def set_volume(self, name: str, volume: Document | None) -> None:
        """Take in a persistent volume as it is now; None if it is gone."""
        self._claims.pop(name, None)
        for secret in self._volume_secrets.pop(name, ()):
            self._volumes_of_secret[secret].discard(name)
            if not self._volumes_of_secret[secret]:
                del self._volumes_of_secret[secret]
        spec = {} if volume is None else volume.get("spec", {})
        claim = spec.get("claimRef")
        if not claim:
            return
        self._claims[name] = Vertex("persistentvolumeclaims", claim.get("namespace", ""), claim.get("name", ""))
        secrets = frozenset(_volume_secrets(spec, claim.get("namespace", "")))
        if secrets:
            self._volume_secrets[name] = secrets
        for secret in secrets:
            self._volumes_of_secret.setdefault(secret, set()).add(name)

    def _volume_leads_to(self, name: str, node: str) -> bool:
        claim = self._claims.get(name)
        return claim is not None and node in self._nodes.get(claim, ())

    def _count(self, edges: tuple[str, frozenset[Vertex]], step: int) -> None:
        node, vertices = edges
        for vertex in vertices:
            counts = self._nodes.setdefault(vertex, {})
            counts[node] = counts.get(node, 0) + step
            if not counts[node]:
                del counts[node]
            if not counts:
                del self._nodes[vertex]


def _pod_vertices(key: Vertex, pod: Document) -> Iterator[Vertex]:
    """The pod itself and what it names. A mirror pod names nothing: a node must not give itself rights by making one."""
    yield key
    metadata, spec, namespace = pod.get("metadata", {}), pod["spec"], key.namespace
    if MIRROR_ANNOTATION in (metadata.get("annotations") or {}):
        return
    names = {
        "serviceaccounts": (spec.get("serviceAccountName", ""),),
        "secrets": secret_names(spec),
        "configmaps": config_map_names(spec),
        "persistentvolumeclaims": claim_names(key.name, spec),
    }
    for resource, found in names.items():
        yield from (Vertex(resource, namespace, name) for name in found if name)


def claim_names(pod_name: str, spec: Document) -> Iterator[str]:
    """The claims of a pod's volumes; an ephemeral volume has one of its own, named after the pod and the volume."""
    for volume in spec.get("volumes", ()):
        if claim := volume.get("persistentVolumeClaim"):
            yield claim.get("claimName", "")
        elif "ephemeral" in volume:
            yield f"{pod_name}-{volume.get('name', '')}"


def _volume_secrets(spec: Document, claim_namespace: str) -> Iterator[Vertex]:
    if azure := spec.get("azureFile"):
        namespace = azure.get("secretNamespace") or claim_namespace
        if name := azure.get("secretName"):
            yield Vertex("secrets", namespace, name)
    for source, fields in _VOLUME_SECRETS.items():
        for field in fields:
            reference = (spec.get(source) or {}).get(field) or {}
            namespace = reference.get("namespace", "")
            if source not in _OWN_NAMESPACE:
                namespace = namespace or claim_namespace
            if name := reference.get("name"):
                yield Vertex("secrets", namespace, name)
