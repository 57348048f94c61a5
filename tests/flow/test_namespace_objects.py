"""Objects that every namespace has: the default service account and the API server's root certificate."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller_rig import Bench
from pykubelet.api.schema import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from pykubelet.api.scheme import CONFIG_MAPS as MAPS
from pykubelet.api.scheme import NAMESPACES as SPACES
from pykubelet.api.scheme import SERVICE_ACCOUNTS as ACCOUNTS
from pykubelet.controllers.certificates.rootcacertpublisher import RootCaPublisher
from pykubelet.controllers.serviceaccount.serviceaccounts_controller import ServiceAccountsController
from pykubelet.testing.local_api import local_api

FIRST = {"default", "kube-system", "kube-public", "kube-node-lease"}
NAME = "kube-root-ca.crt"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with local_api(tmp_path) as api:
        yield Bench(api.client)


def accounts(bench: Bench) -> ServiceAccountsController:
    objects = bench.informers.objects
    return ServiceAccountsController(client=bench.client, namespaces=objects(SPACES), accounts=objects(ACCOUNTS))


def publisher(bench: Bench) -> RootCaPublisher:
    return RootCaPublisher(client=bench.client, maps=bench.informers.objects(MAPS), root_ca="PEM\n")


async def places(bench: Bench, *, of: str) -> set[str]:
    """The namespaces that have an object of this name."""
    found = await bench.all(SERVICE_ACCOUNTS if of == "default" else CONFIG_MAPS)
    return {item["metadata"]["namespace"] for item in found if item["metadata"]["name"] == of}


async def test_every_namespace_has_its_objects_and_gets_them_back(bench: Bench) -> None:
    """Existing and new namespaces get the objects, and deleted objects are recreated.

    A terminating namespace gets none.
    """
    async with bench.running(accounts(bench), publisher(bench)):
        await bench.make(NAMESPACES, "shop")
        await asyncio.sleep(5)
        assert await places(bench, of="default") == FIRST | {"shop"}
        assert await places(bench, of=NAME) == FIRST | {"shop"}
        await bench.delete(SERVICE_ACCOUNTS, "default", namespace="shop")
        await bench.delete(CONFIG_MAPS, NAME, namespace="shop")
        await asyncio.sleep(5)
        assert await places(bench, of="default") == FIRST | {"shop"}
        assert await places(bench, of=NAME) == FIRST | {"shop"}
        await bench.delete(NAMESPACES, "shop")
        await asyncio.sleep(60)
        assert await bench.get(NAMESPACES, "shop") is None
        assert await places(bench, of="default") == FIRST


async def test_root_certificate_is_put_right_and_other_annotations_are_kept(bench: Bench) -> None:
    """Changed data and a removed description are restored; an unrelated annotation causes no write."""
    async with bench.running(publisher(bench)):
        await asyncio.sleep(5)
        made = await bench.get(CONFIG_MAPS, NAME)
        assert made is not None
        assert made["data"] == {"ca.crt": "PEM\n"}
        assert "verify the kube-apiserver" in made["metadata"]["annotations"]["kubernetes.io/description"]
        annotations = {"kubernetes.io/description": None, "mine": "1"}
        changed = {"data": {"ca.crt": "no", "more": "x"}, "metadata": {"annotations": annotations}}
        await bench.change(CONFIG_MAPS, NAME, changed)
        await asyncio.sleep(5)
        found = await bench.get(CONFIG_MAPS, NAME)
        assert found is not None
        assert found["data"] == made["data"]
        assert found["metadata"]["annotations"] == {**made["metadata"]["annotations"], "mine": "1"}
        await bench.change(CONFIG_MAPS, NAME, {"metadata": {"annotations": {"mine": "2"}}})
        version = (await bench.get(CONFIG_MAPS, NAME) or {})["metadata"]["resourceVersion"]
        await asyncio.sleep(60)
        assert (await bench.get(CONFIG_MAPS, NAME) or {})["metadata"]["resourceVersion"] == version
