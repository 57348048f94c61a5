"""Replays all recorded pod lives side by side on a real node, in real time."""

import asyncio
import os
from collections.abc import Callable

import recorded_runs
from process_cluster import ProcessCluster
from pykubelet.aio.clock import SystemClock
from pykubelet.api import schema
from pykubelet.api.scheme import as_documents
from pykubelet.api.serializer import Document
from pykubelet.client.clientcmd import load_kubeconfig
from pykubelet.client.rest import RestClient
from recorded_runs import Replay


async def live(
    cluster: ProcessCluster, recording: Callable[[str, str], Document], *, apart_seconds: float = 0.0
) -> dict[str, list[str]]:
    """How each replayed life differs from its recording, which `recording` returns for a name and a namespace.

    The node of the cluster must have just started, under the name that it has in the recordings. Where containers are
    slow to start, replays begin `apart_seconds` apart, the longest first.
    """
    clock = SystemClock()
    access = load_kubeconfig((str(cluster.server.kubeconfig),), environment=os.environ, clock=clock)
    found = {name: ["it was not lived"] for name in recorded_runs.NAMES}
    async with RestClient(access, clock=clock) as client:

        async def one(name: str, namespace: str) -> None:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await client.create(as_documents(schema.NAMESPACES), body)
            given, files = recording(name, namespace), cluster.manifests
            life = await Replay(given, client=client, manifests=files, clock=clock, namespace=namespace).run()
            found[name] = recorded_runs.differences(name, life, given, unseen=1)

        await asyncio.sleep(recorded_runs.SETTLED_SECONDS)
        async with asyncio.TaskGroup() as group:
            for name in sorted(recorded_runs.NAMES, key=_length, reverse=True):
                group.create_task(one(name, f"{name}-0"), name=f"life {name}")
                await asyncio.sleep(apart_seconds)
    return found


def _length(name: str) -> float:
    return float(recorded_runs.load(name)["pod_as_seen_by_a_watch"][-1]["at_seconds"])
