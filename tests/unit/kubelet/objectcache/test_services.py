"""The list of services, kept current by a watch."""

import asyncio

import pytest

from pykubelet.api.generated.core import Service
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import SERVICES
from pykubelet.kubelet.objectcache.pod_objects import ServiceList
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock


@pytest.fixture
async def api() -> MemoryApi:
    return MemoryApi(VirtualClock())


def names(services: ServiceList) -> list[str] | None:
    found = services.services()
    return None if found is None else sorted(one.metadata.name for one in found)


async def test_list_is_unknown_then_follows_the_server(api: MemoryApi) -> None:
    """Before the first list the services are unknown, which is not an empty list; later every change shows."""
    services = ServiceList(client=api, clock=VirtualClock())
    assert names(services) is None
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(services.run(ready))
        await ready.wait()
        assert names(services) == []
        for name in ("one", "two"):
            await api.create(SERVICES, Service(metadata=ObjectMeta(name=name)), namespace="default")
        await api.patch(SERVICES, "one", {"spec": {"clusterIP": "10.0.0.1"}}, namespace="default")
        await asyncio.sleep(0.01)
        assert names(services) == ["one", "two"]
        await api.delete(SERVICES, "two", namespace="default")
        await asyncio.sleep(0.01)
        found = services.services()
        assert found is not None
        assert [one.spec.cluster_ip for one in found] == ["10.0.0.1"]
        assert services.services() is found
        task.cancel()


async def test_list_of_a_node_on_its_own_is_empty() -> None:
    """Without an API server the list is empty at once."""
    services, ready = ServiceList(client=None, clock=VirtualClock()), asyncio.Event()
    await services.run(ready)
    assert (names(services), ready.is_set()) == ([], True)
