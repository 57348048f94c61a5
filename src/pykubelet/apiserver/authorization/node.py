"""The Node authorizer: lets a node read itself, its pods, and the objects that its pods reference.

    node <- pod <- secret, configmap, serviceaccount, claim        claim <- volume <- secret

The graph counts, for each referenced object, the pods per node that reference it. A decision costs O(1), a change
costs as much as the pod has references. `admission/noderestriction.py` decides what a node may write.

Upstream: plugin/pkg/auth/authorizer/node/node_authorizer.go, plugin/pkg/auth/authorizer/node/graph.go,
pkg/api/v1/persistentvolume/util.go
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pykubelet.api.field_errors import go_quote
from pykubelet.api.fields import parse_field_selector
from pykubelet.api.labels import SelectorError
from pykubelet.api.serializer import Document
from pykubelet.apiserver.authorization.rbac import PolicyRule, is_resource_request
from pykubelet.apiserver.request import AuthorizationAttributes, AuthorizationDecision, node_of
from pykubelet.apiserver.storage.interfaces import Store, StoreKey
from pykubelet.apiserver.storage.watch_cache import ChangeTracker
from pykubelet.kinds.pod.visitors import config_map_names, secret_names

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
# Where a persistent volume references the secrets that a node needs to mount it; others are for controllers.
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
# These do not default to the namespace of the claim.
_OWN_NAMESPACE = frozenset({"cinder", "storageos", "csi"})
NODE_LEASES = "kube-node-lease"
NO_OPINION = AuthorizationDecision(allowed=False)
_ALLOWED = AuthorizationDecision(allowed=True)
_OWN_VERBS = frozenset({"get", "create", "update", "patch", "delete"})
_READ = frozenset({"get", "list", "watch"})


class NodeAuthorizer:
    """Authorizes nodes. `rules` are those of the role `system:node`, for objects that do not belong to a node."""

    def __init__(self, store: Store, rules: Sequence[PolicyRule]) -> None:
        self._changes = ChangeTracker(store, ("pods", "persistentvolumes"))
        self._store, self._graph = store, NodeGraph()
        self._rules = tuple(rules)
        self._authorizers: dict[tuple[str, str], Callable[[str, AuthorizationAttributes], AuthorizationDecision]] = {
            ("", "secrets"): self._authorize_read_namespaced_object,
            ("", "configmaps"): self._authorize_read_namespaced_object,
            ("", "persistentvolumeclaims"): self._authorize_claim,
            ("", "persistentvolumes"): self._authorize_get,
            ("storage.k8s.io", "volumeattachments"): self._authorize_get,
            ("resource.k8s.io", "resourceclaims"): self._authorize_get,
            ("resource.k8s.io", "resourceslices"): self._authorize_resource_slice,
            ("", "serviceaccounts"): self._authorize_service_account,
            ("coordination.k8s.io", "leases"): _authorize_lease,
            ("storage.k8s.io", "csinodes"): _authorize_csi_node,
            ("", "nodes"): _authorize_node,
            ("", "pods"): self._authorize_pod,
        }

    def decide(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """Allowed, or no opinion with a reason: another authorizer may still allow it."""
        node = node_of(attributes.user)
        if node is None:
            return NO_OPINION
        if not node:
            return _denied(f"unknown node for user {go_quote(attributes.user.name)}")
        authorizer = (
            self._authorizers.get((attributes.group, attributes.resource)) if is_resource_request(attributes) else None
        )
        if authorizer is not None:
            return authorizer(node, attributes)
        return _ALLOWED if any(rule.allows(attributes) for rule in self._rules) else NO_OPINION

    def _authorize(self, node: str, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        if not attributes.name:
            return _denied("No Object name found")
        for key, entry in self._changes.take():
            document = None if entry is None else entry.document
            if key.collection == "pods":
                self._graph.set_pod(key.namespace, key.name, document)
            else:
                self._graph.set_volume(key.name, document)
        if self._graph.has_path_from(Vertex(attributes.resource, attributes.namespace, attributes.name), node):
            return _ALLOWED
        return _denied(f"no relationship found between node '{node}' and this object")

    def _authorize_get(self, node: str, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        if attributes.verb != "get":
            return _denied("can only get individual resources of this type")
        if attributes.subresource:
            return _denied("cannot get subresource")
        return self._authorize(node, attributes)

    def _authorize_resource_slice(self, node: str, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """A node may use the slices that name it; the admission plugin checks new ones."""
        if attributes.subresource:
            return _denied("cannot authorize ResourceSlice subresources")
        if attributes.verb == "create":
            return _ALLOWED
        if attributes.verb in _OWN_VERBS:
            entry = self._store.newest(StoreKey("resourceslices.resource.k8s.io", "", attributes.name))
            if entry is not None and entry.document["spec"].get("nodeName") == node:
                return _ALLOWED
            return _denied(f"no relationship found between node '{node}' and this object")
        if _selects(attributes, "spec.nodeName", node):
            return _ALLOWED
        return _denied("can only list/watch/deletecollection resourceslices with nodeName field selector")

    def _authorize_read_namespaced_object(
        self, node: str, attributes: AuthorizationAttributes
    ) -> AuthorizationDecision:
        if attributes.verb not in _READ:
            return _denied("can only read resources of this type")
        if attributes.subresource:
            return _denied("cannot read subresource")
        if not attributes.namespace:
            return _denied("can only read namespaced object of this type")
        return self._authorize(node, attributes)

    def _authorize_claim(self, node: str, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        if attributes.subresource != "status":
            return self._authorize_get(node, attributes)
        if attributes.verb not in {"update", "patch"}:
            return _denied("can only get/update/patch this type")
        return self._authorize(node, attributes)

    def _authorize_service_account(self, node: str, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        if attributes.verb == "get" and not attributes.subresource:
            return self._authorize_read_namespaced_object(node, attributes)
        if attributes.verb != "create" or not attributes.name:
            return _denied("can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return _denied("can only create token subresource of serviceaccount")
        return self._authorize(node, attributes)

    def _authorize_pod(self, node: str, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        match attributes.subresource, attributes.verb:
            case "", "get":
                return self._authorize(node, attributes)
            case "", "list" | "watch":
                if _selects(attributes, "spec.nodeName", node):
                    return _ALLOWED
                if attributes.name:
                    return self._authorize(node, attributes)
                return _denied("can only list/watch pods with spec.nodeName field selector")
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return _ALLOWED
        return NO_OPINION


class Vertex(NamedTuple):
    resource: str
    namespace: str
    name: str


class NodeGraph:
    """The objects that pods of each node reference."""

    def __init__(self) -> None:
        self._pods: dict[Vertex, tuple[str, frozenset[Vertex]]] = {}
        self._nodes: dict[Vertex, dict[str, int]] = {}
        self._claims: dict[str, Vertex] = {}
        self._volume_secrets: dict[str, frozenset[Vertex]] = {}
        self._volumes_of_secret: dict[Vertex, set[str]] = {}

    def has_path_from(self, vertex: Vertex, node: str) -> bool:
        """Whether a pod of the node references the object."""
        if node in self._nodes.get(vertex, ()):
            return True
        if vertex.resource == "persistentvolumes":
            return self._volume_has_path_from(vertex.name, node)
        return any(self._volume_has_path_from(name, node) for name in self._volumes_of_secret.get(vertex, ()))

    def set_pod(self, namespace: str, name: str, pod: Document | None) -> None:
        """Updates a pod; None if it is removed."""
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
        """Updates a persistent volume; None if it is removed."""
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
        if secrets := frozenset(_volume_secrets(spec, claim.get("namespace", ""))):
            self._volume_secrets[name] = secrets
        for secret in secrets:
            self._volumes_of_secret.setdefault(secret, set()).add(name)

    def _volume_has_path_from(self, name: str, node: str) -> bool:
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
    """The pod itself and its references. A mirror pod has none: a node must not get rights by creating one."""
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
    """The claims of a pod's volumes; the claim of an ephemeral volume is named after the pod and the volume."""
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


def _authorize_node(node: str, attributes: AuthorizationAttributes) -> AuthorizationDecision:
    match attributes.subresource, attributes.verb:
        case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
            return _ALLOWED
        case "", "get" | "list" | "watch":
            # By name, so that a node can get itself before it registers.
            if attributes.name == node:
                return _ALLOWED
            what = f"'{attributes.name}'" if attributes.name else "all nodes"
            return _denied(f"node '{node}' cannot read {what}, only its own Node object")
    return NO_OPINION


def _authorize_lease(node: str, attributes: AuthorizationAttributes) -> AuthorizationDecision:
    if attributes.verb not in _OWN_VERBS:
        return _denied("can only get, create, update, patch, or delete a node lease")
    if attributes.namespace != NODE_LEASES:
        return _denied(f"can only access leases in the {go_quote(NODE_LEASES)} system namespace")
    if attributes.verb != "create" and attributes.name != node:
        return _denied("can only access node lease with the same name as the requesting node")
    return _ALLOWED


def _authorize_csi_node(node: str, attributes: AuthorizationAttributes) -> AuthorizationDecision:
    if attributes.verb not in _OWN_VERBS:
        return _denied("can only get, create, update, patch, or delete a CSINode")
    if attributes.subresource:
        return _denied("cannot authorize CSINode subresources")
    if attributes.verb != "create" and attributes.name != node:
        return _denied("can only access CSINode with the same name as the requesting node")
    return _ALLOWED


def _selects(attributes: AuthorizationAttributes, field: str, value: str) -> bool:
    """Whether the field selector requires this value; an invalid selector requires nothing."""
    try:
        requirements = parse_field_selector(attributes.fields).requirements
    except SelectorError:
        return False
    return any(one.equal and one.field == field and one.value == value for one in requirements)


def _denied(reason: str) -> AuthorizationDecision:
    return AuthorizationDecision(allowed=False, reason=reason)
