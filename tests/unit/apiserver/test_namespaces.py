"""Namespaces: the initial ones, what may be created in them, and how they are deleted."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

from pykubelet.api.errors import NotFound
from pykubelet.testing.local_api import local_api
from verb_requests import MERGE, Asker, config_map, pod

NAMESPACES = "/api/v1/namespaces"
HOLD = "example.com/hold"


async def gone(asker: Asker, path: str, seconds: float = 30) -> None:
    """Wait until there is no such object."""
    async with asyncio.timeout(seconds):
        with suppress(NotFound):
            while await asker.ask("GET", path):
                await asyncio.sleep(0.1)


async def conditions(asker: Asker, path: str) -> dict[str, tuple[str, str]]:
    status = (await asker.ask("GET", path))["status"]
    return {one["type"]: (one["status"], one["message"]) for one in status.get("conditions", ())}


async def test_first_namespaces_are_there_and_stay(asker: Asker, tmp_path: Path) -> None:
    """Each carries its name as a label; three of the four cannot be deleted."""
    listed = (await asker.ask("GET", NAMESPACES))["items"]
    labels = [item["metadata"]["labels"]["kubernetes.io/metadata.name"] for item in listed]
    assert labels == ["default", "kube-node-lease", "kube-public", "kube-system"]
    for name in ("default", "kube-public", "kube-system"):
        refusal = (403, f'namespaces "{name}" is forbidden: this namespace may not be deleted')
        assert await asker.refused("DELETE", f"{NAMESPACES}/{name}") == refusal
    revision = asker.api.store.revision
    (tmp_path / "second").mkdir()
    async with local_api(tmp_path / "second") as again:
        assert again.store.revision == revision


async def test_empty_namespace_ends_soon(asker: Asker) -> None:
    """The deletion returns the namespace in phase Terminating."""
    await asker.ask("POST", NAMESPACES, {"metadata": {"name": "x"}})
    ending = await asker.ask("DELETE", f"{NAMESPACES}/x")
    assert ending["status"] == {"phase": "Terminating"}
    await gone(asker, f"{NAMESPACES}/x")


async def test_namespace_deletion_deletes_pods_first_and_then_the_rest(asker: Asker) -> None:
    """Other objects wait for the last pod, pods for their node or finalizers, and conditions report what remains."""
    await asker.ask("POST", NAMESPACES, {"metadata": {"name": "x"}})
    maps, pods = f"{NAMESPACES}/x/configmaps", f"{NAMESPACES}/x/pods"
    for name in ("a", "b"):
        await asker.ask("POST", maps, config_map(name, finalizers=[HOLD] if name == "b" else []))
    await asker.ask("POST", pods, pod("p", nodeName="n"))
    await asker.ask("DELETE", f"{NAMESPACES}/x")
    await asyncio.sleep(2)
    assert "deletionTimestamp" in (await asker.ask("GET", f"{pods}/p"))["metadata"]
    for name in ("a", "b"):
        assert "deletionTimestamp" not in (await asker.ask("GET", f"{maps}/{name}"))["metadata"]
    told = await conditions(asker, f"{NAMESPACES}/x")
    one_pod = "Some resources are remaining: pods. has 1 resource instances"
    assert told["NamespaceContentRemaining"] == ("True", one_pod)
    assert told["NamespaceFinalizersRemaining"] == ("False", "All content-preserving finalizers finished")
    assert told["NamespaceDeletionDiscoveryFailure"] == ("False", "All resources successfully discovered")
    await asker.ask("DELETE", f"{pods}/p?gracePeriodSeconds=0")
    await gone(asker, f"{maps}/a")
    await asyncio.sleep(2)
    told = await conditions(asker, f"{NAMESPACES}/x")
    assert told["NamespaceContentRemaining"][1].endswith("remaining: configmaps. has 1 resource instances")
    finalizers = f"Some content in the namespace has finalizers remaining: {HOLD} in 1 resource instances"
    assert told["NamespaceFinalizersRemaining"] == ("True", finalizers)
    await asker.ask("PATCH", f"{maps}/b", {"metadata": {"finalizers": None}}, MERGE)
    await gone(asker, f"{NAMESPACES}/x")
    assert (await asker.ask("GET", "/api/v1/configmaps"))["items"] == []


async def test_create_in_a_missing_or_terminating_namespace_is_refused(asker: Asker) -> None:
    """Objects in a terminating namespace can still be changed."""
    await asker.ask("POST", NAMESPACES, {"metadata": {"name": "x"}})
    maps = f"{NAMESPACES}/x/configmaps"
    await asker.ask("POST", maps, config_map("a", finalizers=[HOLD]))
    await asker.ask("DELETE", f"{NAMESPACES}/x")
    code, message = await asker.refused("POST", maps, config_map("b"))
    why = "unable to create new content in namespace x because it is being terminated"
    assert (code, message) == (403, f'configmaps "b" is forbidden: {why}')
    assert await asker.ask("PATCH", f"{maps}/a", {"data": {"n": "1"}}, MERGE)
    missing = f"{NAMESPACES}/y/configmaps"
    assert await asker.refused("POST", missing, config_map("b")) == (404, 'namespaces "y" not found')


async def test_namespace_with_another_finalizer_outlives_its_content(asker: Asker) -> None:
    """A finalizer of the spec is removed through finalize, one of the metadata by any update."""
    finalizers = {"spec": {"finalizers": ["kubernetes", HOLD]}}
    await asker.ask("POST", NAMESPACES, {"metadata": {"name": "x", "finalizers": [HOLD]}, **finalizers})
    await asker.ask("DELETE", f"{NAMESPACES}/x")
    await asyncio.sleep(2)
    namespace: dict[str, Any] = await asker.ask("GET", f"{NAMESPACES}/x")
    assert namespace["spec"]["finalizers"] == [HOLD]
    assert (await asker.ask("DELETE", f"{NAMESPACES}/x"))["metadata"]["name"] == "x"
    left = await asker.ask("PUT", f"{NAMESPACES}/x/finalize", {**namespace, "spec": {}})
    assert "finalizers" not in left["spec"]
    await asker.ask("PATCH", f"{NAMESPACES}/x", {"metadata": {"finalizers": []}}, MERGE)
    assert (await asker.refused("GET", f"{NAMESPACES}/x"))[0] == 404


async def test_end_of_a_namespace_goes_on_after_a_restart(tmp_path: Path) -> None:
    """The server stops while an object still has a finalizer."""
    async with local_api(tmp_path) as api:
        asker = Asker(api)
        await asker.ask("POST", NAMESPACES, {"metadata": {"name": "x"}})
        await asker.ask("POST", f"{NAMESPACES}/x/configmaps", config_map("a", finalizers=[HOLD]))
        await asker.ask("DELETE", f"{NAMESPACES}/x")
    async with local_api(tmp_path) as api:
        asker = Asker(api)
        await asker.ask("PATCH", f"{NAMESPACES}/x/configmaps/a", {"metadata": {"finalizers": []}}, MERGE)
        await gone(asker, f"{NAMESPACES}/x")
        assert api.store.newest_in("x") == ()
