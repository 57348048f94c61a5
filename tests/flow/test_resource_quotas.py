"""ResourceQuotas on a whole API server: admission charges them, and the controller counts what is there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from controller_rig import Bench
from manifest_rig import DEFINITIONS, WIDGET_DEFINITION, WIDGETS
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api.errors import ApiError
from pykubelet.api.schema import (
    CONFIG_MAPS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
)
from pykubelet.api.scheme import as_documents
from pykubelet.api.serializer import Document
from pykubelet.api.yaml.read import read_yaml
from pykubelet.client.interface import NOW, ControllerClient
from pykubelet.controllers.resourcequota.resource_quota_controller import ResourceQuotaController
from pykubelet.testing.local_api import LocalApi, local_api


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[LocalApi]:
    async with local_api(tmp_path) as api:
        yield api


class Quotas(Bench):
    """Objects that quotas count, with the controller running."""

    @asynccontextmanager
    async def counting(self, client: ControllerClient) -> AsyncIterator[None]:
        controller = ResourceQuotaController(client=client, clock=self.clock)
        async with self.running(controller), running({"quotas": with_ready_event(controller.run)}):
            yield

    async def limit(self, hard: Document, name: str = "q", **spec: Any) -> None:
        await self.make(RESOURCE_QUOTAS, name, spec={"hard": hard, **spec})

    async def pod(self, name: str, cpu: str = "100m", **spec: Any) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        await self.make(PODS, name, spec={"containers": [container], **spec})

    async def settled(self, used: Document, name: str = "q") -> None:
        """Waits until the status of a quota has these amounts in use, and all its limits."""

        async def holds() -> bool:
            quota = await self.get(RESOURCE_QUOTAS, name)
            assert quota is not None
            return bool(quota["status"] == {"hard": quota["spec"]["hard"], "used": used})

        try:
            await self.until(holds, seconds=5)
        except TimeoutError:
            raise AssertionError(await self.get(RESOURCE_QUOTAS, name)) from None


@pytest.fixture
async def quotas(api: LocalApi) -> AsyncIterator[Quotas]:
    bench = Quotas(api.client)
    async with bench.counting(api.client):
        yield bench


async def test_status_counts_what_was_there_before(quotas: Quotas) -> None:
    """Every kind, under its old names too. Names that count nothing are only limited."""
    await quotas.pod("a")
    await quotas.make(SECRETS, "s")
    ports = [{"port": 80}]
    await quotas.make(SERVICES, "v", spec={"type": "NodePort", "ports": ports})
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "gold",
    }
    await quotas.make(PERSISTENT_VOLUME_CLAIMS, "c", spec=claim)
    by_class = "gold.storageclass.storage.k8s.io/requests.storage"
    used = {
        "pods": "1",
        "requests.cpu": "100m",
        "limits.memory": "0",
        "secrets": "1",
        "resourcequotas": "1",
        "count/deployments.apps": "0",
        "services.nodeports": "1",
        "services": "1",
        by_class: "1Gi",
        "persistentvolumeclaims": "1",
    }
    await quotas.limit({**dict.fromkeys(used, "5"), by_class: "5Gi"})
    await quotas.settled(used)
    quota = await quotas.get(RESOURCE_QUOTAS, "q")
    await quotas.limit({"count/events": "1", "example.com/gpu": "1"}, "r")
    await asyncio.sleep(5)
    other = await quotas.get(RESOURCE_QUOTAS, "r")
    assert quota is not None
    assert other is not None
    assert other["status"]["hard"] == {"count/events": "1", "example.com/gpu": "1"}
    assert not other["status"].get("used")


async def test_what_goes_is_free_again(quotas: Quotas) -> None:
    """A deleted object of any kind, an ended pod, a service without node ports, a pod that leaves a scope."""
    await quotas.limit({"pods": "2", "count/pods": "9", "services.nodeports": "1", "configmaps": "1"})
    await quotas.limit({"pods": "5"}, "lasting", scopes=["NotTerminating"])
    await quotas.settled({"pods": "0", "count/pods": "0", "services.nodeports": "0", "configmaps": "0"})
    await quotas.pod("a")
    await quotas.pod("b")
    with pytest.raises(ApiError, match="exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"):
        await quotas.pod("c")
    await quotas.make(CONFIG_MAPS, "m")
    await quotas.make(SERVICES, "v", spec={"type": "NodePort", "ports": [{"port": 80}]})
    await quotas.settled({"pods": "2", "count/pods": "2", "services.nodeports": "1", "configmaps": "1"})
    await quotas.settled({"pods": "2"}, "lasting")
    await quotas.change(PODS, "a", {"status": {"phase": "Succeeded"}}, subresource="status")
    await quotas.settled({"pods": "1"}, "lasting")
    await quotas.change(PODS, "b", {"spec": {"activeDeadlineSeconds": 60}})
    await quotas.delete(CONFIG_MAPS, "m")
    await quotas.change(SERVICES, "v", {"spec": {"type": "ClusterIP"}})
    await quotas.settled({"pods": "1", "count/pods": "2", "services.nodeports": "0", "configmaps": "0"})
    await quotas.settled({"pods": "0"}, "lasting")
    await quotas.client.delete(as_documents(PODS), "b", namespace="default", options=NOW)
    await quotas.settled({"pods": "0", "count/pods": "1", "services.nodeports": "0", "configmaps": "0"})


async def test_service_frees_single_node_ports(quotas: Quotas) -> None:
    """Its type stays the same."""
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    await quotas.limit({"services.nodeports": "2"})
    await quotas.settled({"services.nodeports": "0"})
    await quotas.make(SERVICES, "v", spec={"type": "NodePort", "ports": ports})
    await quotas.settled({"services.nodeports": "2"})
    await quotas.change(SERVICES, "v", {"spec": {"ports": ports[:1]}})
    await quotas.settled({"services.nodeports": "1"})
    await quotas.delete(SERVICES, "v")
    await quotas.settled({"services.nodeports": "0"})


async def test_what_nodes_and_drivers_report_is_counted(quotas: Quotas) -> None:
    """Containers that have not been resized yet, and claims that have got more than they ask for."""
    await quotas.limit({"requests.cpu": "1"})
    await quotas.settled({"requests.cpu": "0"})
    await quotas.limit({"requests.storage": "9Gi"}, "r")
    await quotas.settled({"requests.storage": "0"}, "r")
    await quotas.pod("a")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await quotas.make(PERSISTENT_VOLUME_CLAIMS, "c", spec=spec)
    for cpu, storage in (("300m", "2Gi"), ("100m", "1Gi")):
        one = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
        statuses = [{**one, "resources": {"requests": {"cpu": cpu}}}]
        await quotas.change(PODS, "a", {"status": {"containerStatuses": statuses}}, subresource="status")
        allocated = {"allocatedResources": {"storage": storage}}
        await quotas.change(PERSISTENT_VOLUME_CLAIMS, "c", {"status": allocated}, subresource="status")
        await quotas.settled({"requests.cpu": cpu})
        await quotas.settled({"requests.storage": storage}, "r")


async def test_changed_quota_is_counted_again(quotas: Quotas) -> None:
    """New limits appear in the status with their usage, removed ones disappear, and a wrong status is put right."""
    await quotas.pod("a")
    await quotas.limit({"pods": "5", "requests.cpu": "1"})
    await quotas.settled({"pods": "1", "requests.cpu": "100m"})
    await quotas.change(RESOURCE_QUOTAS, "q", {"spec": {"hard": {"requests.cpu": None, "count/pods": "4"}}})
    await quotas.settled({"pods": "1", "count/pods": "1"})
    await quotas.change(RESOURCE_QUOTAS, "q", {"status": {"hard": {"pods": "9"}}}, subresource="status")
    await quotas.settled({"pods": "1", "count/pods": "1"})
    await quotas.change(RESOURCE_QUOTAS, "q", {"status": {"used": {"pods": "3"}}}, subresource="status")
    await asyncio.sleep(400)
    await quotas.settled({"pods": "1", "count/pods": "1"})


async def test_custom_resources_are_counted_while_their_kind_is_served(quotas: Quotas) -> None:
    """A quota may be older than the kind that it counts, and outlast it."""
    await quotas.limit({"count/widgets.example.com": "1"})
    await asyncio.sleep(5)
    made = await quotas.get(RESOURCE_QUOTAS, "q")
    assert made is not None
    assert made["status"] == {"hard": {"count/widgets.example.com": "1"}}
    await quotas.plain.create(as_documents(DEFINITIONS), read_yaml(WIDGET_DEFINITION.encode()))
    await asyncio.sleep(60)
    await quotas.settled({"count/widgets.example.com": "0"})
    await quotas.make(WIDGETS, "w", spec={})
    await quotas.settled({"count/widgets.example.com": "1"})
    with pytest.raises(ApiError, match=r"limited: count/widgets\.example\.com=1"):
        await quotas.make(WIDGETS, "x", spec={})
    await quotas.delete(WIDGETS, "w")
    await quotas.settled({"count/widgets.example.com": "0"})
    await quotas.change(RESOURCE_QUOTAS, "q", {"spec": {"hard": {"pods": "3"}}})
    await quotas.settled({"count/widgets.example.com": "0", "pods": "0"})
    await quotas.pod("a")
    await quotas.delete(DEFINITIONS, "widgets.example.com")
    await asyncio.sleep(1)
    await quotas.client.delete(as_documents(PODS), "a", namespace="default", options=NOW)
    await quotas.settled({"count/widgets.example.com": "0", "pods": "0"})


async def test_pods_that_come_and_go_never_exceed_the_quota(quotas: Quotas) -> None:
    """With the controller giving back what is deleted, there are never more pods than allowed, and none is lost."""
    await quotas.limit({"pods": "4"})
    await quotas.settled({"pods": "0"})
    most, made = 0, 0

    async def come_and_go(number: int) -> None:
        nonlocal most, made
        for turn in range(15):
            try:
                await quotas.pod(f"p{number}-{turn}")
            except ApiError:
                await asyncio.sleep(0.02)
                continue
            made += 1
            most = max(most, len(await quotas.all(PODS)))
            await quotas.client.delete(as_documents(PODS), f"p{number}-{turn}", namespace="default", options=NOW)

    await asyncio.gather(*map(come_and_go, range(12)))
    assert most == 4
    assert made > 12
    await quotas.settled({"pods": "0"})


class Interrupting:
    """A client before whose first change of an object something else happens."""

    def __init__(self, client: ControllerClient, happens: Callable[[], Awaitable[None]]) -> None:
        self._client, self._happens = client, [happens]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def patch(self, *args: Any, **rest: Any) -> Any:
        if self._happens:
            await self._happens.pop()()
        return await self._client.patch(*args, **rest)


async def test_pod_that_is_charged_during_the_count_is_not_forgotten(api: LocalApi) -> None:
    """A count is stored only if the quota is as it was before, and made again otherwise."""
    bench = Quotas(api.client)
    await bench.limit({"pods": "2"})
    await bench.change(
        RESOURCE_QUOTAS, "q", {"status": {"hard": {"pods": "2"}, "used": {"pods": "1"}}}, subresource="status"
    )
    client = cast("ControllerClient", Interrupting(api.client, lambda: bench.pod("late")))
    seen: list[Document] = []
    watch = api.client.watch(as_documents(RESOURCE_QUOTAS), resource_version=str(api.store.revision))
    async with bench.counting(client), watch as events:
        async for event in events:
            seen += [] if event.object is None else [event.object["status"]["used"]]
            if {"pods": "1"} in seen:
                break
    assert seen == [{"pods": "2"}, {"pods": "1"}]


async def test_nothing_is_followed_without_a_quota(api: LocalApi) -> None:
    """Monitors of kinds come with the first quota that counts them, and go with the last one."""
    bench = Quotas(api.client)
    controller = ResourceQuotaController(client=api.client, clock=bench.clock)

    def followed() -> list[str]:
        names = (task.get_name() for task in asyncio.all_tasks())
        return sorted(name for name in names if name.startswith("quota monitor of"))

    async with bench.running(controller), running({"quotas": with_ready_event(controller.run)}):
        await asyncio.sleep(60)
        assert followed() == []
        await bench.limit({"configmaps": "1", "pods": "1", "count/secrets": "1"})
        await bench.limit({"configmaps": "1"}, "r")
        await asyncio.sleep(5)
        assert followed() == ["quota monitor of configmaps", "quota monitor of secrets"]
        await bench.delete(RESOURCE_QUOTAS, "q")
        await asyncio.sleep(5)
        assert followed() == ["quota monitor of configmaps"]
        await bench.delete(RESOURCE_QUOTAS, "r")
        await asyncio.sleep(5)
        assert followed() == []


async def test_quota_of_an_ending_namespace_goes_with_it(quotas: Quotas) -> None:
    await quotas.make(NAMESPACES, "shop")
    await quotas.make(RESOURCE_QUOTAS, "q", namespace="shop", spec={"hard": {"configmaps": "2"}})
    await asyncio.sleep(5)
    await quotas.make(CONFIG_MAPS, "m", namespace="shop")
    await quotas.delete(NAMESPACES, "shop")
    await asyncio.sleep(60)
    assert await quotas.get(NAMESPACES, "shop") is None
    assert await quotas.all(RESOURCE_QUOTAS) == []
