"""Figures of the node as JSON: how soon pods are as they should be, and what that costs.

Starts `pykubelet apiserver` and `pykubelet node` in empty folders and measures them from outside, through a watch of the
API: with processes as containers, and with simulated ones. `pykubelet up`, which is both in one, is measured too.
"""

import argparse
import asyncio
import json
from typing import Any

import node_figures
from machine import machine
from measured_node import World, open_world
from spread import spread
from up import of_up

AT_ONCE = 10
FEW, MANY = 30, 100
TARGETS: dict[str, Any] = {
    "process": {
        "static_ready_s": {"p50": 0.25, "max": 0.5},
        "static_edited_s": {"p50": 0.6},
        "static_removed_s": {"p50": 0.5},
        "create_ready_s": {"p50": 0.1, "p99": 0.5},
        "exit_seen_s": {"p50": 0.05},
        "restart_seen_s": {"p50": 0.35},
        "config_map_in_container_s": {"p99": 0.5},
        f"idle_{FEW}_pods": {"cpu_pct": 0.3, "rss_mb": 80},
        f"idle_{MANY}_pods": {"cpu_pct": 0.5},
        f"burst_{FEW}": {"ready_s": {"max": 3.3}, "gone_s": {"max": 3.5}},
    },
    "up": {"answers_s": {"p50": 1.0}, f"rss_mb_{FEW}_pods": 110},
    "simulated_500": {"ready_s": {"max": 5}, "cpu_ms_per_pod": 5},
    "simulated_2000": {"ready_s": {"max": 20}, "cpu_ms_per_pod": 5, "idle": {"cpu_pct": 2, "rss_mb": 150}},
}


async def of_processes(rounds: int, idle_seconds: float) -> dict[str, Any]:
    """The node with containers that are processes of this machine."""
    async with open_world("process") as world:
        figures: dict[str, Any] = {
            "start_to_ready_s": round(world.node.ready_seconds, 3),
            "rss_empty_mb": world.node.rss_mb(),
        }
        figures |= await node_figures.static_pods(world, rounds)
        names = [f"pod{number}" for number in range(MANY)]
        times = await some_at_once(world, names[:FEW])
        figures[f"idle_{FEW}_pods"] = await node_figures.idle(world, idle_seconds)
        figures["exit_seen_s"] = await node_figures.exits(world, rounds)
        figures["restart_seen_s"] = await node_figures.crashes(world, rounds)
        figures["config_map_in_container_s"] = await node_figures.config_map_changes(world, rounds)
        times += await some_at_once(world, names[FEW:])
        figures["create_ready_s"] = spread(times)
        figures[f"idle_{MANY}_pods"] = await node_figures.idle(world, idle_seconds)
        figures[f"delete_{MANY}_gone_s"] = spread(await node_figures.delete_gone(world, names))
        figures[f"burst_{FEW}"] = await burst(world, FEW)
        return figures


async def some_at_once(world: World, names: list[str]) -> list[float]:
    """Create pods in batches, each batch after the last one is ready."""
    return [
        seconds
        for first in range(0, len(names), AT_ONCE)
        for seconds in await node_figures.create_ready(world, names[first : first + AT_ONCE])
    ]


async def burst(world: World, count: int, idle_seconds: float = 0.0) -> dict[str, Any]:
    """Create pods at once, leave them idle, and delete them."""

    def per_pod(seconds_before: float) -> float:
        return round(1000 * (world.node.cpu_seconds() - seconds_before) / count, 2)

    names = [f"burst{number}" for number in range(count)]
    await node_figures.settle(world)
    cpu, events = world.node.cpu_seconds(), await world.count_pod_events()
    figures: dict[str, Any] = {"ready_s": spread(await node_figures.create_ready(world, names))}
    figures["cpu_ms_per_pod"] = per_pod(cpu)
    await node_figures.settle(world)
    figures["settled_cpu_ms_per_pod"] = per_pod(cpu)
    # An event each for image, created and started; a lower number means lost events.
    figures["events_per_pod"] = round((await world.count_pod_events() - events) / count, 2)
    if idle_seconds:
        figures["idle"] = await node_figures.idle(world, idle_seconds)
    cpu = world.node.cpu_seconds()
    figures["gone_s"] = spread(await node_figures.delete_gone(world, names))
    return figures | {"delete_cpu_ms_per_pod": per_pod(cpu)}


async def of_simulation(count: int, idle_seconds: float) -> dict[str, Any]:
    """The node with simulated containers, so that only its own cost is measured."""
    async with open_world("sim", options=("--max-pods", str(count + 1))) as world:
        return await burst(world, count, idle_seconds)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="process,up,sim", help="of these, with commas between them")
    parser.add_argument("--rounds", type=int, default=20, help="how often what happens to one pod is measured")
    # A node syncs each pod again after about a minute; a shorter time would miss that.
    parser.add_argument("--idle-seconds", type=float, default=90.0)
    parser.add_argument("--sim-pods", default="500,2000")
    asked = parser.parse_args()
    only = asked.only.split(",")
    figures: dict[str, Any] = {"machine": machine()}
    if "process" in only:
        figures["process"] = await of_processes(asked.rounds, asked.idle_seconds)
    if "up" in only:
        figures["up"] = await of_up(FEW, 5, asked.idle_seconds)
    for count in map(int, asked.sim_pods.split(",") if "sim" in only else ()):
        figures[f"simulated_{count}"] = await of_simulation(count, asked.idle_seconds)
    targets = {part: TARGETS[part] for part in figures if part in TARGETS}
    print(json.dumps({**figures, "targets": targets}, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
