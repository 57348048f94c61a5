"""Probe metrics, and how long they are kept."""

import asyncio

from prometheus_client import CollectorRegistry, generate_latest

from prober_rig import World, probe, probed_container
from pykubelet.kubelet.types import ProbeOutcome
from pykubelet.testing.build import pod


def page(world: World) -> str:
    registry = CollectorRegistry()
    registry.register(world.manager.counts)
    return generate_latest(registry).decode()


async def test_probes_are_counted_by_result_until_they_are_removed(world: World) -> None:
    """A probe that could not run is not counted; durations are those of successful probes."""
    of = pod("web", uid="u", containers=[probed_container(liveness=probe(period_seconds=10))])
    world.run_containers(of)
    world.takes_seconds = lambda _: 2
    found = iter([ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, None, ProbeOutcome.SUCCESS])
    world.found = lambda _: next(found)
    async with world.running():
        await asyncio.sleep(10)
        world.manager.add_pod(of)
        await asyncio.sleep(35)
        told = page(world)
        world.manager.remove_pod(of)
        after = page(world)
    labels = 'container="c",namespace="default",pod="web"'
    for line in (
        f'prober_probe_total{{{labels},pod_uid="u",probe_type="Liveness",result="successful"}} 2.0',
        f'prober_probe_total{{{labels},pod_uid="u",probe_type="Liveness",result="failed"}} 1.0',
        'prober_probe_duration_seconds_bucket{container="c",le="1.0",namespace="default",pod="web",probe_type="Liveness"} 0.0',
        f'prober_probe_duration_seconds_count{{{labels},probe_type="Liveness"}} 2.0',
        f'prober_probe_duration_seconds_sum{{{labels},probe_type="Liveness"}} 4.0',
    ):
        assert line in told
    assert "Liveness" not in after
