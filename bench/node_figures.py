"""What is measured of a node: how soon its pods are as they should be, and what it costs."""

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

# Fine enough for times of half a second, and the container hardly notices.
_LOOK_AGAIN = "sleep 0.02"
# One that is never quiet is measured as it is.
_MAX_SETTLE_SECONDS = 60
_SUPERVISOR = "pykubelet-shim"


async def static_pods(world: World, rounds: int) -> dict[str, Any]:
    """A manifest is written, edited, removed; what the API shows of it."""
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
    """Pods are created at once; how soon a watch shows each as Ready."""

    async def one(name: str) -> float:
        began = perf_counter()
        ready = asyncio.create_task(world.pods.when(name, is_ready))
        await world.create(pod(name))
        return await ready - began

    return await asyncio.gather(*map(one, names))


async def delete_gone(world: World, names: Iterable[str]) -> list[float]:
    """Pods are deleted at once; how soon each is gone."""

    async def one(name: str) -> float:
        began = perf_counter()
        await world.delete_pod(name)
        return await world.pods.when(name, is_gone) - began

    return await asyncio.gather(*map(one, names))


async def exits(world: World, rounds: int) -> dict[str, Any]:
    """A container ends well: how soon the API says so."""
    command, policy = "read line < {}", "Never"
    return spread([await _ended(world, f"exit{number}", command, policy, has_succeeded) for number in range(rounds)])


async def crashes(world: World, rounds: int) -> dict[str, Any]:
    """A container fails for the first time: how soon the API shows it running again."""
    command, policy = "read line < {}; exit 3", "Always"
    return spread([await _ended(world, f"crash{number}", command, policy, runs_again) for number in range(rounds)])


async def _ended(world: World, name: str, command: str, restart_policy: str, wish: Wish) -> float:
    """A container waits for a line; from that line to what the API shows."""
    os.mkfifo(world.shared / name)
    shared = {"hostPath": {"path": str(world.shared)}}
    text = command.format(f"{SHARED}/{name}")
    await world.create(pod(name, text, restart_policy=restart_policy, shared=shared))
    await world.pods.when(name, is_ready)
    # Not always at the same moment of whatever the node does each second.
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
    """A config map changes: how soon a container that looks all the time reads it."""
    metadata = {"name": "watched", "namespace": "default"}
    await world.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": "0"}})
    command = f"while true; do read line < /config/key; echo $line > {SHARED}/read; {_LOOK_AGAIN}; done"
    shared, config = {"hostPath": {"path": str(world.shared)}}, {"configMap": {"name": "watched"}}
    # No end of line in the file: `read` fails then, and has read it nevertheless.
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
    """Return when the node has sent what it had to send yet, events above all: it takes hardly any time then."""
    for _ in range(_MAX_SETTLE_SECONDS):
        before = world.node.cpu_seconds()
        await asyncio.sleep(1)
        if world.node.cpu_seconds() - before < 0.03:
            return


async def idle(world: World, seconds: float) -> dict[str, float]:
    """Nothing happens: what the node takes, the supervisors of its containers, and the server it reports to."""
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
        # They share most of their memory; each counts for its part of that.
        memory = sum(process.memory_full_info().pss for process in supervisors)
        figures |= {"supervisors_cpu_pct": shares[2], "supervisors_pss_mb": megabytes(memory)}
    return figures
