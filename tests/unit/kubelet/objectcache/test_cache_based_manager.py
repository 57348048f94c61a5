"""The secret and config map managers through their public interface."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import LocalObjectReference, Pod
from pykubelet.api.scheme import SECRETS
from pykubelet.client.interface import PatchType
from pykubelet.kubelet.objectcache.secret_and_configmap_manager import ConfigMapManager, SecretManager
from pykubelet.kubelet.objectcache.store import CacheOptions, ChangeDetectionStrategy, NotRegistered, ObjectKey
from pykubelet.testing.build import pod, secret
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

Running = Callable[[Any], AbstractAsyncContextManager[None]]


def pulling(*names: str) -> Pod:
    return pod(image_pull_secrets=tuple(LocalObjectReference(name=name) for name in names))


@pytest.mark.parametrize("strategy", ChangeDetectionStrategy)
async def test_manager_serves_registered_pods(running: Running, strategy: ChangeDetectionStrategy) -> None:
    """From register to unregister, with every change detection strategy."""
    api = MemoryApi(VirtualClock())
    await api.create(SECRETS, secret("s", {"k": b"v"}), namespace="default")
    manager = SecretManager(client=api, clock=VirtualClock(), options=CacheOptions(strategy=strategy))
    async with running(manager):
        manager.register_pod(pulling("s", "absent"))
        assert (await manager.get("default", "s")).data == {"k": b"v"}
        with pytest.raises(NotFound):
            await manager.get("default", "absent")
        manager.unregister_pod(pulling())
        if strategy is not ChangeDetectionStrategy.GET:
            with pytest.raises(NotRegistered):
                await manager.get("default", "s")


@pytest.mark.parametrize("strategy", [ChangeDetectionStrategy.WATCH, ChangeDetectionStrategy.TTL])
async def test_subscriber_receives_a_change(running: Running, strategy: ChangeDetectionStrategy) -> None:
    """At once with a watch; with the TTL cache when a read finds the change."""
    api = MemoryApi(VirtualClock())
    await api.create(SECRETS, secret("s", {"k": b"1"}), namespace="default")
    manager = SecretManager(client=api, clock=VirtualClock(), options=CacheOptions(strategy=strategy))
    async with running(manager):
        manager.register_pod(pulling("s"))
        await manager.get("default", "s")
        with manager.subscribe() as changes:
            await manager.get("default", "s")
            assert len(changes) == 0
            await api.patch(SECRETS, "s", {"data": {"k": "Mg=="}}, namespace="default", patch_type=PatchType.MERGE)
            if strategy is ChangeDetectionStrategy.TTL:
                await asyncio.sleep(60)
                await manager.get("default", "s")
            async with asyncio.timeout(1):
                assert await changes.next() == ObjectKey("default", "s")
        assert (await manager.get("default", "s")).data == {"k": b"2"}


async def test_config_maps_and_secrets_of_one_name_are_apart(running: Running) -> None:
    """A pod that refers to a secret does not register the config map of the same name."""
    api = MemoryApi(VirtualClock())
    manager = ConfigMapManager(client=api, clock=VirtualClock())
    async with running(manager):
        manager.register_pod(pulling("s"))
        with pytest.raises(NotRegistered):
            await manager.get("default", "s")


async def test_secrets_do_not_appear_in_logs(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    """Neither at debug level nor in a repr."""
    api = MemoryApi(VirtualClock())
    await api.create(SECRETS, secret("s", {"k": b"hunter2"}, string_data={"p": "hunter2"}), namespace="default")
    options = CacheOptions(single_object_watches=True, max_streams=1)
    manager = SecretManager(client=api, clock=VirtualClock(), options=options)
    with caplog.at_level(logging.DEBUG):
        async with running(manager):
            manager.register_pod(pulling("s"))
            found = await manager.get("default", "s")
            await asyncio.sleep(3600)
    assert any(record.name.startswith("pykubelet") for record in caplog.records)
    assert "hunter2" not in caplog.text
    assert "hunter2" not in repr(found)
    assert "aHVudGVyMg" not in caplog.text
