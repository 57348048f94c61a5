"""A node under measurement: an API server, the node, and a client that creates and watches pods."""

import asyncio
import errno
import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from loopback import session, token_file
from machine import memory_folder
from programs import Program, end_processes_in, unmount_below
from watched_pods import WatchedPods

NODE = "bench-node"
FOREVER = "trap 'exit 0' TERM; sleep 1000000 & wait"
"""A program that costs nothing and obeys TERM."""
GRACE_SECONDS = 2
IMAGE = "localhost/busybox:1"
SHARED = "/shared"
"""Where containers see the folder that they share with the measurement."""
# As many concurrent requests as a busy controller; a connection per pod would measure TLS handshakes.
_CONNECTIONS = 32
_MERGE = {"Content-Type": "application/merge-patch+json"}


class World:
    """The server, the node, and the client side of a measurement."""

    def __init__(self, folder: Path, server: Program, node: Program, http: aiohttp.ClientSession) -> None:
        self.folder, self.server, self.node = folder, server, node
        self.pods = WatchedPods(http, server.ready[0])
        self._http, self._url = http, f"{server.ready[0]}/api/v1/namespaces/default"

    @property
    def manifests(self) -> Path:
        return self.folder / "manifests"

    @property
    def shared(self) -> Path:
        return self.folder / "shared"

    async def create(self, document: dict[str, Any]) -> None:
        await self._call("POST", f"{document['kind'].lower()}s", json=document)

    async def delete_pod(self, name: str) -> None:
        await self._call("DELETE", f"pods/{name}")

    async def set_config_map(self, name: str, data: dict[str, str]) -> None:
        await self._call("PATCH", f"configmaps/{name}", data=json.dumps({"data": data}), headers=_MERGE)

    async def count_pod_events(self) -> int:
        body = await self._call("GET", "events", params={"fieldSelector": "involvedObject.kind=Pod"})
        return len(json.loads(body)["items"])

    async def _call(self, method: str, path: str, **options: Any) -> bytes:
        async with self._http.request(method, f"{self._url}/{path}", **options) as response:
            body = await response.read()
            assert response.status < 300, (method, path, response.status, body[:300])
            return body


@contextmanager
def empty_folder() -> Iterator[Path]:
    """A temporary folder; at the end processes that work in it are killed, and mounts are removed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        try:
            yield folder
        finally:
            end_processes_in(folder)
            unmount_below(folder)


@asynccontextmanager
async def open_world(runtime: str, *, options: Iterable[str | Path] = ()) -> AsyncIterator[World]:
    """Run an API server and a node in an empty folder and remove everything at the end; `options` go to the node."""
    with empty_folder() as folder, ExitStack() as stack:
        root_dir = stack.enter_context(memory_folder()) if runtime == "sim" else folder / "node"
        data = folder / "server"
        for part in ("manifests", "shared"):
            (folder / part).mkdir()
        server_options = ("--data-dir", data, "--port", "0", "--token-file", token_file(folder))
        node_options = ("--kubeconfig", data / "admin.kubeconfig", "--node-name", NODE, "--runtime", runtime)
        node_folders = ("--manifests", folder / "manifests", "--root-dir", root_dir, "--port", "0")
        async with (
            Program.run("apiserver", *server_options) as server,
            Program.run("node", *node_options, *node_folders, *options) as node,
            session(_CONNECTIONS) as http,
            asyncio.TaskGroup() as group,
        ):
            world = World(folder, server, node, http)
            started = asyncio.Event()
            watching = group.create_task(world.pods.run(started))
            await started.wait()
            yield world
            watching.cancel()


async def opened_for_writing(pipe: Path) -> int:
    """Open the named pipe once it has a reader."""
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            await asyncio.sleep(0.01)


def pod(name: str, command: str = FOREVER, *, restart_policy: str = "Always", **volumes: Any) -> dict[str, Any]:
    """A pod with one container; each of `volumes` is mounted at `/<its name>`."""
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", command],
        "volumeMounts": [{"name": volume, "mountPath": f"/{volume}"} for volume in volumes],
    }
    spec = {
        "nodeName": NODE,
        "restartPolicy": restart_policy,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "containers": [container],
        "volumes": [{"name": volume, **source} for volume, source in volumes.items()],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def static_pod(name: str, version: str, command: str = FOREVER) -> str:
    """A static pod manifest; its mirror pod has the version as a label."""
    document = pod(name, command)
    del document["spec"]["nodeName"]
    document["metadata"]["labels"] = {"version": version}
    return json.dumps(document)
