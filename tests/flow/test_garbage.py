"""The garbage collector on a whole API server and virtual time: which dependents go with their owner."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from garbage_rig import Owners, reference, survivors
from manifest_rig import DEFINITIONS, WIDGET_DEFINITION, WIDGETS
from pykubelet.api.schema import CONFIG_MAPS, NAMESPACES, NODES, PODS, REPLICA_SETS, SECRETS
from pykubelet.api.scheme import as_documents
from pykubelet.api.yaml.read import read_yaml
from pykubelet.client.interface import ControllerClient, PatchType
from pykubelet.testing.local_api import local_api

MAPS = as_documents(CONFIG_MAPS)
GRAPHS: dict[str, dict[str, list[str]]] = {
    "alone": {"a": [], "b": []},
    "pair": {"a": [], "b": ["a"], "c": []},
    "chain": {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]},
    "two owners": {"a": [], "z": [], "b": ["a", "z"], "c": ["b", "a"]},
    "diamond": {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]},
    "ring": {"a": ["b"], "b": ["a"]},
    "ring of three with more": {"a": ["c"], "b": ["a"], "c": ["b"], "d": ["c"], "e": ["a"]},
    "itself": {"a": ["a"], "b": ["a"]},
    "ring with a tail": {"a": [], "b": ["a", "c"], "c": ["b"], "d": ["c", "b"]},
}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[ControllerClient]:
    async with local_api(tmp_path) as api:
        yield api.client


@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "not blocking"])
@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
async def test_owner_deletion_removes_only_dependents_without_other_owners(
    client: ControllerClient, graph: dict[str, list[str]], policy: str, blocking: bool
) -> None:
    """Remaining objects reference only existing owners, and no finalizer is left behind."""
    owners = Owners(client)
    await owners.make_all(graph, blocking=blocking)
    async with owners.collecting():
        await owners.delete("a", policy)
        await asyncio.sleep(60)
        assert await owners.left() == survivors(graph, "a", policy)
        assert all("finalizers" not in item["metadata"] for item in (await client.list(MAPS)).items)


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_ring_of_which_all_are_deleted_at_once_goes(client: ControllerClient, policy: str) -> None:
    """The objects wait for each other; the collector breaks the cycle."""
    owners = Owners(client)
    await owners.make_all({"a": ["c"], "b": ["a"], "c": ["b"]})
    async with owners.collecting():
        for name in "abc":
            await owners.delete(name, policy)
        await asyncio.sleep(60)
        assert await owners.left() == {}


async def test_owner_deleted_in_the_foreground_goes_after_what_blocks_it(client: ControllerClient) -> None:
    """The owner stays, with its finalizer, until the last blocking dependent is gone."""
    owners = Owners(client)
    owner = await owners.make("owner")
    await owners.make("slow", owner, finalizers=["example.com/wait"])
    async with owners.collecting():
        await owners.delete("owner", "Foreground")
        await asyncio.sleep(600)
        found = await owners.get("owner")
        assert found is not None
        assert found["metadata"]["finalizers"] == ["foregroundDeletion"]
        slow = await owners.get("slow")
        assert slow is not None
        assert "deletionTimestamp" in slow["metadata"]
        body = {"metadata": {"finalizers": None}}
        await client.patch(MAPS, "slow", body, namespace="default", patch_type=PatchType.MERGE)
        await asyncio.sleep(10)
        assert await owners.left() == {}


async def test_dependent_that_comes_while_its_owner_waits_goes_as_well(client: ControllerClient) -> None:
    """Otherwise the owner would wait for it forever."""
    owners = Owners(client)
    owner = await owners.make("owner")
    await owners.make("slow", owner, finalizers=["example.com/wait"])
    async with owners.collecting():
        await owners.delete("owner", "Foreground")
        await asyncio.sleep(60)
        await owners.make("late", owner)
        await asyncio.sleep(60)
        assert set(await owners.left()) == {"owner", "slow"}


async def test_garbage_from_before_the_collector_is_found(client: ControllerClient) -> None:
    """Before its start: an owner was deleted, and an orphan and a foreground deletion had begun."""
    owners = Owners(client)
    await owners.make_all({"a": [], "b": ["a"], "c": ["b"], "o": [], "p": ["o"], "f": [], "g": ["f"]})
    await owners.delete("a", "Background")
    await owners.delete("o", "Orphan")
    await owners.delete("f", "Foreground")
    async with owners.collecting():
        await asyncio.sleep(60)
        assert await owners.left() == {"p": set()}


async def test_custom_resource_owns_and_is_owned(client: ControllerClient) -> None:
    """Its CRD is created while the collector runs. Custom resources do not support strategic merge patches."""
    owners = Owners(client)
    async with owners.collecting():
        await client.create(as_documents(DEFINITIONS), read_yaml(WIDGET_DEFINITION.encode()))
        await asyncio.sleep(10)
        root = await owners.make("root")
        keeper = await owners.make("keeper")
        widget = await owners.make("w", root, keeper, resource=WIDGETS)
        await owners.make("of-widget", widget)
        orphan = await owners.make("o", resource=WIDGETS)
        await owners.make("of-orphan", orphan, resource=WIDGETS)
        await owners.delete("root")
        await asyncio.sleep(60)
        assert await owners.left(WIDGETS) == {"w": {"keeper"}, "o": set(), "of-orphan": {"o"}}
        await owners.delete("keeper", "Foreground")
        await owners.delete("o", "Orphan", resource=WIDGETS)
        await asyncio.sleep(60)
        assert await owners.left(WIDGETS) == {"of-orphan": set()}
        assert await owners.left() == {}


async def test_dependents_of_a_kind_that_goes_are_collected_and_those_of_an_unknown_one_kept(
    client: ControllerClient,
) -> None:
    """Deleting a CRD deletes its objects, and then their dependents.

    Dependents of a kind that is not served are kept.
    """
    owners = Owners(client)
    await client.create(as_documents(DEFINITIONS), read_yaml(WIDGET_DEFINITION.encode()))
    await asyncio.sleep(10)
    widget = await owners.make("w", resource=WIDGETS)
    await owners.make("of-widget", widget)
    stranger = {"apiVersion": "example.org/v1", "kind": "Nobody", "metadata": {"name": "x", "uid": "unknown"}}
    await owners.make("of-stranger", stranger)
    async with owners.collecting():
        await owners.delete("widgets.example.com", resource=DEFINITIONS)
        await asyncio.sleep(3600)
        assert set(await owners.left()) == {"of-stranger"}


async def test_cross_namespace_owner_is_reported_and_counts_as_absent(client: ControllerClient) -> None:
    """An owner is looked up in the dependent's namespace, or is cluster-scoped."""
    owners = Owners(client)
    owner = await owners.make("owner")
    node = await owners.make("node-1", resource=NODES)
    async with owners.collecting():
        await owners.make("far", owner, namespace="kube-system")
        await owners.make("of-node", node, namespace="kube-system")
        await asyncio.sleep(60)
        assert await owners.left() == {"owner": set(), "of-node": {"node-1"}}
        uid = owner["metadata"]["uid"]
        identity = f"[v1/ConfigMap, namespace: kube-system, name: owner, uid: {uid}]"
        message = f'ownerRef {identity} does not exist in namespace "kube-system"'
        assert ("OwnerRefInvalidNamespace", message) in await owners.events()
        involved = await owners.involved("OwnerRefInvalidNamespace")
        assert [involved.get(name) for name in ("apiVersion", "kind", "namespace", "name")] == [
            *("v1", "ConfigMap", "kube-system", "far")
        ]
        assert involved["uid"]


async def test_reference_with_the_wrong_name_or_kind_harms_only_its_own_object(client: ControllerClient) -> None:
    """An object with the right reference to the same UID stays, whichever was seen first."""
    owners = Owners(client)
    owner = await owners.make("owner")
    wrong_name = {**owner, "metadata": {**owner["metadata"], "name": "other"}}
    await owners.make("a-wrong", wrong_name)
    await owners.make("b-right", owner)
    await owners.make("c-wrong", {**owner, "kind": "Secret"}, resource=SECRETS)
    async with owners.collecting():
        await owners.make("d-wrong", wrong_name)
        await asyncio.sleep(60)
        assert await owners.left() == {"owner": set(), "b-right": {"owner"}}
        assert await owners.left(SECRETS) == {}


async def test_object_without_a_namespace_that_names_an_owner_with_one_is_kept(client: ControllerClient) -> None:
    """The reference has no namespace, so the owner cannot be resolved."""
    owners = Owners(client)
    owner = await owners.make("owner")
    async with owners.collecting():
        await owners.make("shop", owner, resource=NAMESPACES)
        await asyncio.sleep(60)
        assert "shop" in await owners.left(NAMESPACES)


async def test_finalizer_of_the_dependent_decides_how_it_goes(client: ControllerClient) -> None:
    """A collected object with the orphan finalizer leaves its own dependents."""
    owners = Owners(client)
    owner = await owners.make("owner")
    middle = await owners.make("middle", owner, finalizers=["orphan"])
    await owners.make("leaf", middle)
    async with owners.collecting():
        await owners.delete("owner")
        await asyncio.sleep(60)
        assert await owners.left() == {"leaf": set()}


async def test_replica_set_takes_its_pods_along_with_their_grace(client: ControllerClient) -> None:
    """A bound pod is only marked for deletion, and its node terminates it."""
    owners = Owners(client)
    labels = {"app": "web"}
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "node-1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": spec["containers"]}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    made = await client.create(as_documents(REPLICA_SETS), body, namespace="default")
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
    metadata = {"name": "web-1", "labels": labels, "ownerReferences": [reference(made)]}
    pods = as_documents(PODS)
    await client.create(pods, {**pod, "metadata": metadata}, namespace="default")
    async with owners.collecting():
        await owners.delete("web", "Background", resource=REPLICA_SETS)
        await asyncio.sleep(10)
        found = await client.get(pods, "web-1", namespace="default")
        assert found["metadata"]["deletionGracePeriodSeconds"] == 30
        assert await owners.left(REPLICA_SETS) == {}
