"""The namespace controller empties terminating namespaces in order, and finalizes them when nothing is left."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import pytest

from namespace_rig import HOLD, Spaces, spaces
from pykubelet.api.errors import Forbidden, ServiceUnavailable
from pykubelet.api.generated.meta import DeleteOptions
from pykubelet.api.schema import CONFIG_MAPS, NAMESPACES, SECRETS
from pykubelet.api.scheme import TypedKind
from pykubelet.apiserver.loopback import LoopbackClient
from pykubelet.client.discovery import Discovery
from pykubelet.client.interface import EVERYTHING, Listing, Selection
from pykubelet.controllers.namespace.namespace_controller import SETTLE_SECONDS

T = TypeVar("T")
REMAINING, FINALIZERS = "NamespaceContentRemaining", "NamespaceFinalizersRemaining"
UNKNOWN, FAILURE = "NamespaceDeletionDiscoveryFailure", "NamespaceDeletionContentFailure"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Spaces]:
    async with spaces(tmp_path) as made:
        yield made


class Troubled(LoopbackClient):
    """A client with configurable failures of discovery, lists and deletions."""

    def __init__(self, world: Spaces) -> None:
        super().__init__(world.api.server, world.api.registry)
        self.unsure: tuple[str, ...] = ()
        self.is_blank = False
        self.unavailable = self.unlisted = self.undeletable = ""
        """Discovery, a kind, and the names of objects, each a letter."""

    async def discover(self, verbs: frozenset[str]) -> Discovery:
        if self.unavailable:
            raise ServiceUnavailable(self.unavailable)
        known = (await super().discover(verbs)).resources
        return Discovery(() if self.is_blank else known, self.unsure)

    async def list(
        self,
        kind: TypedKind[T],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> Listing[T]:
        if kind.resource.plural == self.unlisted:
            raise ServiceUnavailable(f"{self.unlisted}: no list")
        # Small pages, so that one list needs several.
        return await super().list(kind, namespace=namespace, limit=min(limit, 2), continue_token=continue_token)

    async def delete(
        self, kind: TypedKind[T], name: str, *, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        if name in self.undeletable:
            raise Forbidden(f"{name} may not be deleted")
        await super().delete(kind, name, namespace=namespace, options=options)


async def test_namespace_is_emptied_in_order_and_let_go_in_the_end(world: Spaces) -> None:
    """Pods are deleted first, other objects after the last pod.

    The namespace goes when no object has a finalizer left.
    """
    for name in ("x", "other"):
        await world.fill(name)
    everything = world.content("other")
    async with world.ending():
        await asyncio.sleep(60)
        await world.delete("x")
        await asyncio.sleep(SETTLE_SECONDS - 1)
        assert world.content("x") == everything
        await asyncio.sleep(3)
        assert world.content("x") == everything - {"pods/waiting"}
        one_pod = "Some resources are remaining: pods. has 1 resource instances"
        assert await world.complaints("x") == {REMAINING: one_pod}
        await world.stop_pod("x")
        await asyncio.sleep(2)
        assert world.content("x") == {"configmaps/held"}
        assert await world.complaints("x") == {
            REMAINING: "Some resources are remaining: configmaps. has 1 resource instances",
            FINALIZERS: f"Some content in the namespace has finalizers remaining: {HOLD} in 1 resource instances",
        }
        await asyncio.sleep(600)
        assert "x" not in world.gone
        await world.release("x")
        await world.until_gone("x")
    assert world.gone == {"x": set()}
    assert world.content("other") == everything


async def test_controller_goes_on_where_another_one_was_stopped(world: Spaces) -> None:
    """The controller needs no state but that of the API server."""
    await world.fill("x")
    async with world.ending():
        await world.delete("x")
        await asyncio.sleep(10)
    await world.stop_pod("x")
    async with world.ending():
        await asyncio.sleep(10)
    await world.release("x")
    async with world.ending():
        await world.until_gone("x")
    assert world.gone == {"x": set()}


async def test_namespace_that_others_hold_stays_empty(world: Spaces) -> None:
    """Our finalizer is removed, another one on the namespace stays, and no condition reports remaining content."""
    await world.bench.make(NAMESPACES, "x", metadata={"finalizers": [HOLD]})
    await world.bench.make(CONFIG_MAPS, "held", namespace="x", metadata={"finalizers": [HOLD]})
    async with world.ending():
        await world.delete("x")
        await asyncio.sleep(20)
        assert set(await world.complaints("x")) == {REMAINING, FINALIZERS}
        await world.release("x")
        await asyncio.sleep(20)
        assert world.content("x") == set()
        assert await world.complaints("x") == {}
        found = await world.bench.get(NAMESPACES, "x")
        assert found is not None
        assert "finalizers" not in found["spec"]
        await world.bench.change(NAMESPACES, "x", {"metadata": {"finalizers": None}})
        await world.until_gone("x")


async def test_namespace_waits_for_groups_that_fail_discovery(world: Spaces) -> None:
    """Known kinds are emptied, but an unavailable group may still have objects in the namespace."""
    client = Troubled(world)
    await world.bench.make(NAMESPACES, "x")
    await world.bench.make(CONFIG_MAPS, "free", namespace="x")
    async with world.ending(client):
        client.unsure = ("metrics.k8s.io/v1beta1",)
        await world.delete("x")
        await asyncio.sleep(300)
        assert world.content("x") == set()
        complaints = await world.complaints("x")
        assert list(complaints) == [UNKNOWN]
        assert complaints[UNKNOWN].startswith("Discovery failed for some groups, 1 failing: ")
        assert "metrics.k8s.io/v1beta1" in complaints[UNKNOWN]
        client.unavailable = "nobody answers"
        await asyncio.sleep(300)
        assert await world.complaints("x") == {UNKNOWN: "nobody answers"}
        client.unsure, client.unavailable, client.is_blank = (), "", True
        await asyncio.sleep(300)
        assert await world.complaints("x") == {UNKNOWN: "discovery returned no resources"}
        client.is_blank = False
        await world.until_gone("x")


async def test_one_kind_or_object_in_trouble_keeps_the_namespace_and_nothing_else(world: Spaces) -> None:
    """Each failure is reported once, and everything that can be deleted is."""
    client = Troubled(world)
    client.undeletable, client.unlisted = "bcd", "secrets"
    await world.bench.make(NAMESPACES, "x")
    for name in "abcde":
        await world.bench.make(CONFIG_MAPS, name, namespace="x")
        await world.bench.make(SECRETS, name, namespace="x")
    async with world.ending(client):
        await world.delete("x")
        await asyncio.sleep(120)
        assert world.content("x") == {
            *(f"configmaps/{name}" for name in "bcd"),
            *(f"secrets/{name}" for name in "abcde"),
        }
        assert await world.complaints("x") == {
            REMAINING: "Some resources are remaining: configmaps. has 3 resource instances",
            FAILURE: "Failed to delete all resource types, 2 remaining: b may not be deleted, secrets: no list",
        }
        client.undeletable = client.unlisted = ""
        await world.until_gone("x")
    assert world.gone == {"x": set()}


async def test_pods_that_cannot_be_listed_hold_up_the_rest(world: Spaces) -> None:
    """Objects that pods may use are kept while pods may exist."""
    client = Troubled(world)
    await world.fill("x")
    everything = world.content("x")
    async with world.ending(client):
        client.unlisted = "pods"
        await world.delete("x")
        await asyncio.sleep(120)
        assert world.content("x") == everything
        assert set(await world.complaints("x")) == {FAILURE}
