"""Users, roles, bindings and authorization requests for tests of access."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.authorization.authorizer import Authorizer
from pykubelet.apiserver.authorization.bootstrappolicy import node_rules
from pykubelet.apiserver.authorization.node import NodeAuthorizer
from pykubelet.apiserver.authorization.rbac import RbacAuthorizer
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.request import ALL_AUTHENTICATED, ApiRequest, AuthorizationAttributes, UserInfo
from pykubelet.apiserver.storage.durable_store import DurableStore, open_store
from pykubelet.apiserver.storage.interfaces import StoreKey
from pykubelet.kinds.kind import Kind
from pykubelet.testing.virtual_time import VirtualClock

RBAC = "rbac.authorization.k8s.io"
SERVED: Mapping[str, Kind] = {served.resource.group_resource: served for served in BUILT_IN_KINDS}
ALICE = UserInfo("alice", (ALL_AUTHENTICATED,))
NODE = UserInfo("system:node:n1", ("system:nodes", ALL_AUTHENTICATED))
ADMIN = UserInfo("root", ("system:masters", ALL_AUTHENTICATED))


class CountingIds:
    """Counts UIDs up; the suffix of generated names is always the same."""

    def __init__(self) -> None:
        self._count = 0

    def uid(self) -> str:
        self._count += 1
        return f"uid-{self._count}"

    def suffix(self) -> str:
        return "abcde"


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[DurableStore]:
    async with open_store(folder / "state.db", clock=VirtualClock()) as store:
        yield store


async def put(store: DurableStore, collection: str, document: Document) -> None:
    """Store an object as it is."""
    metadata = document["metadata"]
    key = StoreKey(collection, metadata.get("namespace", ""), metadata["name"])
    await store.write(key, lambda _entry: document)


async def remove(store: DurableStore, collection: str, namespace: str, name: str) -> None:
    await store.write(StoreKey(collection, namespace, name), lambda _entry: None)


def authorizer(store: DurableStore) -> Authorizer:
    return Authorizer(NodeAuthorizer(store, node_rules()), RbacAuthorizer(store))


def thing(kind: str, name: str, namespace: str = "", **fields: Any) -> Document:
    metadata = {"name": name, "uid": f"{name}-uid"} | ({"namespace": namespace} if namespace else {})
    return {"kind": kind, "apiVersion": "v1", "metadata": metadata | fields.pop("metadata", {}), **fields}


def pod(name: str, *, node: str = "", namespace: str = "ns", **spec: Any) -> Document:
    containers = spec.pop("containers", [{"name": "c", "image": "busybox:1"}])
    metadata = spec.pop("metadata", {})
    spec = {"containers": containers, **({"nodeName": node} if node else {}), **spec}
    return thing("Pod", name, namespace, spec=spec, metadata=metadata)


def rule(
    verbs: str, resources: str = "", *, groups: Sequence[str] = ("",), names: str = "", paths: str = ""
) -> Document:
    if paths:
        return {"verbs": verbs.split(), "nonResourceURLs": paths.split()}
    found: Document = {"verbs": verbs.split(), "apiGroups": list(groups), "resources": resources.split()}
    return found | ({"resourceNames": names.split()} if names else {})


def role(name: str, *rules: Document, namespace: str = "", **fields: Any) -> Document:
    kind = "Role" if namespace else "ClusterRole"
    return thing(kind, name, namespace, rules=list(rules), **fields) | {"apiVersion": f"{RBAC}/v1"}


def binding(name: str, role_name: str, *subjects: Document, namespace: str = "", role_kind: str = "") -> Document:
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    reference = {"apiGroup": RBAC, "kind": role_kind or kind.removesuffix("Binding"), "name": role_name}
    found = thing(kind, name, namespace, subjects=list(subjects), roleRef=reference)
    return found | {"apiVersion": f"{RBAC}/v1"}


def subject(kind: str, name: str, namespace: str = "") -> Document:
    return {"kind": kind, "name": name} | ({"namespace": namespace} if namespace else {})


def ask(
    user: UserInfo, verb: str, resource: str = "", name: str = "", *, namespace: str = "ns", **more: str
) -> AuthorizationAttributes:
    """The attributes of a request to authorize; `resource` may have a subresource: `pods/status`."""
    plural, _, subresource = resource.partition("/")
    return AuthorizationAttributes(
        user=user, verb=verb, resource=plural, subresource=subresource, namespace=namespace, name=name, **more
    )


def request(
    user: UserInfo,
    verb: Literal["create", "update", "delete", "connect"],
    resource: str,
    name: str = "",
    *,
    namespace: str = "ns",
) -> AdmissionAttributes:
    """The attributes of a request to admit; `resource` may have a group and a subresource: `RESOURCE.GROUP/status`."""
    group_resource, _, subresource = resource.partition("/")
    served = SERVED[group_resource]
    namespace = namespace if served.resource.namespaced else ""
    return AdmissionAttributes(
        user=user, verb=verb, served=served, namespace=namespace, name=name, subresource=subresource
    )


def post(user: UserInfo, resource: str, body: Any, *, namespace: str = "", name: str = "", **query: str) -> ApiRequest:
    """A create request to the API handlers."""
    group_resource, _, subresource = resource.partition("/")
    return ApiRequest(
        user=user,
        verb="create",
        served=SERVED[group_resource],
        namespace=namespace,
        name=name,
        subresource=subresource,
        query=query,
        body=body if isinstance(body, bytes) else json.dumps(body).encode(),
    )
