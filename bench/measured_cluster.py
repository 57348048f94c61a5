"""A cluster under measurement, in this process or as separate programs, and a watch that times its changes."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from machine import memory_folder
from programs import Program

from pykubelet.aio.clock import SystemClock
from pykubelet.aio.ids import RandomIds
from pykubelet.api.scheme import REPLICA_SETS, TypedKind, as_documents
from pykubelet.app.apiserver import serving
from pykubelet.app.controllers import controllers
from pykubelet.app.node import open_node
from pykubelet.app.program import raise_file_limit, tune_garbage_collection, widen_threads
from pykubelet.app.settings import ApiServerSettings, NodeSettings
from pykubelet.client.clientcmd import load_kubeconfig
from pykubelet.client.interface import Client, PatchType, WatchEvent
from pykubelet.client.rest import RestClient

NAMESPACE = "default"
NODE = "bench-node"
CLOCK = SystemClock()
# The measuring machine may have a full disk, which must not cause evictions.
_EVICTION = "memory.available<1Mi"


@asynccontextmanager
async def in_one_process(folder: Path, names: Collection[str], *, max_pods: int = 0) -> AsyncIterator[Client]:
    """An API server and controllers; with `max_pods`, also a node with simulated containers."""
    raise_file_limit()
    widen_threads()
    async with AsyncExitStack() as stack:
        settings = ApiServerSettings(data_dir=folder / "data", port=0)
        served = await stack.enter_async_context(serving(settings, clock=CLOCK, ids=RandomIds()))
        if max_pods:
            wanted = NodeSettings(
                node_name=NODE,
                root_dir=stack.enter_context(memory_folder()),
                runtime="sim",
                max_pods=max_pods,
                eviction_hard=dict([_EVICTION.split("<")]),
            )
            node = await stack.enter_async_context(open_node(wanted, client=served.client, server=None, clock=CLOCK))
            await node.until_ready()
        root_ca = served.client_authority.decode()
        at_work = controllers(client=served.client, clock=CLOCK, root_ca=root_ca, names=names)
        informed = await stack.enter_async_context(at_work)
        await informed.wait()
        tune_garbage_collection()
        yield served.client


@asynccontextmanager
async def of_programs(folder: Path, *, max_pods: int) -> AsyncIterator[tuple[Client, Program]]:
    """Server, node and controllers as programs that use HTTP and TLS; yields a client and the controllers' program."""
    data = folder / "data"
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(Program.run("apiserver", "--data-dir", data, "--port", "0"))
        way = ("--kubeconfig", data / "admin.kubeconfig")
        root_dir = stack.enter_context(memory_folder())
        node = ("node", *way, "--node-name", NODE, "--runtime", "sim", "--root-dir", root_dir, "--port", "0")
        limits = ("--max-pods", str(max_pods), "--eviction-hard", _EVICTION)
        await stack.enter_async_context(Program.run(*node, *limits))
        made = await stack.enter_async_context(Program.run("controllers", *way, "--no-leader-elect"))
        access = load_kubeconfig([str(data / "admin.kubeconfig")], environment=os.environ, clock=CLOCK)
        client = await stack.enter_async_context(RestClient(access, clock=CLOCK))
        yield client, made


async def create_set(client: Client, name: str, replicas: int, **pod: Any) -> None:
    """Create a ReplicaSet; `pod` adds fields to its pod spec."""
    labels, containers = {"app": name}, [{"name": "main", "image": "example/image:1"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, **pod}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }
    await client.create(as_documents(REPLICA_SETS.resource), body, namespace=NAMESPACE)


async def scale_set(client: Client, name: str, replicas: int) -> None:
    body = {"spec": {"replicas": replicas}}
    await client.patch(REPLICA_SETS, name, body, namespace=NAMESPACE, patch_type=PatchType.MERGE)


def is_ready(event: WatchEvent[Any]) -> bool:
    """Whether the event shows a ready pod."""
    pod = event.object
    conditions = pod.status.conditions if pod is not None and event.type != "DELETED" else ()
    return any(one.type == "Ready" and one.status == "True" for one in conditions)


def is_gone(event: WatchEvent[Any]) -> bool:
    return event.type == "DELETED"


async def moments(
    client: Client, kind: TypedKind[Any], happens: Callable[[WatchEvent[Any]], bool], count: int, act: Awaitable[None]
) -> list[float]:
    """Seconds from `act` until a watch has shown the condition for the first, second, ... object of a kind."""
    version = (await client.list(kind, namespace=NAMESPACE, limit=1)).resource_version
    watch = client.watch(kind, namespace=NAMESPACE, resource_version=version, timeout_seconds=3600)
    async with watch as events, asyncio.TaskGroup() as group:
        began, times = perf_counter(), dict[str, float]()
        acting = group.create_task(_finish(act))
        async for event in events:
            if event.object is not None and happens(event):
                times.setdefault(event.object.metadata.name, perf_counter() - began)
                if len(times) == count:
                    await acting
                    return list(times.values())
    raise RuntimeError("the watch has ended")


async def _finish(act: Awaitable[None]) -> None:
    await act
