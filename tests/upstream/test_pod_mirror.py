"""Cases 1.10-23 to 1.10-29 and 1.10-43 to 1.10-47: mirrors of static pods in the API."""

import logging
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from pykubelet.api import schema, serializer
from pykubelet.api.errors import ApiError, InternalError, NotFound
from pykubelet.api.generated.core import Node, Pod
from pykubelet.api.pods import CONFIG_MIRROR, MirrorUid
from pykubelet.kubelet.pod.mirror_client import MirrorClient, MirrorReconciler, NodeUidUnknown
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.testing.build import mirror_pod, node, pod, static_pod
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

FULL_NAME = "web-node-1_default"
DELETED_AT = "2026-01-01T00:00:00Z"


class OneNode:
    """Returns one Node, or fails."""

    def __init__(self, known: Node | ApiError) -> None:
        self._known = known

    def node(self, name: str) -> Node:
        if isinstance(self._known, ApiError):
            raise self._known
        return self._known


class FailingDeletes(MemoryApi):
    """An API server that answers deletes with 500."""

    async def delete(self, *_: object, **__: object) -> None:
        raise InternalError("no")


class CountingMirrors:
    """Records the calls by full name; a delete returns `deletes`."""

    def __init__(self, *, deletes: bool = True) -> None:
        self.calls: list[tuple[object, ...]] = []
        self._deletes = deletes

    async def create_mirror_pod(self, pod: Pod) -> None:
        self.calls.append(("create", f"{pod.metadata.name}_{pod.metadata.namespace}"))

    async def delete_mirror_pod(self, pod_full_name: str, uid: MirrorUid | None) -> bool:
        self.calls.append(("delete", pod_full_name, uid))
        return self._deletes


NODE_ABSENT = OneNode(NotFound('node "node-1" not found'))
NODE_KNOWN = OneNode(node())


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        pytest.param(NODE_ABSENT, 'failed to get node UID: node "node-1" not found', id="1.10-23 node lookup fails"),
        pytest.param(
            OneNode(node(uid="")), "failed to get node UID: UID unset for node node-1", id="1.10-24 node without UID"
        ),
    ],
)
async def test_mirror_is_not_created_without_its_owner(nodes: OneNode, message: str) -> None:
    api = MemoryApi(VirtualClock())
    client = MirrorClient(client=api, node_name="node-1", nodes=nodes)
    with pytest.raises(NodeUidUnknown) as caught:
        await client.create_mirror_pod(static_pod())
    assert str(caught.value) == message
    assert api.calls == []


@pytest.mark.parametrize("content_hash", [pytest.param("123456789", id="1.10-25 created with hash and owner")])
async def test_mirror_is_created(content_hash: str) -> None:
    api = MemoryApi(VirtualClock())
    client = MirrorClient(client=api, node_name="node-1", nodes=NODE_KNOWN)
    static = static_pod(content_hash=content_hash)
    await client.create_mirror_pod(static)
    [call] = api.calls
    assert (call.verb, call.namespace, call.name) == ("create", "default", "web-node-1")
    metadata = call.body["metadata"]
    assert metadata["annotations"] == {**static.metadata.annotations, CONFIG_MIRROR: content_hash}
    assert metadata["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "node-uid", "controller": True}
    ]
    # Everything else is copied from the static pod, including UID and node name.
    assert metadata["uid"] == static.metadata.uid
    assert call.body["spec"] == serializer.to_document(static.spec)


@pytest.mark.parametrize("nodes", [pytest.param(NODE_ABSENT, id="1.10-26 without client nothing happens")])
async def test_mirror_calls_succeed_without_client(nodes: OneNode) -> None:
    client = MirrorClient(client=None, node_name="node-1", nodes=nodes)
    await client.create_mirror_pod(static_pod())
    assert await client.delete_mirror_pod("not a full name", None) is False


@pytest.mark.parametrize("static", [pytest.param(static_pod(), id="1.10-26 input annotations unchanged")])
async def test_static_pod_stays_as_it_was_after_create(static: Pod) -> None:
    client = MirrorClient(client=MemoryApi(VirtualClock()), node_name="node-1", nodes=NODE_KNOWN)
    await client.create_mirror_pod(static)
    assert static == static_pod()


@pytest.mark.parametrize("full_name", [pytest.param("a_b_c", id="1.10-27 bad full name")])
async def test_mirror_delete_refuses_name(full_name: str) -> None:
    api = MemoryApi(VirtualClock())
    client = MirrorClient(client=api, node_name="node-1", nodes=NODE_KNOWN)
    with pytest.raises(ValueError, match='failed to parse the pod full name "a_b_c"'):
        await client.delete_mirror_pod(full_name, None)
    assert api.calls == []


@pytest.mark.parametrize(
    ("server", "stored", "lines"),
    [
        pytest.param(MemoryApi, False, 0, id="1.10-28 404"),
        pytest.param(MemoryApi, True, 0, id="1.10-28 409"),
        pytest.param(FailingDeletes, True, 1, id="1.10-28 500"),
    ],
)
async def test_mirror_delete_fails_silently(
    server: Callable[[VirtualClock], MemoryApi], stored: bool, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    api = server(VirtualClock())
    if stored:
        api.put(schema.PODS, serializer.to_document(mirror_pod(uid="other")))
    client = MirrorClient(client=api, node_name="node-1", nodes=NODE_KNOWN)
    with caplog.at_level(logging.WARNING):
        assert await client.delete_mirror_pod(FULL_NAME, MirrorUid("mirror-1")) is False
    assert len(caplog.records) == lines


@pytest.mark.parametrize(
    ("uid", "options"),
    [
        pytest.param(None, {"gracePeriodSeconds": 0}, id="1.10-29 no precondition"),
        pytest.param(
            MirrorUid("mirror-1"),
            {"gracePeriodSeconds": 0, "preconditions": {"uid": "mirror-1"}},
            id="1.10-29 UID precondition",
        ),
    ],
)
async def test_mirror_is_deleted(uid: MirrorUid | None, options: serializer.Document) -> None:
    api = MemoryApi(VirtualClock())
    api.put(schema.PODS, serializer.to_document(mirror_pod()))
    client = MirrorClient(client=api, node_name="node-1", nodes=NODE_KNOWN)
    assert await client.delete_mirror_pod(FULL_NAME, uid) is True
    [call] = api.calls
    assert {key: value for key, value in call.body.items() if key not in ("apiVersion", "kind")} == options
    assert api.documents(schema.PODS) == ()


def terminating(each: Pod) -> Pod:
    return replace(each, metadata=replace(each.metadata, deletion_timestamp=DELETED_AT))


CREATE, DELETE = ("create", FULL_NAME), ("delete", FULL_NAME, "mirror-1")
LEAVING = OneNode(Node(metadata=replace(node().metadata, deletion_timestamp=DELETED_AT)))


@pytest.mark.parametrize(
    ("static", "mirror", "nodes", "deletes", "calls"),
    [
        pytest.param(static_pod(), None, NODE_KNOWN, True, [CREATE], id="1.10-43 no mirror yet"),
        pytest.param(static_pod(), mirror_pod(), NODE_KNOWN, True, [], id="1.10-43 mirror as it should be"),
        pytest.param(pod(), None, NODE_KNOWN, True, [], id="1.10-43 pod that is not static"),
        pytest.param(
            static_pod(), mirror_pod(content_hash="old"), NODE_KNOWN, True, [DELETE, CREATE], id="1.10-44 other hash"
        ),
        pytest.param(
            static_pod(), mirror_pod(content_hash="old"), NODE_KNOWN, False, [DELETE], id="1.10-44 delete failed"
        ),
        pytest.param(
            static_pod(), terminating(mirror_pod()), NODE_KNOWN, True, [DELETE, CREATE], id="1.10-46 being deleted"
        ),
        pytest.param(static_pod(), None, LEAVING, True, [], id="1.10-47 node is being deleted"),
        pytest.param(static_pod(), None, NODE_ABSENT, True, [], id="1.10-47 node unreadable"),
        pytest.param(
            static_pod(), terminating(mirror_pod()), LEAVING, True, [DELETE], id="1.10-47 mirror and node leave"
        ),
    ],
)
async def test_mirror_is_reconciled(
    static: Pod, mirror: Pod | None, nodes: OneNode, deletes: bool, calls: list[tuple[object, ...]]
) -> None:
    mirrors = CountingMirrors(deletes=deletes)
    await MirrorReconciler(mirrors=mirrors, pods=PodManager(), node_name="node-1", nodes=nodes).reconcile_mirror_pod(
        static, mirror
    )
    assert mirrors.calls == calls


@pytest.mark.parametrize(
    "names", [pytest.param(("pod1_ns", "pod2_ns", "pod3_ns"), id="1.10-45 orphans but not while terminating")]
)
async def test_orphaned_mirrors_are_deleted(names: tuple[str, ...]) -> None:
    mirrors = CountingMirrors()
    keeper = MirrorReconciler(mirrors=mirrors, pods=PodManager(), node_name="node-1", nodes=NODE_KNOWN)
    await keeper.delete_orphaned_mirrors(names, lambda name: name == "pod3_ns")
    assert mirrors.calls == [("delete", "pod1_ns", None), ("delete", "pod2_ns", None)]
