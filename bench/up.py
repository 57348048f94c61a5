"""Figures of `pykubelet up`: its start time, and its cost with pods from files."""

import asyncio
import os
from pathlib import Path
from typing import Any

from measured_node import NODE, empty_folder, static_pod
from programs import Program
from spread import spread

from pykubelet.aio.clock import SystemClock
from pykubelet.api.scheme import PODS
from pykubelet.client.clientcmd import load_kubeconfig
from pykubelet.client.rest import RestClient

LOOK_SECONDS = 0.05


async def of_up(pods: int, rounds: int, idle_seconds: float) -> dict[str, Any]:
    """Start it several times without pods, then once with pods."""
    answered = []
    for _ in range(rounds):
        with empty_folder() as folder:
            async with _up(folder) as empty:
                answered.append(empty.ready_seconds)
    with empty_folder() as folder:
        for number in range(pods):
            (folder / f"pod{number}.json").write_text(static_pod(f"pod{number}", "1"))
        async with _up(folder, folder) as program:
            await _until_ready(folder / "data" / "admin.kubeconfig", pods)
            await asyncio.sleep(5)
            cpu = program.cpu_seconds()
            await asyncio.sleep(idle_seconds)
            share = round(100 * (program.cpu_seconds() - cpu) / idle_seconds, 3)
            return {"answers_s": spread(answered), f"rss_mb_{pods}_pods": program.rss_mb(), "idle_cpu_pct": share}


def _up(folder: Path, *manifests: Path) -> Any:
    return Program.run(
        "up",
        *manifests,
        "--data-dir",
        folder / "data",
        "--port",
        "0",
        "--runtime",
        "process",
        "--node-name",
        NODE,
        "--no-service-proxy",
    )


async def _until_ready(kubeconfig: Path, pods: int) -> None:
    clock = SystemClock()
    access = load_kubeconfig((str(kubeconfig),), environment=os.environ, clock=clock)
    async with RestClient(access, clock=clock) as client:
        ready = 0
        while ready < pods:
            await asyncio.sleep(LOOK_SECONDS)
            found = (await client.list(PODS)).items
            ready = sum(any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions) for pod in found)
