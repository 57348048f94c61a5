"""The secrets and config maps that pods refer to, registered together."""

import asyncio

import pytest

from pykubelet.api.generated.core import LocalObjectReference, Pod
from pykubelet.api.scheme import SECRETS
from pykubelet.kubelet.objectcache.secret_and_configmap_manager import ConfigMapManager, PodReferences, SecretManager
from pykubelet.kubelet.objectcache.store import NotRegistered
from pykubelet.testing.build import pod, secret
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock


def pulling(*names: str) -> Pod:
    return pod(image_pull_secrets=tuple(LocalObjectReference(name=name) for name in names))


async def test_pull_secrets_are_found_or_named() -> None:
    """Existing secrets are returned, the others named; empty names are ignored."""
    clock = VirtualClock()
    api = MemoryApi(clock)
    await api.create(SECRETS, secret("here", {"a": b"b"}), namespace="default")
    secrets, config_maps = SecretManager(client=api, clock=clock), ConfigMapManager(client=api, clock=clock)
    references, web = PodReferences(secrets=secrets, config_maps=config_maps), pulling("here", "", "gone")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(secrets.run(asyncio.Event()))
        references.register_pod(web)
        found, missing = await references.pull_secrets(web)
        assert ([one.metadata.name for one in found], missing) == (["here"], ["gone"])
        references.unregister_pod(web)
        with pytest.raises(NotRegistered):
            await secrets.get("default", "here")
        assert await references.pull_secrets(web) == ([], ["here", "gone"])
        task.cancel()


async def test_node_on_its_own_has_no_pull_secrets() -> None:
    """Nothing is registered, and every name is missing."""
    references, web = PodReferences(secrets=None, config_maps=None), pulling("one")
    references.register_pod(web)
    references.unregister_pod(web)
    assert await references.pull_secrets(web) == ([], ["one"])
