"""Each node gets a range of pods, on virtual time: kept over a restart, given back with the node, waited for if none is left."""

import asyncio
from ipaddress import IPv4Network
from pathlib import Path

from controller_rig import Bench
from pykubelet.api.scheme import EVENTS, NODES
from pykubelet.client.interface import Client
from pykubelet.controllers.nodeipam.range_allocator import NodeRanges, RangeAllocator
from pykubelet.testing.local_api import local_api

CLUSTER = IPv4Network("10.8.0.0/22")
PARTS = ["10.8.0.0/24", "10.8.1.0/24", "10.8.2.0/24", "10.8.3.0/24"]


def allocator(bench: Bench) -> RangeAllocator:
    nodes = bench.informers.objects(NODES)
    return RangeAllocator(client=bench.client, recorder=bench.recorder, nodes=nodes, ranges=NodeRanges(CLUSTER))


async def add(bench: Bench, *names: str, **spec: object) -> None:
    for name in names:
        await bench.make(NODES.resource, name, spec=spec)
    await asyncio.sleep(1)


async def ranges(client: Client) -> dict[str, str]:
    listed = (await client.list(NODES)).items
    assert all(node.spec.pod_cidrs == ((node.spec.pod_cidr,) if node.spec.pod_cidr else ()) for node in listed)
    return {node.metadata.name: node.spec.pod_cidr for node in listed}


async def test_each_node_gets_a_range_and_gives_it_back(tmp_path: Path) -> None:
    async with local_api(tmp_path) as api:
        bench = Bench(api.client)
        async with bench.running(allocator(bench)):
            await add(bench, "a", "b")
            assert await ranges(api.client) == {"a": PARTS[0], "b": PARTS[1]}
            await bench.delete(NODES.resource, "a")
            await add(bench, "c", "d", "e")
            assert await ranges(api.client) == {"b": PARTS[1], "c": PARTS[2], "d": PARTS[3], "e": PARTS[0]}


async def test_ranges_of_existing_nodes_are_not_given_again(tmp_path: Path) -> None:
    """Also one that a node has registered with, and one of another size."""
    async with local_api(tmp_path) as api:
        bench = Bench(api.client)
        await add(bench, "old", podCIDR=PARTS[0], podCIDRs=[PARTS[0]])
        await add(bench, "large", podCIDR="10.8.2.0/23", podCIDRs=["10.8.2.0/23"])
        await add(bench, "outside", podCIDR="10.99.0.0/24", podCIDRs=["10.99.0.0/24"])
        await add(bench, "new")
        async with bench.running(allocator(bench)):
            await asyncio.sleep(1)
            assert (await ranges(api.client))["new"] == PARTS[1]


async def test_node_without_a_range_left_gets_an_event_and_the_next_free_one(tmp_path: Path) -> None:
    async with local_api(tmp_path) as api:
        bench = Bench(api.client)
        async with bench.running(allocator(bench)):
            await add(bench, "a", "b", "c", "d", "late")
            assert (await ranges(api.client))["late"] == ""
            await asyncio.sleep(5)
            events = (await api.client.list(EVENTS, namespace="default")).items
            assert [(each.reason, each.message, each.involved_object.name) for each in events] == [
                ("CIDRNotAvailable", "Node late status is now: CIDRNotAvailable", "late")
            ]
            await bench.delete(NODES.resource, "c")
            await asyncio.sleep(1)
            assert (await ranges(api.client))["late"] == PARTS[2]
