"""Volumes and environment variables of pods on a whole node, from API objects to files and variables of containers."""

import asyncio
from pathlib import Path
from typing import Any

from pykubelet.api import schema
from pykubelet.api.generated.core import Pod
from pykubelet.api.scheme import as_documents
from pykubelet.runtimes.protocol import ContainerRequest
from pykubelet.runtimes.sim.runtime import Behaviour, SimImages, SimRuntime
from pykubelet.testing.virtual_time import VirtualClock
from whole_node import NAMESPACE, World, container, is_ready, status_of, world

CONFIG_MAPS = as_documents(schema.CONFIG_MAPS)
VOLUME = {"name": "v", "configMap": {"name": "settings"}}
MOUNT: dict[str, Any] = {"volumeMounts": [{"name": "v", "mountPath": "/etc/settings"}]}


class WatchedRuntime(SimRuntime):
    """A runtime that records the requests to create containers."""

    def __init__(self) -> None:
        super().__init__(clock=VirtualClock())
        self.requests: list[ContainerRequest] = []

    async def create_container(self, request: ContainerRequest) -> str:
        self.requests.append(request)
        return await super().create_container(request)


async def put_settings(outside: World, value: str) -> None:
    """Creates the config map."""
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    await outside.api.create(CONFIG_MAPS, {**body, "data": {"key": value}}, namespace=NAMESPACE)


def file_of(outside: World, pod: Pod) -> Path:
    """The path of the config map's key on disk."""
    return outside.folder / "node/pods" / pod.metadata.uid / "volumes/kubernetes.io~configmap/v/key"


async def test_pod_starts_when_its_config_map_appears_and_follows_it(tmp_path: Path) -> None:
    """A FailedMount event reports the missing config map.

    The pod starts within a second of its creation, and updates reach the file.
    """
    async with world(tmp_path) as outside, outside.running_node():
        pod = await outside.create("web", volumes=[VOLUME], containers=[container(**MOUNT)])
        await asyncio.sleep(5)
        assert "FailedMount" in [reason for reason, _ in await outside.events("web")]
        await put_settings(outside, "one")
        await outside.until("web", is_ready, within_seconds=1)
        path = file_of(outside, pod)
        assert path.read_text() == "one"
        await outside.api.patch(CONFIG_MAPS, "settings", {"data": {"key": "two"}}, namespace=NAMESPACE)
        await asyncio.sleep(1)
        assert path.read_text() == "two"
        await outside.delete("web")
        await outside.until_gone("web")
        assert not path.exists()


async def test_config_map_deleted_with_its_pod_causes_no_failed_mount(tmp_path: Path) -> None:
    scripts = {"slow": Behaviour(stop_seconds=5)}
    async with world(tmp_path, scripts=scripts) as outside, outside.running_node():
        await put_settings(outside, "one")
        await outside.create("web", volumes=[VOLUME], containers=[container("slow", **MOUNT)])
        await outside.until("web", is_ready, within_seconds=5)
        await outside.delete("web")
        await outside.api.delete(CONFIG_MAPS, "settings", namespace=NAMESPACE)
        await outside.until_gone("web")
        assert "FailedMount" not in [reason for reason, _ in await outside.events("web")]


async def test_container_starts_when_the_config_map_of_its_environment_appears(tmp_path: Path) -> None:
    """It waits with CreateContainerConfigError and starts within a second, without waiting for the next sync."""
    env = [{"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "key"}}}]
    async with world(tmp_path) as outside, outside.running_node():
        await outside.create("web", containers=[container(env=env), container("other")])
        await asyncio.sleep(3)
        waiting = status_of(await outside.pod("web")).state.waiting
        assert waiting is not None
        assert waiting.reason == "CreateContainerConfigError"
        await put_settings(outside, "one")
        await outside.until("web", is_ready, within_seconds=1)


async def test_container_gets_its_environment_and_mounts(tmp_path: Path) -> None:
    """Variables come from the pod, a config map and a service.

    Mounts include the hosts file and the termination log.
    """
    env = [
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "key"}}},
        {"name": "BOTH", "value": "$(NAME)-$(KEY)"},
    ]
    async with world(tmp_path) as outside:
        sim = WatchedRuntime()
        here = World(outside.client, tmp_path, sim, SimImages())
        await put_settings(outside, "value")
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "db"},
            "spec": {"ports": [{"port": 5432}]},
        }
        await outside.api.create(as_documents(schema.SERVICES), service, namespace=NAMESPACE)
        async with here.running_node():
            await here.create("web", volumes=[VOLUME], containers=[container(env=env, args=["$(BOTH)"], **MOUNT)])
            await outside.until("web", is_ready, within_seconds=1)
        (request,) = sim.requests
        variables = dict(request.environment)
        assert variables["BOTH"] == "web-value"
        assert request.args == ("web-value",)
        assert variables["DB_SERVICE_PORT"] == "5432"
        assert {mount.container_path for mount in request.mounts} == {
            "/etc/settings",
            "/etc/hosts",
            "/dev/termination-log",
        }


async def test_missing_config_map_is_reported_as_the_waiting_reason(tmp_path: Path) -> None:
    """The container waits with CreateContainerConfigError, and starts once the config map exists."""
    env = [{"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "key"}}}]
    async with world(tmp_path) as outside, outside.running_node():
        await outside.create("web", containers=[container(env=env)])
        held = await outside.until("web", lambda one: _reason(one) == "CreateContainerConfigError", within_seconds=2)
        waiting = status_of(held).state.waiting
        assert waiting is not None
        assert waiting.message == 'configmap "settings" not found'
        await put_settings(outside, "value")
        assert is_ready(await outside.until("web", is_ready, within_seconds=16))


def _reason(pod: Pod) -> str:
    waiting = status_of(pod).state.waiting if pod.status.container_statuses else None
    return waiting.reason if waiting is not None else ""
