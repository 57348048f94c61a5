"""The measurements of a node: how soon pods reach a state, and what they cost."""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

from measured_node import NODE, SHARED, World, opened_for_writing, pod, static_pod
from programs import cpu_seconds, megabytes, processes_in
from spread import spread
from watched_pods import WatchedPod, Wish, has_succeeded, is_gone, is_ready, is_there, runs_again

# Precise enough for times of half a second, and cheap for the container.
_LOOK_AGAIN = "sleep 0.02"
# A node that never becomes quiet is measured anyway.
_MAX_SETTLE_SECONDS = 60
_SUPERVISOR = "pykubelet-shim"


async def static_pods(world: World, rounds: int) -> dict[str, Any]:
    """Write, edit and remove a manifest; measure when the API shows it."""
    seen, ready, edited, removed = [], [], [], []
    for number in range(rounds):
        path, mirror = world.manifests / f"static{number}.yaml", f"static{number}-{NODE}"
        began = perf_counter()
        path.write_text(static_pod(f"static{number}", "1"))
        seen.append(await world.pods.when(mirror, is_there) - began)
        ready.append(await world.pods.when(mirror, is_ready) - began)
        await asyncio.sleep(0.3)
        began = perf_counter()
        path.write_text(static_pod(f"static{number}", "2"))
        edited.append(await world.pods.when(mirror, _second_is_ready) - began)
        await asyncio.sleep(0.3)
        began = perf_counter()
        path.unlink()
        removed.append(await world.pods.when(mirror, is_gone) - began)
    return {
        "static_mirror_seen_s": spread(seen),
        "static_ready_s": spread(ready),
        "static_edited_s": spread(edited),
        "static_removed_s": spread(removed),
    }


def _second_is_ready(mirror: WatchedPod | None) -> bool:
    return mirror is not None and mirror.metadata.labels.get("version") == "2" and is_ready(mirror)


async def create_ready(world: World, names: Iterable[str]) -> list[float]:
    """Create pods at once; returns when a watch shows each as ready."""

    async def one(name: str) -> float:
        began = perf_counter()
        ready = asyncio.create_task(world.pods.when(name, is_ready))
        await world.create(pod(name))
        return await ready - began

    return await asyncio.gather(*map(one, names))


async def delete_gone(world: World, names: Iterable[str]) -> list[float]:
    """Delete pods at once; returns when each is gone."""

    async def one(name: str) -> float:
        began = perf_counter()
        await world.delete_pod(name)
        return await world.pods.when(name, is_gone) - began

    return await asyncio.gather(*map(one, names))


async def exits(world: World, rounds: int) -> dict[str, Any]:
    """Measure how soon the API shows the success of a container that exits with code 0."""
    command, policy = "read line < {}", "Never"
    return spread([await _ended(world, f"exit{number}", command, policy, has_succeeded) for number in range(rounds)])


async def crashes(world: World, rounds: int) -> dict[str, Any]:
    """Measure how soon the API shows the first restart of a container that fails."""
    command, policy = "read line < {}; exit 3", "Always"
    return spread([await _ended(world, f"crash{number}", command, policy, runs_again) for number in range(rounds)])


async def _ended(world: World, name: str, command: str, restart_policy: str, wish: Wish) -> float:
    """Measure the time from a line that the container waits for to the state that the API shows."""
    os.mkfifo(world.shared / name)
    shared = {"hostPath": {"path": str(world.shared)}}
    text = command.format(f"{SHARED}/{name}")
    await world.create(pod(name, text, restart_policy=restart_policy, shared=shared))
    await world.pods.when(name, is_ready)
    # Vary the phase relative to the node's periodic work.
    await asyncio.sleep(0.5 + 0.13 * (int(name[-1]) % 8))
    seen = asyncio.create_task(world.pods.when(name, wish))
    pipe = await opened_for_writing(world.shared / name)
    began = perf_counter()
    os.write(pipe, b"\n")
    os.close(pipe)
    took = await seen - began
    await delete_gone(world, [name])
    return took


async def config_map_changes(world: World, rounds: int) -> dict[str, Any]:
    """Measure how soon a container that polls a mounted config map reads its update."""
    metadata = {"name": "watched", "namespace": "default"}
    await world.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": "0"}})
    command = f"while true; do read line < /config/key; echo $line > {SHARED}/read; {_LOOK_AGAIN}; done"
    shared, config = {"hostPath": {"path": str(world.shared)}}, {"configMap": {"name": "watched"}}
    # The file has no newline: `read` fails at EOF, but has read the text.
    await world.create(pod("reader", command, shared=shared, config=config))
    await world.pods.when("reader", is_ready)
    await asyncio.sleep(1)
    times = []
    for number in range(1, rounds + 1):
        began = perf_counter()
        await world.set_config_map("watched", {"key": str(number)})
        times.append(await _moment_of(world.shared / "read", str(number)) - began)
        await asyncio.sleep(0.3)
    await delete_gone(world, ["reader"])
    return spread(times)


async def _moment_of(path: Path, text: str) -> float:
    while True:
        if _reads(path, text):
            return perf_counter()
        await asyncio.sleep(0.005)


def _reads(path: Path, text: str) -> bool:
    return path.read_text().strip() == text


async def settle(world: World) -> None:
    """Wait until the node has sent its pending updates, mostly events; it uses hardly any CPU then."""
    for _ in range(_MAX_SETTLE_SECONDS):
        before = world.node.cpu_seconds()
        await asyncio.sleep(1)
        if world.node.cpu_seconds() - before < 0.03:
            return


async def idle(world: World, seconds: float) -> dict[str, float]:
    """Measure the cost of doing nothing: of the node, the containers' supervisors, and the API server."""
    await settle(world)
    supervisors = [process for process in processes_in(world.folder) if process.name() == _SUPERVISOR]
    node, server = world.node, world.server

    def spent() -> tuple[float, float, float]:
        return node.cpu_seconds(), server.cpu_seconds(), sum(map(cpu_seconds, supervisors))

    before, began = spent(), perf_counter()
    await asyncio.sleep(seconds)
    whole = perf_counter() - began
    shares = [round(100 * (late - early) / whole, 2) for early, late in zip(before, spent(), strict=True)]
    figures = {"cpu_pct": shares[0], "rss_mb": node.rss_mb(), "server_cpu_pct": shares[1]}
    if supervisors:
        # Supervisors share most of their memory, so PSS counts each one's part.
        memory = sum(process.memory_full_info().pss for process in supervisors)
        figures |= {"supervisors_cpu_pct": shares[2], "supervisors_pss_mb": megabytes(memory)}
    return figures
