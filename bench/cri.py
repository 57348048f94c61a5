"""Figures of the node on containerd as JSON, beside the floor: what CRI's bare calls take in the same run.

Starts a containerd, `pykubelet apiserver` and `pykubelet node` in empty folders and measures them from outside, through a
watch of the API. Times move with the machine; how many times the floor's they are hardly does.
"""

import argparse
import asyncio
import json
import statistics
from collections import defaultdict
from typing import Any

import node_figures
from cri_floor import Floor, open_floor
from machine import machine
from measured_node import IMAGE, World, open_world
from spread import spread

from containerd_lab import running_containerd
from oci_images import Image

TARGETS: dict[str, Any] = {
    "static_ready_s": {"p50": 0.25, "max": 0.5},
    "static_edited_s": {"p50": 0.6},
    "static_removed_s": {"p50": 0.5},
    "exit_seen_s": {"p50": 0.1},
    "restart_seen_s": {"p50": 0.35},
    "config_map_in_container_s": {"max": 0.5},
    "idle": {"cpu_pct": 0.3, "rss_mb": 80},
    "at_once": {"times_the_floor": {"ready": 1.2, "gone": 1.2}},
}


class Bursts:
    """Many pods at once, on the bare runtime and through the node by turns; records the slowest pod of each turn."""

    def __init__(self, world: World, floor: Floor, pods: int) -> None:
        self._world, self._floor = world, floor
        self._names = [f"burst{number}" for number in range(pods)]
        self._times: dict[str, list[float]] = defaultdict(list)
        self._cpu_seconds: list[float] = []

    async def floor_takes_turn(self) -> None:
        await self._until_empty()
        ready, pods = await self._floor.start(len(self._names))
        self._note(floor_ready=ready)
        stopped = await self._floor.stop(pods)
        removed = await self._floor.remove(pods)
        self._note(floor_stopped=stopped, floor_gone=[max(stopped) + max(removed)])

    async def start(self) -> None:
        await node_figures.settle(self._world)
        before = self._world.node.cpu_seconds()
        self._note(ready=await node_figures.create_ready(self._world, self._names))
        await node_figures.settle(self._world)
        self._cpu_seconds.append(self._world.node.cpu_seconds() - before)

    async def end(self) -> None:
        self._note(gone=await node_figures.delete_gone(self._world, self._names))

    async def _until_empty(self) -> None:
        """Wait until the runtime has no pods: the node removes leftovers once a minute, outside the measured time."""
        await node_figures.settle(self._world)
        while True:
            if await self._floor.is_empty():
                return
            await asyncio.sleep(0.5)

    def figures(self) -> dict[str, Any]:
        # A pod that is deleted from the API has stopped; the node removes its remains later.
        usual = {what: statistics.median(times) for what, times in self._times.items()}
        return {
            **{f"{what}_s": spread(times) for what, times in self._times.items()},
            "times_the_floor": {
                "ready": round(usual["ready"] / usual["floor_ready"], 2),
                "gone": round(usual["gone"] / usual["floor_gone"], 2),
                "gone_to_stopped": round(usual["gone"] / usual["floor_stopped"], 2),
            },
            "settled_cpu_ms_per_pod": round(1000 * statistics.median(self._cpu_seconds) / len(self._names), 2),
        }

    def _note(self, **seconds: list[float]) -> None:
        for what, times in seconds.items():
            self._times[what].append(max(times))


async def of_containerd(pods: int, rounds: int, bursts: int, idle_seconds: float) -> dict[str, Any]:
    with running_containerd() as lab:
        lab.add_images([Image(IMAGE, {"Cmd": ["sh"]})])
        # A cgroup tree of its own: the node sweeps cgroups of pods that it does not know, as those of the floor.
        options = ("--cri-socket", lab.socket, "--cgroup-root", f"{lab.cgroup_parent}/node")
        async with open_world("cri", options=options) as world, open_floor(lab) as floor:
            figures: dict[str, Any] = {
                "start_to_ready_s": round(world.node.ready_seconds, 3),
                "rss_empty_mb": world.node.rss_mb(),
            }
            if rounds:
                figures |= await of_one_pod(world, rounds)
                figures |= await of_one_bare_pod(floor, rounds)
            at_once = Bursts(world, floor, pods)
            for number in range(bursts):
                await at_once.floor_takes_turn()
                await at_once.start()
                if number == 0 and idle_seconds:
                    figures["idle"] = await node_figures.idle(world, idle_seconds)
                await at_once.end()
            return figures | {"at_once": at_once.figures()}


async def of_one_pod(world: World, rounds: int) -> dict[str, Any]:
    return {
        **await node_figures.static_pods(world, rounds),
        "exit_seen_s": await node_figures.exits(world, rounds),
        "restart_seen_s": await node_figures.crashes(world, rounds),
        "config_map_in_container_s": await node_figures.config_map_changes(world, rounds),
    }


async def of_one_bare_pod(floor: Floor, rounds: int) -> dict[str, Any]:
    ready = []
    for _ in range(rounds):
        times, pods = await floor.start(1)
        ready += times
        await floor.stop(pods)
        await floor.remove(pods)
    exits = [await floor.exit() for _ in range(rounds)]
    return {
        "floor_ready_s": spread(ready),
        "floor_exit_s": spread(ended for ended, _ in exits),
        # As with the kubelet, a pod is Succeeded only when nothing of it runs any more.
        "floor_exit_stopped_s": spread(stopped for _, stopped in exits),
    }


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=30, help="so many at once")
    parser.add_argument("--rounds", type=int, default=20, help="how often what happens to one pod is measured")
    parser.add_argument("--bursts", type=int, default=5, help="how often what happens to many at once is measured")
    parser.add_argument("--idle-seconds", type=float, default=90.0)
    asked = parser.parse_args()
    figures = await of_containerd(asked.pods, asked.rounds, asked.bursts, asked.idle_seconds)
    print(json.dumps({"machine": machine(), "containerd": figures, "targets": {"containerd": TARGETS}}, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
