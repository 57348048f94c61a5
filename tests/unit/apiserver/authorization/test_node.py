"""Node authorizer: its graph compared with a plain search, and its decisions."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from access_objects import (
    ADMIN,
    ALICE,
    NODE,
    RBAC,
    ask,
    authorizer,
    binding,
    pod,
    put,
    remove,
    role,
    rule,
    subject,
    thing,
)
from pykubelet.api.serializer import Document
from pykubelet.apiserver.authorization.authorizer import forbidden_error
from pykubelet.apiserver.authorization.node import NodeGraph, Vertex
from pykubelet.apiserver.request import AuthorizationAttributes, UserInfo
from pykubelet.apiserver.storage.durable_store import DurableStore

UNRELATED = "no relationship found between node 'n1' and this object"
ROLES, BINDINGS = f"roles.{RBAC}", f"rolebindings.{RBAC}"
MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}
VOLUMES = [
    {"name": "s", "secret": {"secretName": "in-volume"}},
    {"name": "m", "configMap": {"name": "map"}},
    {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
    {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
]
RICH: dict[str, Any] = {
    "serviceAccountName": "bot",
    "imagePullSecrets": [{"name": "pull"}],
    "volumes": VOLUMES,
    "containers": [
        {"name": "c", "image": "i", "env": [{"name": "e", "valueFrom": {"configMapKeyRef": {"name": "env"}}}]}
    ],
}


def volume(name: str, claim: str = "", **source: Any) -> Document:
    spec = {**source, **({"claimRef": {"namespace": "ns", "name": claim}} if claim else {})}
    return thing("PersistentVolume", name, spec=spec)


async def fill(store: DurableStore) -> None:
    await put(store, "pods", pod("mine", node="n1", **RICH))
    await put(store, "pods", pod("theirs", node="n2", imagePullSecrets=[{"name": "their-secret"}]))
    await put(store, "pods", pod("mirror", node="n1", metadata=MIRROR, imagePullSecrets=[{"name": "mirrored"}]))
    secret = {"nodePublishSecretRef": {"name": "csi", "namespace": "storage"}}
    await put(store, "persistentvolumes", volume("pv", "claim", csi=secret))
    await put(store, "persistentvolumes", volume("blue", "claim", azureFile={"secretName": "azure"}))
    for name, node in (("own", "n1"), ("other", "n2")):
        await put(store, "resourceslices.resource.k8s.io", thing("ResourceSlice", name, "", spec={"nodeName": node}))
    await put(store, "persistentvolumes", volume("loose", iscsi={"secretRef": {"name": "loose"}}))


@pytest.mark.parametrize(
    ("review", "reason"),
    [
        (ask(NODE, "get", "secrets", "pull"), None),
        (ask(NODE, "watch", "secrets", "in-volume"), None),
        (ask(NODE, "list", "configmaps", "map"), None),
        (ask(NODE, "get", "configmaps", "env"), None),
        (ask(NODE, "get", "persistentvolumeclaims", "claim"), None),
        (ask(NODE, "get", "persistentvolumeclaims", "mine-e"), None),
        (ask(NODE, "patch", "persistentvolumeclaims/status", "claim"), None),
        (ask(NODE, "get", "persistentvolumes", "pv", namespace=""), None),
        (ask(NODE, "get", "secrets", "csi", namespace="storage"), None),
        (ask(NODE, "create", "serviceaccounts/token", "bot"), None),
        (ask(NODE, "get", "serviceaccounts", "bot"), None),
        (ask(NODE, "get", "pods", "mine"), None),
        (ask(NODE, "list", "pods", namespace="", fields="spec.nodeName=n1"), None),
        (ask(NODE, "create", "pods"), None),
        (ask(NODE, "patch", "pods/status", "theirs"), None),
        (ask(NODE, "create", "pods/eviction", "mine"), None),
        (ask(NODE, "get", "nodes", "n1", namespace=""), None),
        (ask(NODE, "patch", "nodes/status", "n2", namespace=""), None),
        (ask(NODE, "update", "leases", "n1", namespace="kube-node-lease", group="coordination.k8s.io"), None),
        (ask(NODE, "list", "services", namespace=""), None),
        (ask(NODE, "create", "events"), None),
        (ask(NODE, "get", "secrets", "their-secret"), UNRELATED),
        (ask(NODE, "get", "secrets", "mirrored"), UNRELATED),
        (ask(NODE, "get", "secrets", "loose"), UNRELATED),
        (ask(NODE, "get", "secrets", "pull", namespace="other"), UNRELATED),
        (ask(NODE, "list", "secrets"), "No Object name found"),
        (ask(NODE, "list", "secrets", namespace=""), "can only read namespaced object of this type"),
        (ask(NODE, "delete", "secrets", "pull"), "can only read resources of this type"),
        (ask(NODE, "list", "persistentvolumes", namespace=""), "can only get individual resources of this type"),
        (ask(NODE, "get", "persistentvolumes/status", "pv", namespace=""), "cannot get subresource"),
        (ask(NODE, "delete", "persistentvolumeclaims/status", "claim"), "can only get/update/patch this type"),
        (ask(NODE, "update", "serviceaccounts", "bot"), "can only create tokens for individual service accounts"),
        (ask(NODE, "create", "serviceaccounts", "bot"), "can only create token subresource of serviceaccount"),
        (ask(NODE, "create", "serviceaccounts/token", "x"), UNRELATED),
        (ask(NODE, "get", "pods", "theirs"), UNRELATED),
        (ask(NODE, "list", "pods"), "can only list/watch pods with spec.nodeName field selector"),
        (
            ask(NODE, "list", "pods", fields="spec.nodeName=n2"),
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (ask(NODE, "list", "pods", fields="nonsense"), "can only list/watch pods with spec.nodeName field selector"),
        (ask(NODE, "update", "pods", "mine"), ""),
        (ask(NODE, "get", "nodes", "n2", namespace=""), "node 'n1' cannot read 'n2', only its own Node object"),
        (ask(NODE, "list", "nodes", namespace=""), "node 'n1' cannot read all nodes, only its own Node object"),
        (ask(NODE, "delete", "nodes", "n1", namespace=""), ""),
        (
            ask(NODE, "list", "leases", namespace="kube-node-lease", group="coordination.k8s.io"),
            "can only get, create, update, patch, or delete a node lease",
        ),
        (
            ask(NODE, "get", "leases", "n1", group="coordination.k8s.io"),
            'can only access leases in the "kube-node-lease" system namespace',
        ),
        (
            ask(NODE, "get", "leases", "n2", namespace="kube-node-lease", group="coordination.k8s.io"),
            "can only access node lease with the same name as the requesting node",
        ),
        (ask(NODE, "get", "deployments", "d", group="apps"), ""),
        (ask(NODE, "get", "secrets", "azure"), None),
        (ask(NODE, "watch", "pods", "mine"), None),
        (ask(NODE, "get", "secrets/x", "pull"), "cannot read subresource"),
        (ask(NODE, "patch", "csinodes", "n1", namespace="", group="storage.k8s.io"), None),
        (
            ask(NODE, "list", "csinodes", namespace="", group="storage.k8s.io"),
            "can only get, create, update, patch, or delete a CSINode",
        ),
        (
            ask(NODE, "get", "csinodes/x", "n1", namespace="", group="storage.k8s.io"),
            "cannot authorize CSINode subresources",
        ),
        (
            ask(NODE, "get", "csinodes", "n2", namespace="", group="storage.k8s.io"),
            "can only access CSINode with the same name as the requesting node",
        ),
        (ask(NODE, "create", "resourceslices", namespace="", group="resource.k8s.io"), None),
        (ask(NODE, "delete", "resourceslices", "own", namespace="", group="resource.k8s.io"), None),
        (
            ask(NODE, "patch", "resourceslices", "other", namespace="", group="resource.k8s.io"),
            "no relationship found between node 'n1' and this object",
        ),
        (
            ask(NODE, "deletecollection", "resourceslices", namespace="", group="resource.k8s.io"),
            "can only list/watch/deletecollection resourceslices with nodeName field selector",
        ),
        (
            ask(NODE, "list", "resourceslices", namespace="", group="resource.k8s.io", fields="spec.nodeName=n1"),
            None,
        ),
        (
            ask(UserInfo("system:node:", ("system:nodes",)), "get", "pods", "mine"),
            'unknown node for user "system:node:"',
        ),
        (ask(UserInfo("system:node:n1"), "get", "pods", "mine"), ""),
        (ask(ALICE, "get", "secrets", "pull"), ""),
    ],
    ids=lambda value: (
        f"{value.verb}-{value.resource}-{value.name}" if isinstance(value, AuthorizationAttributes) else ""
    ),
)
async def test_node_authorizer_decides_as_upstream(
    store: DurableStore, review: AuthorizationAttributes, reason: str | None
) -> None:
    """A reason of None stands for an allowed request."""
    await fill(store)
    decision = authorizer(store).decide(review)
    assert decision.allowed is (reason is None)
    assert decision.reason == (reason or "")


async def test_node_loses_access_when_its_pod_is_deleted(store: DurableStore) -> None:
    """The next decision reflects a deletion, and a new binding as well."""
    decide = authorizer(store).decide
    review = ask(NODE, "get", "secrets", "pull")
    await put(store, "pods", pod("p", imagePullSecrets=[{"name": "pull"}]))
    assert not decide(review).allowed
    await put(store, "pods", pod("p", node="n1", imagePullSecrets=[{"name": "pull"}]))
    assert decide(review).allowed
    await remove(store, "pods", "ns", "p")
    assert not decide(review).allowed
    assert decide(ask(ADMIN, "get", "secrets", "pull")).allowed


async def test_role_may_allow_a_node_what_the_graph_does_not(store: DurableStore) -> None:
    """The authorizers are asked in order, and any of them may allow."""
    await put(store, ROLES, role("reader", rule("get", "secrets"), namespace="ns"))
    subjects = [subject("Group", "system:nodes")]
    await put(store, BINDINGS, binding("readers", "reader", *subjects, namespace="ns"))
    assert authorizer(store).decide(ask(NODE, "get", "secrets", "nope")).allowed
    refused = authorizer(store).decide(ask(NODE, "get", "secrets", "nope", namespace="other"))
    assert (refused.allowed, refused.reason) == (False, UNRELATED)


async def test_refusal_of_a_node_has_the_recorded_text(store: DurableStore) -> None:
    """The step `node-secret` of the recording `auth`."""
    review = ask(NODE, "get", "secrets", "nope")
    error = forbidden_error(review, authorizer(store).decide(review))
    assert error.message == (
        'secrets "nope" is forbidden: User "system:node:n1" cannot get resource "secrets" in API group "" '
        f'in the namespace "ns": {UNRELATED}'
    )
    assert error.details == {"name": "nope", "kind": "secrets"}


PODS = st.builds(
    lambda node, secrets, claims, mirror: pod(
        "x",
        node=node,
        metadata=MIRROR if mirror else {},
        imagePullSecrets=[{"name": name} for name in secrets],
        volumes=[{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims],
    ),
    st.sampled_from(("", "n1", "n2")),
    st.lists(st.sampled_from("ab"), max_size=2),
    st.lists(st.sampled_from("cd"), max_size=2),
    st.booleans(),
)
PERSISTENT_VOLUMES = st.builds(
    lambda claim, secret: volume("v", claim, rbd={"secretRef": {"name": secret}}),
    st.sampled_from(("", "c", "d")),
    st.sampled_from("ab"),
)
STEPS = st.one_of(
    st.tuples(st.just("pod"), st.sampled_from("pqr"), st.none() | PODS),
    st.tuples(st.just("pv"), st.sampled_from("vw"), st.none() | PERSISTENT_VOLUMES),
)


def naive_leads(pods: dict[str, Document], volumes: dict[str, Document], vertex: Vertex, node: str) -> bool:
    """Searches all pods and volumes."""
    mine = [
        one for one in pods.values() if one["spec"].get("nodeName") == node and not one["metadata"].get("annotations")
    ]
    claims = {each["persistentVolumeClaim"]["claimName"] for one in mine for each in one["spec"]["volumes"]}
    bound = {name: one for name, one in volumes.items() if one["spec"].get("claimRef", {}).get("name") in claims}
    secrets = {each["name"] for one in mine for each in one["spec"]["imagePullSecrets"]}
    secrets |= {one["spec"]["rbd"]["secretRef"]["name"] for one in bound.values()}
    found = {"secrets": secrets, "persistentvolumeclaims": claims, "persistentvolumes": set(bound)}
    return vertex.name in found[vertex.resource]


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=12))
def test_graph_finds_what_a_plain_search_finds(steps: list[tuple[str, str, Document | None]]) -> None:
    """This holds after any history of pods and volumes, for every object and node."""
    graph = NodeGraph()
    pods: dict[str, Document] = {}
    volumes: dict[str, Document] = {}
    for kind, name, document in steps:
        held = pods if kind == "pod" else volumes
        held.pop(name, None)
        if document is not None:
            held[name] = document
        if kind == "pod":
            graph.set_pod("ns", name, document)
        else:
            graph.set_volume(name, document)
    vertices = [Vertex("secrets", "ns", name) for name in "ab"]
    vertices += [Vertex("persistentvolumeclaims", "ns", name) for name in "cd"]
    vertices += [Vertex("persistentvolumes", "", name) for name in "vw"]
    for vertex in vertices:
        for node in ("n1", "n2"):
            assert graph.has_path_from(vertex, node) == naive_leads(pods, volumes, vertex, node)
