"""Figures of the controllers as JSON: how soon a ReplicaSet has its pods, and what that and a change of one pod cost.

Pods are simulated, so that nothing but the server, the controllers and the node is measured.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Collection
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil
from machine import machine
from measured_cluster import (
    NAMESPACE,
    create_set,
    in_one_process,
    is_gone,
    is_ready,
    moments,
    of_programs,
    scale_set,
)
from programs import cpu_seconds
from spread import spread

from pykubelet.api.scheme import PODS, REPLICA_SETS
from pykubelet.app.controllers import CONTROLLERS
from pykubelet.client.interface import Client

SET = "crowd"
SET_SIZE = 10
WARM_UP, CHANGES = 20, 200
CALM = 0.05
"""So much CPU of a second is nothing but clocks."""
# No node agent runs in this bench, so node-lifecycle and pod-gc would evict or delete the pods.
WITHOUT_NODES: Collection[str] = [name for name in CONTROLLERS if name not in ("node-lifecycle", "pod-gc")]
TARGETS: dict[str, Any] = {"one_process": {"pods_per_s": 200}}


async def burst(client: Client, count: int, process: psutil.Process) -> dict[str, Any]:
    """Scale one ReplicaSet up to this many pods and down to none; the CPU is that of one process."""

    def per_pod() -> float:
        return round(1000 * (cpu_seconds(process) - cpu) / count, 2)

    cpu = cpu_seconds(process)
    ready = await moments(client, PODS, is_ready, count, create_set(client, SET, count))
    figures = {"pods_per_s": round(count / max(ready)), "ready_s": spread(ready), "cpu_ms_per_pod": per_pod()}
    cpu = cpu_seconds(process)
    gone = await moments(client, PODS, is_gone, count, scale_set(client, SET, 0))
    return {**figures, "gone_s": spread(gone), "delete_cpu_ms_per_pod": per_pod()}


async def one_process(count: int) -> dict[str, Any]:
    """Server, controllers and node in one process; the CPU is that of all three."""
    with tempfile.TemporaryDirectory() as folder:
        async with in_one_process(Path(folder), tuple(CONTROLLERS), max_pods=count + 1) as client:
            return await burst(client, count, psutil.Process())


async def programs(count: int) -> dict[str, Any]:
    """Server, controllers and node as separate programs; the CPU is that of the controllers."""
    with tempfile.TemporaryDirectory() as folder:
        async with of_programs(Path(folder), max_pods=count + 1) as (client, made):
            figures = await burst(client, count, psutil.Process(made.pid))
            return {**figures, "rss_mb": made.rss_mb()}


async def change(count: int) -> dict[str, Any]:
    """With this many pods, ten to a ReplicaSet, measure how soon a readiness change is in the set's status.

    The CPU is that of the server and the controllers.
    """
    with tempfile.TemporaryDirectory() as folder:
        async with in_one_process(Path(folder), WITHOUT_NODES) as client:

            async def create() -> None:
                for number in range(count // SET_SIZE):
                    await create_set(client, f"set-{number}", SET_SIZE, nodeName="nowhere")

            await moments(client, PODS, lambda event: event.type == "ADDED", count, create())
            await settle()
            return await flips(client)


async def settle() -> None:
    """Wait until events and statuses are written, seen by a process that uses hardly any CPU."""
    process = psutil.Process()
    while True:
        before = cpu_seconds(process)
        await asyncio.sleep(1)
        if cpu_seconds(process) - before < CALM:
            return


async def flips(client: Client) -> dict[str, Any]:
    """Switch one pod between ready and unready, each time after its ReplicaSet has counted the last change."""
    pod = (await client.list(PODS, namespace=NAMESPACE, limit=1)).items[0].metadata.name
    version = (await client.list(REPLICA_SETS, namespace=NAMESPACE, limit=1)).resource_version
    times = []
    async with client.watch(REPLICA_SETS, namespace=NAMESPACE, resource_version=version) as events:
        for number in range(WARM_UP + CHANGES):
            if number == WARM_UP:
                cpu = cpu_seconds(psutil.Process())
            is_ready_now = number % 2 == 0
            began, condition = perf_counter(), {"type": "Ready", "status": str(is_ready_now)}
            body = {"status": {"conditions": [condition]}}
            await client.patch(PODS, pod, body, namespace=NAMESPACE, subresource="status")
            async for event in events:
                if event.object is not None and event.object.status.ready_replicas == is_ready_now:
                    break
            times.append(perf_counter() - began)
    per_change = round(1000 * (cpu_seconds(psutil.Process()) - cpu) / CHANGES, 2)
    return {"cpu_ms": per_change, "seen_s": spread(times[WARM_UP:])}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=1000, help="of the one ReplicaSet")
    parser.add_argument("--present", default="100,1000,10000", help="how many pods there are when one changes")
    parser.add_argument("--only", default="one_process,programs,change", help="of these, with commas between them")
    asked = parser.parse_args()
    only = asked.only.split(",")
    figures: dict[str, Any] = {"machine": machine(), "pods": asked.pods}
    if "one_process" in only:
        figures["one_process"] = await one_process(asked.pods)
    if "programs" in only:
        figures["programs"] = await programs(asked.pods)
    if "change" in only:
        figures["change_among"] = {count: await change(int(count)) for count in asked.present.split(",")}
    print(json.dumps({**figures, "targets": TARGETS}, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
