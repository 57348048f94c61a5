"""The objects that let machines join: address and authority of the cluster, settings, and rights.

Names and rights are those of kubeadm. `cluster-info` is readable for everybody, because a machine checks the authority in
it before it trusts the server. A machine with a token may read and request what it needs to become a node, nothing else.

Upstream: cmd/kubeadm/app/phases/bootstraptoken/clusterinfo/clusterinfo.go,
cmd/kubeadm/app/phases/bootstraptoken/node/tlsbootstrap.go
"""

import base64
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pykubelet.api.schema import CONFIG_MAPS, Resource
from pykubelet.api.serializer import Document
from pykubelet.api.yaml.write import to_yaml
from pykubelet.client.certificates.discovery import CLUSTER_INFO, CLUSTER_INFO_KEY, CLUSTER_INFO_NAMESPACE
from pykubelet.controllers.persistentvolume.local_provisioner import NODE_ROLE_RULES
from pykubelet.kinds.bootstrap_token import NODE_GROUP

CONFIG, CONFIG_NAMESPACE = "pykubelet-config", "kube-system"
"""The settings of the cluster that its nodes read."""
_RBAC = "rbac.authorization.k8s.io"
_ROLES = Resource(_RBAC, "v1", "roles", "Role")
_ROLE_BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
_CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
_CLUSTER_ROLE_BINDINGS = Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
_NODES = "system:nodes"
_CSR = "system:certificates.k8s.io:certificatesigningrequests"
_BINDINGS = {
    "kubeadm:kubelet-bootstrap": ("system:node-bootstrapper", NODE_GROUP),
    "kubeadm:node-autoapprove-bootstrap": (f"{_CSR}:nodeclient", NODE_GROUP),
    "kubeadm:node-autoapprove-certificate-rotation": (f"{_CSR}:selfnodeclient", _NODES),
    "kubeadm:get-nodes": ("kubeadm:get-nodes", NODE_GROUP),
    # The service proxy and the routes of a joined node are a part of it.
    "pykubelet:node-proxier": ("system:node-proxier", _NODES),
    "pykubelet:node-provisioner": ("pykubelet:node-provisioner", _NODES),
}
_GET_NODES = ({"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},)


class JoinObject(NamedTuple):
    """An object to apply."""

    resource: Resource
    namespace: str
    document: Document


def cluster_info(server: str, authority: bytes) -> JoinObject:
    """The config map with the cluster's address and authority (PEM), as a kubeconfig without a user."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}]}
    return _object(CONFIG_MAPS, CLUSTER_INFO_NAMESPACE, CLUSTER_INFO, {"data": {CLUSTER_INFO_KEY: to_yaml(kubeconfig)}})


def join_objects(server: str, authority: bytes, config: Mapping[str, str]) -> Iterator[JoinObject]:
    """Every object; `config` are the settings of the cluster that nodes read."""
    yield from _readable_map(
        cluster_info(server, authority),
        "kubeadm:bootstrap-signer-clusterinfo",
        {"kind": "User", "name": "system:anonymous"},
    )
    settings = _object(CONFIG_MAPS, CONFIG_NAMESPACE, CONFIG, {"data": dict(config)})
    yield from _readable_map(settings, "pykubelet:node-config", {"kind": "Group", "name": _NODES})
    yield _object(_CLUSTER_ROLES, "", "kubeadm:get-nodes", {"rules": list(_GET_NODES)})
    yield _object(_CLUSTER_ROLES, "", "pykubelet:node-provisioner", {"rules": list(NODE_ROLE_RULES)})
    for name, (role, group) in _BINDINGS.items():
        subject = {"kind": "Group", "name": group, "apiGroup": _RBAC}
        body = {"roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role}, "subjects": [subject]}
        yield _object(_CLUSTER_ROLE_BINDINGS, "", name, body)


def _readable_map(found: JoinObject, role: str, subject: Document) -> Iterator[JoinObject]:
    """A config map, and the right of a subject to read it."""
    yield found
    name = found.document["metadata"]["name"]
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get"]}
    yield _object(_ROLES, found.namespace, role, {"rules": [rule]})
    reference = {"apiGroup": _RBAC, "kind": "Role", "name": role}
    body = {"roleRef": reference, "subjects": [{**subject, "apiGroup": _RBAC}]}
    yield _object(_ROLE_BINDINGS, found.namespace, role, body)


def _object(resource: Resource, namespace: str, name: str, body: Document) -> JoinObject:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **body}
    return JoinObject(resource, namespace, document)
