"""The rules of the NodeRestriction admission plugin, as tables of what a node may and may not write."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from access_objects import ALICE, NODE, authorizer, pod, put, request, thing
from pykubelet.api.errors import ApiError
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.noderestriction import NodeRestriction, forbidden_labels
from pykubelet.apiserver.request import UserInfo
from pykubelet.apiserver.storage.durable_store import DurableStore

OWNER: Document = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1-uid", "controller": True}
OWN = 'node "n1" can only create pods with'
REFERENCES: dict[str, dict[str, Any]] = {
    "serviceaccounts": {"serviceAccountName": "bot"},
    "secrets": {"imagePullSecrets": [{"name": "s"}]},
    "configmaps": {"volumes": [{"name": "v", "configMap": {"name": "c"}}]},
    "persistentvolumeclaims": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    "csidrivers (via CSI volumes)": {"volumes": [{"name": "v", "csi": {"driver": "d"}}]},
    "serviceaccounts (via projected volumes)": {
        "volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]
    },
}
LOST = "The object might have been deleted and then recreated"


def mirror(*, owners: list[Document] | None = None, node: str = "n1", **spec: Any) -> Document:
    annotations = {"kubernetes.io/config.mirror": "hash"}
    references = [OWNER] if owners is None else owners
    return pod("m", node=node, metadata={"annotations": annotations, "ownerReferences": references}, **spec)


def node(name: str = "n1", labels: dict[str, str] | None = None, **spec: Any) -> Document:
    return thing("Node", name, metadata={"labels": labels or {}}, spec=spec)


def token(**spec: Any) -> Document:
    return {"kind": "TokenRequest", "metadata": {}, "spec": spec}


def bound(name: str = "mine", uid: str = "mine-uid", kind: str = "Pod") -> Document:
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}


@pytest.fixture
async def rule(store: DurableStore) -> NodeRestriction:
    await put(store, "nodes", node())
    volume = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}
    await put(store, "pods", pod("mine", node="n1", volumes=[volume]))
    await put(store, "pods", pod("theirs", node="n2"))
    return NodeRestriction(store.newest, authorizer(store).decide)


MINE, THEIRS = pod("mine", node="n1"), pod("theirs", node="n2")
CREATE_POD = request(NODE, "create", "pods", "m")
POD_STATUS = request(NODE, "update", "pods/status", "mine")
CREATE_NODE, UPDATE_NODE = request(NODE, "create", "nodes", "n1"), request(NODE, "update", "nodes", "n1")
CLAIM = thing("PersistentVolumeClaim", "c", "ns", spec={"volumeName": "v"}, status={"phase": "Bound"})
CLAIM_STATUS = request(NODE, "update", "persistentvolumeclaims/status", "c")
LEASES = "leases.coordination.k8s.io"
CSI_NODES, SLICES = "csinodes.storage.k8s.io", "resourceslices.resource.k8s.io"
TOKEN = request(NODE, "create", "serviceaccounts/token", "bot")


@pytest.mark.parametrize(
    ("asked", "new", "old"),
    [
        pytest.param(CREATE_POD, mirror(), None, id="mirror pod"),
        pytest.param(
            CREATE_POD,
            mirror(volumes=[{"name": "h", "hostPath": {"path": "/"}}]),
            None,
            id="mirror pod with a host path",
        ),
        pytest.param(request(NODE, "delete", "pods", "mine"), None, MINE, id="delete own pod"),
        pytest.param(POD_STATUS, MINE | {"status": {"phase": "Running"}}, MINE, id="status of own pod"),
        pytest.param(
            request(NODE, "create", "pods/eviction", "mine"), thing("Eviction", "mine"), None, id="evict own pod"
        ),
        pytest.param(CREATE_NODE, node(labels={"kubernetes.io/os": "linux", "own": "x"}), None, id="register"),
        pytest.param(UPDATE_NODE, node(labels={"x.node.kubernetes.io/a": "b"}), node(), id="label itself"),
        pytest.param(
            request(NODE, "update", "nodes/status", "n1"), node() | {"status": {"a": 1}}, node(), id="own status"
        ),
        pytest.param(
            CLAIM_STATUS, CLAIM | {"status": {"phase": "Bound", "capacity": {}}}, CLAIM, id="claim's capacity"
        ),
        pytest.param(
            request(NODE, "create", LEASES, "n1", namespace="kube-node-lease"),
            thing("Lease", "n1"),
            None,
            id="own lease",
        ),
        pytest.param(request(NODE, "create", CSI_NODES, "n1"), thing("CSINode", "n1"), None, id="own CSINode"),
        pytest.param(
            request(NODE, "create", SLICES, "s"),
            thing("ResourceSlice", "s", spec={"nodeName": "n1"}),
            None,
            id="own slice",
        ),
        pytest.param(TOKEN, token(boundObjectRef=bound(), audiences=["vault"]), None, id="token for own pod"),
        pytest.param(request(NODE, "create", "events", "e"), thing("Event", "e"), None, id="event"),
        pytest.param(request(NODE, "connect", "pods/exec", "mine"), {}, None, id="connect"),
        pytest.param(request(ALICE, "create", "pods", "p"), pod("p", node="n1"), None, id="not a node"),
        pytest.param(
            request(UserInfo("system:node:n1"), "create", "pods", "p"), pod("p"), None, id="node without its group"
        ),
    ],
)
async def test_node_may(
    rule: NodeRestriction, asked: AdmissionAttributes, new: Document | None, old: Document | None
) -> None:
    """Admission returns the object unchanged."""
    assert rule.admit(asked, new, old) is new


@pytest.mark.parametrize(
    ("asked", "new", "old", "why"),
    [
        pytest.param(
            CREATE_POD,
            pod("m", node="n1"),
            None,
            'pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods',
            id="a plain pod",
        ),
        pytest.param(CREATE_POD, mirror(node="n2"), None, f"{OWN} spec.nodeName set to itself", id="elsewhere"),
        pytest.param(CREATE_POD, mirror(node=""), None, f"{OWN} spec.nodeName set to itself", id="nowhere"),
        pytest.param(
            CREATE_POD,
            mirror(owners=[OWNER, OWNER]),
            None,
            f"{OWN} a single owner reference set to itself",
            id="two owners",
        ),
        pytest.param(CREATE_POD, mirror(owners=[]), None, f"{OWN} an owner reference set to itself", id="no owner"),
        pytest.param(
            CREATE_POD,
            mirror(owners=[OWNER | {"name": "n2"}]),
            None,
            f"{OWN} an owner reference set to itself",
            id="other owner",
        ),
        pytest.param(
            CREATE_POD,
            mirror(owners=[OWNER | {"controller": False}]),
            None,
            f"{OWN} a controller owner reference set to itself",
            id="owner that does not control",
        ),
        pytest.param(
            CREATE_POD,
            mirror(owners=[OWNER | {"blockOwnerDeletion": True}]),
            None,
            'node "n1" must not set blockOwnerDeletion on an owner reference',
            id="owner that blocks",
        ),
        pytest.param(
            CREATE_POD,
            mirror(owners=[OWNER | {"uid": "x"}]),
            None,
            "node n1 UID mismatch: expected x got n1-uid",
            id="owner of another uid",
        ),
        *(
            pytest.param(
                CREATE_POD,
                mirror(**spec),
                None,
                f'node "n1" can not create pods that reference {what}',
                id=f"refers to {what}",
            )
            for what, spec in REFERENCES.items()
        ),
        pytest.param(
            CREATE_POD,
            mirror(volumes=[{"name": "v", "projected": {"sources": [{}]}}]),
            None,
            'error checking mirror pod for API references: unknown source for projected volume "v"',
            id="unknown volume",
        ),
        pytest.param(
            request(NODE, "update", "pods", "mine"),
            MINE,
            MINE,
            'unexpected operation "UPDATE", node "n1" can only create and delete mirror pods',
            id="update a pod",
        ),
        pytest.param(
            request(NODE, "delete", "pods", "theirs"),
            None,
            THEIRS,
            'node "n1" can only delete pods with spec.nodeName set to itself',
            id="delete another's pod",
        ),
        pytest.param(
            POD_STATUS,
            THEIRS,
            THEIRS,
            'node "n1" can only update pod status for pods with spec.nodeName set to itself',
            id="status of another's pod",
        ),
        pytest.param(
            POD_STATUS,
            pod("mine", node="n1", metadata={"labels": {"a": "b"}}),
            MINE,
            'node "n1" cannot update labels through pod status',
            id="labels through status",
        ),
        pytest.param(
            POD_STATUS,
            MINE | {"status": {"resourceClaimStatuses": [{"name": "x"}]}},
            MINE,
            'node "n1" cannot update resource claim statues',
            id="claims through status",
        ),
        pytest.param(
            POD_STATUS,
            MINE | {"status": {"extendedResourceClaimStatus": {}}},
            MINE,
            'node "n1" cannot update extended resource claim status',
            id="extended claims through status",
        ),
        pytest.param(
            request(NODE, "create", "pods/eviction", "theirs"),
            thing("Eviction", "theirs"),
            None,
            "node n1 can only evict pods with spec.nodeName set to itself",
            id="evict another's pod",
        ),
        pytest.param(
            request(NODE, "create", "pods/binding", "mine"),
            thing("Binding", "mine"),
            None,
            "unexpected pod subresource \"binding\", only 'status' and 'eviction' are allowed",
            id="bind a pod",
        ),
        pytest.param(
            request(NODE, "update", "nodes/status", "n2"),
            node("n2"),
            node("n2"),
            'node "n1" is not allowed to modify node "n2"',
            id="another node",
        ),
        pytest.param(
            CREATE_NODE,
            node(labels={"node-restriction.kubernetes.io/a": "b", "k8s.io/c": "d"}),
            None,
            'node "n1" is not allowed to set the following labels: k8s.io/c, node-restriction.kubernetes.io/a',
            id="register with labels",
        ),
        pytest.param(
            CREATE_NODE,
            node(configSource={}),
            None,
            'node "n1" is not allowed to create pods with a non-nil configSource',
            id="register with a config source",
        ),
        pytest.param(
            UPDATE_NODE,
            node(configSource={"configMap": {}}),
            node(),
            'node "n1" is not allowed to update configSource to a new non-nil configSource',
            id="config source",
        ),
        pytest.param(
            UPDATE_NODE,
            node(taints=[]),
            node(taints=[{"key": "k"}]),
            'node "n1" is not allowed to modify taints',
            id="taints",
        ),
        pytest.param(
            UPDATE_NODE,
            thing("Node", "n1", metadata={"ownerReferences": [OWNER]}),
            node(),
            'node "n1" is not allowed to modify ownerReferences',
            id="owners",
        ),
        pytest.param(
            UPDATE_NODE,
            node(),
            node(labels={"x.node-restriction.kubernetes.io/a": "b"}),
            "is not allowed to modify labels: x.node-restriction.kubernetes.io/a",
            id="remove a label",
        ),
        pytest.param(
            request(NODE, "update", "persistentvolumeclaims", "c"),
            CLAIM,
            CLAIM,
            "may only update PVC status",
            id="claim",
        ),
        pytest.param(
            CLAIM_STATUS,
            CLAIM | {"spec": {"volumeName": "w"}},
            CLAIM,
            'node "n1" is not allowed to update fields other than status.quantity and status.conditions: spec',
            id="claim's spec",
        ),
        pytest.param(
            request(NODE, "create", LEASES, "n1"),
            thing("Lease", "n1"),
            None,
            'can only access leases in the "kube-node-lease" system namespace',
            id="lease elsewhere",
        ),
        pytest.param(
            request(NODE, "update", LEASES, "n2", namespace="kube-node-lease"),
            thing("Lease", "n2"),
            thing("Lease", "n2"),
            "can only access node lease with the same name as the requesting node",
            id="another's lease",
        ),
        pytest.param(
            request(NODE, "create", CSI_NODES, "n2"),
            thing("CSINode", "n2"),
            None,
            "can only access CSINode with the same name as the requesting node",
            id="another's CSINode",
        ),
        pytest.param(
            request(NODE, "create", SLICES, "s"),
            thing("ResourceSlice", "s", spec={"nodeName": "n2"}),
            None,
            "can only create ResourceSlice with the same NodeName as the requesting node",
            id="another's slice",
        ),
        pytest.param(
            request(NODE, "delete", SLICES, "s"),
            None,
            thing("ResourceSlice", "s", spec={"allNodes": True}),
            "can only delete ResourceSlice with the same NodeName as the requesting node",
            id="everybody's slice",
        ),
        pytest.param(TOKEN, token(), None, "node requested token not bound to a pod", id="loose token"),
        pytest.param(
            TOKEN,
            token(boundObjectRef=bound(kind="Secret")),
            None,
            "node requested token not bound to a pod",
            id="secret's token",
        ),
        pytest.param(
            TOKEN,
            token(boundObjectRef=bound(uid="")),
            None,
            "node requested token with a pod binding without a uid",
            id="token without uid",
        ),
        pytest.param(
            TOKEN,
            token(boundObjectRef=bound(uid="x")),
            None,
            f"the UID in the bound object reference (x) does not match the UID in record. {LOST}",
            id="token of another uid",
        ),
        pytest.param(
            TOKEN,
            token(boundObjectRef=bound("theirs", "theirs-uid")),
            None,
            "node requested token bound to a pod scheduled on a different node",
            id="another's token",
        ),
        pytest.param(
            TOKEN,
            token(boundObjectRef=bound(), audiences=["a", "b"]),
            None,
            "node may only request 0 or 1 audiences",
            id="two audiences",
        ),
        pytest.param(
            TOKEN,
            token(boundObjectRef=bound()),
            None,
            'audience "" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience',
            id="another audience",
        ),
        pytest.param(
            request(UserInfo("system:node:", ("system:nodes",)), "create", "pods", "m"),
            mirror(),
            None,
            'could not determine node from user "system:node:"',
            id="nameless node",
        ),
    ],
)
async def test_node_may_not(
    rule: NodeRestriction, asked: AdmissionAttributes, new: Document | None, old: Document | None, why: str
) -> None:
    """The error is 403 with upstream's message."""
    with pytest.raises(ApiError) as caught:
        rule.admit(asked, new, old)
    resource = asked.served.resource.group_resource
    assert (caught.value.code, caught.value.message) == (403, f'{resource} "{asked.name}" is forbidden: {why}')


@pytest.mark.parametrize(
    ("asked", "new", "message"),
    [
        (request(NODE, "create", "pods/eviction", "gone"), thing("Eviction", "gone"), 'pods "gone" not found'),
        (TOKEN, token(boundObjectRef=bound("gone")), 'pods "gone" not found'),
        (
            request(UserInfo("system:node:n9", ("system:nodes",)), "create", "pods", "m"),
            mirror(node="n9", owners=[OWNER | {"name": "n9"}]),
            'nodes "n9" not found',
        ),
    ],
    ids=["eviction", "token", "node"],
)
async def test_missing_pod_or_node_is_not_found(
    rule: NodeRestriction, asked: AdmissionAttributes, new: Document, message: str
) -> None:
    """The error is 404, not 403."""
    with pytest.raises(ApiError) as caught:
        rule.admit(asked, new, None)
    assert (caught.value.code, caught.value.message) == (404, message)


async def test_error_shows_generate_name_of_pod_without_name(rule: NodeRestriction) -> None:
    """Without generateName the error shows Unknown."""
    unnamed = pod("x") | {"metadata": {"generateName": "gen-"}}
    with pytest.raises(ApiError, match='pods "gen-" is forbidden'):
        rule.admit(request(NODE, "create", "pods"), unnamed, None)
    with pytest.raises(ApiError, match='pods "Unknown" is forbidden'):
        rule.admit(request(NODE, "create", "pods"), pod("x") | {"metadata": {}}, None)


DOMAINS = ("", "example.com/", "kubernetes.io/", "a.k8s.io/", "node.kubernetes.io/", "kubelet.kubernetes.io/")
LABELS = st.dictionaries(
    st.sampled_from([f"{domain}{name}" for domain in DOMAINS for name in ("hostname", "x")]), st.sampled_from("ab")
)


@given(LABELS, LABELS)
def test_labels_are_forbidden_only_if_they_change(new: dict[str, str], old: dict[str, str]) -> None:
    """Only labels of Kubernetes' own domains are checked, except those that nodes may set."""
    found = forbidden_labels(new, old)
    assert forbidden_labels(old, new) == found
    assert all(new.get(label) != old.get(label) for label in found)
    kept = {"kubernetes.io/x", "a.k8s.io/hostname", "a.k8s.io/x"}
    assert set(found) == {label for label in kept if new.get(label) != old.get(label)}
