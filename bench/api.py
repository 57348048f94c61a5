"""Figures of the API server as JSON: start, create, get, list, status patches under watchers, delete.

Starts `pykubelet apiserver` in an empty folder and measures it from outside, over TLS on loopback, with durable writes,
2,000 pods and 16 requests at once.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import aiohttp
from loopback import session, token_file
from machine import machine
from programs import Program

AT = "2026-01-01T00:00:00Z"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {"app": "bench", "tier": "x"}, "annotations": {"note": "n" * 200}},
    "spec": {
        "containers": [
            {
                "name": f"c{number}",
                "image": "localhost/busybox:1",
                "command": ["/bin/sh", "-c", "sleep 1"],
                "env": [{"name": f"E{i}", "value": "v" * 20} for i in range(10)],
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                "ports": [{"containerPort": 80}],
                "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
            }
            for number in range(2)
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}
STATUS = {
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": AT}
            for kind in ("Ready", "ContainersReady", "Initialized", "PodScheduled")
        ],
        "containerStatuses": [
            {
                "name": f"c{number}",
                "ready": True,
                "restartCount": 0,
                "image": "x",
                "imageID": "y",
                "state": {"running": {"startedAt": AT}},
            }
            for number in range(2)
        ],
    }
}
LISTS = 20
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
TARGETS = {
    "start_to_ready_s": 0.5,
    "rss_empty_mb": 60,
    "rss_after_mb": 150,
    "create": {"rps": 1500, "p99_ms": 40, "cpu_ms_per_op": 0.7},
    "get": {"rps": 3000, "cpu_ms_per_op": 0.3},
    "patch_status_with_watchers": {"rps": 800, "cpu_ms_per_op": 1.5},
    "watch_lag_ms": {"p50": 5},
    "list_s": 0.1,
}


class Bench:
    """One run against one server."""

    def __init__(self, http: aiohttp.ClientSession, server: Program, count: int, at_once: int) -> None:
        self.http, self.server, self.count, self.at_once = http, server, count, at_once
        self.url = server.ready[0]
        self.pods = f"{self.url}/api/v1/namespaces/bench/pods"

    async def call(self, method: str, url: str, **options: Any) -> bytes:
        async with self.http.request(method, url, **options) as response:
            body = await response.read()
            assert response.status < 300, (response.status, body[:300])
            return body

    async def each(self, ask: Callable[[int], Awaitable[object]]) -> dict[str, float]:
        """Call `ask` for every pod with a fixed concurrency; returns rate, latencies and the server's CPU."""
        numbers = iter(range(self.count))
        times: list[float] = []
        began, cpu = perf_counter(), self.server.cpu_seconds()

        async def work() -> None:
            for number in numbers:
                start = perf_counter()
                await ask(number)
                times.append(perf_counter() - start)

        await asyncio.gather(*(work() for _ in range(self.at_once)))
        whole = perf_counter() - began
        times.sort()
        return {
            "rps": round(self.count / whole),
            "p50_ms": round(1000 * statistics.median(times), 2),
            "p99_ms": round(1000 * times[int(len(times) * 0.99)], 2),
            "cpu_ms_per_op": round(1000 * (self.server.cpu_seconds() - cpu) / self.count, 3),
        }

    async def create(self, number: int) -> None:
        await self.call("POST", self.pods, json={**POD, "metadata": {**POD["metadata"], "name": f"p{number}"}})

    async def list(self) -> tuple[dict[str, float], str]:
        began = perf_counter()
        body = await self.call("GET", self.pods)
        figures = {"list_s": round(perf_counter() - began, 3), "list_mb": round(len(body) / 2**20, 1)}
        return figures, json.loads(body)["metadata"]["resourceVersion"]

    async def lists(self, accept: str) -> dict[str, float]:
        """The server's CPU for a list of all pods in a format: the first time, and on average of the next ones."""
        costs = []
        size = 0
        for _ in range(1 + LISTS):
            cpu = self.server.cpu_seconds()
            size = len(await self.call("GET", self.pods, headers={"Accept": accept}))
            costs.append(self.server.cpu_seconds() - cpu)
        first, *later = costs
        return {
            "mb": round(size / 2**20, 2),
            "first_cpu_ms": round(1000 * first),
            "cpu_ms": round(1000 * sum(later) / LISTS, 1),
        }

    async def patches(self, watchers: int, revision: str) -> dict[str, Any]:
        """Patch statuses while clients watch; returns the lag of the watch events and the number of missed ones."""
        seen: list[dict[str, float]] = [{} for _ in range(watchers)]
        sent: dict[str, float] = {}

        async def watch(heard: dict[str, float]) -> None:
            query = {"watch": "1", "resourceVersion": revision}
            async with self.http.get(self.pods, params=query) as response:
                async for line in response.content:
                    heard[json.loads(line)["object"]["metadata"]["name"]] = perf_counter()

        async def patch(number: int) -> None:
            url = f"{self.pods}/p{number}/status"
            await self.call("PATCH", url, data=json.dumps(STATUS), headers=STRATEGIC)
            sent[f"p{number}"] = perf_counter()

        tasks = [asyncio.create_task(watch(heard)) for heard in seen]
        await asyncio.sleep(0.5)
        figures = await self.each(patch)
        for _ in range(200):
            if all(len(heard) >= self.count for heard in seen):
                break
            await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        lags = sorted(at - sent[name] for heard in seen for name, at in heard.items() if name in sent)
        return {
            "patch_status_with_watchers": figures,
            "watch_events_missed": sum(self.count - len(heard) for heard in seen),
            "watch_lag_ms": {
                "p50": round(1000 * statistics.median(lags), 2),
                "p99": round(1000 * lags[int(len(lags) * 0.99)], 2),
            },
        }

    async def run(self, watchers: int, *, protobuf: bool) -> dict[str, Any]:
        figures: dict[str, Any] = {
            "start_to_ready_s": round(self.server.ready_seconds, 3),
            "rss_empty_mb": self.server.rss_mb(),
        }
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}
        await self.call("POST", f"{self.url}/api/v1/namespaces", json=namespace)
        figures["create"] = await self.each(self.create)
        figures["get"] = await self.each(lambda number: self.call("GET", f"{self.pods}/p{number}"))
        listed, revision = await self.list()
        figures |= listed | await self.patches(watchers, revision)
        if protobuf:
            figures["list_json"] = await self.lists("application/json")
            figures["rss_json_mb"] = self.server.rss_mb()
            figures["list_protobuf"] = await self.lists("application/vnd.kubernetes.protobuf")
            figures["rss_protobuf_mb"] = self.server.rss_mb()
        now = {"gracePeriodSeconds": 0}
        figures["delete"] = await self.each(lambda number: self.call("DELETE", f"{self.pods}/p{number}", json=now))
        return figures | {"rss_after_mb": self.server.rss_mb()}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--watchers", type=int, default=20)
    parser.add_argument("--protobuf", action="store_true", help="compare lists in protobuf, which takes memory")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = ("--data-dir", folder / "data", "--port", "0", "--token-file", token_file(folder))
        async with Program.run("apiserver", *options) as server, session() as http:
            figures = await Bench(http, server, asked.pods, asked.at_once).run(asked.watchers, protobuf=asked.protobuf)
    print(json.dumps({"machine": machine(), "pods": asked.pods, **figures, "targets": TARGETS}, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
