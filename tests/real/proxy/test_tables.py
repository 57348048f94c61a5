"""The commands in a real kernel: whatever happened before, the tables are those of the present Services."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from network_lab import Namespace, require_root_and_nft
from proxy_rig import as_service, as_slice, endpoint, endpoint_slice, service, tables
from pykubelet.api.serializer import Document
from pykubelet.proxy.nftables.nft import Nft
from pykubelet.proxy.nftables.services import ServiceTables
from pykubelet.proxy.nftables.table import KernelTable
from pykubelet.proxy.serviceport import IPFamily

BOTH = (IPFamily.IPV4, IPFamily.IPV6)


@pytest.fixture(scope="module")
def place() -> Iterator[Namespace]:
    require_root_and_nft()
    made = Namespace()
    yield made
    made.close()


SPECS: list[Document] = [
    {},
    {"sessionAffinity": "ClientIP"},
    {"internalTrafficPolicy": "Local"},
    {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]},
    {"type": "NodePort", "externalTrafficPolicy": "Local", "ports": [{"port": 80, "nodePort": 30080}]},
    {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}},
    {"externalIPs": ["203.0.113.1"], "ports": [{"port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]},
    {"ports": [{"port": 80, "protocol": "SCTP"}]},
]
SERVICES = st.builds(
    lambda name, spec: service(name, (f"10.96.0.{len(name)}", f"fd96::{len(name)}"), **spec),
    st.sampled_from(["web", "shop"]),
    st.sampled_from(SPECS),
)
ENDPOINT = st.builds(
    lambda number, is_here, is_ready: endpoint(
        f"10.1.0.{number}",
        node="node-1" if is_here else "node-2",
        ready=is_ready,
        serving=True,
        terminating=not is_ready,
    ),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
)
PORTS = [
    {"name": name, "port": port, "protocol": protocol}
    for name, port, protocol in (("", 8080, "TCP"), ("dns", 5353, "UDP"), ("", 8080, "SCTP"))
]
SLICES = st.builds(
    lambda of, endpoints: endpoint_slice(*endpoints, of=of, addressType="IPv4", ports=PORTS),
    st.sampled_from(["web", "shop"]),
    st.lists(ENDPOINT, max_size=5),
)
STEPS = st.lists(st.lists(st.tuples(st.booleans(), SERVICES | SLICES), min_size=1, max_size=3), min_size=1, max_size=4)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_partial_updates_leave_what_a_full_one_writes(
    place: Namespace, steps: list[list[tuple[bool, Document]]]
) -> None:
    """Partial updates, a full update over them, and fresh tables of the last objects alone: all have the same rules."""

    async def main() -> None:
        nft, made = Nft(), tables(families=BOTH)
        await nft.run(line for table in made.tables.values() for line in table.full(None))
        last: dict[tuple[str, str], Document] = {}
        for step in steps:
            for is_there, one in step:
                _apply(made, one, is_there)
                last[one["kind"], one["metadata"]["name"]] = one if is_there else {}
            made.update_tables()
            await nft.run(line for table in made.tables.values() for line in table.partial())
        for _ in range(2):
            await nft.run(line for table in made.tables.values() for line in table.delete_stale_chains())
        found = await _rules(nft)
        kernel = {family: await nft.table(family) for family in BOTH}
        await nft.run(line for family, table in made.tables.items() for line in table.full(kernel[family]))
        assert await _rules(nft) == found
        fresh = tables(families=BOTH)
        for one in filter(None, last.values()):
            _apply(fresh, one, is_there=True)
        fresh.update_tables()
        await nft.run(line for table in fresh.tables.values() for line in table.full(None))
        assert await _rules(nft) == found

    place.run_async(main)


def _apply(made: ServiceTables, one: Document, is_there: bool) -> None:
    if one["kind"] == "Service":
        (made.put_service if is_there else made.remove_service)(as_service(one))
    else:
        (made.put_slice if is_there else made.remove_slice)(as_slice(one))


async def _rules(nft: Nft) -> list[str]:
    """Our tables, without handles, and whatever the order of endpoints."""
    found = json.loads(await _listed())["nftables"]
    return sorted(json.dumps(_plain(one), sort_keys=True) for one in found if "metainfo" not in one)


async def _listed() -> bytes:
    process = await asyncio.create_subprocess_exec("nft", "-j", "list", "ruleset", stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        if "map" in value and "typeof" not in value and value.get("type") == "integer":
            indexes, targets = zip(*value.get("elem", [([], [])]), strict=True)
            return {**_without(value), "elem": [sorted(indexes, key=str), sorted(map(str, targets))]}
        return {key: _plain(one) for key, one in _without(value).items()}
    if isinstance(value, list):
        plain = [_plain(one) for one in value]
        if all(isinstance(one, list) and len(one) == 2 for one in plain):
            return [sorted(map(str, (one[0] for one in plain))), sorted(map(str, (one[1] for one in plain)))]
        return plain
    return value


def _without(value: dict[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in value.items() if key != "handle"}


def test_tables_of_another_version_are_replaced(place: Namespace) -> None:
    """A set of another type cannot be changed: the table is made anew, in one transaction."""

    async def main() -> None:
        nft, made = Nft(), tables()
        await nft.cleanup()
        await nft.run(
            [
                "add table ip pykubelet-proxy",
                "add set ip pykubelet-proxy cluster-ips { type inet_service ; }",
                "add chain ip pykubelet-proxy old",
            ]
        )
        table = made.tables[IPFamily.IPV4]
        with pytest.raises(Exception, match="cluster-ips"):
            await nft.run(table.full(await nft.table(IPFamily.IPV4)))
        await nft.run(table.full(None))
        assert "old" not in (await nft.table(IPFamily.IPV4)).chains
        assert await nft.cleanup()
        assert not await nft.cleanup()
        assert await nft.table(IPFamily.IPV4) == KernelTable()

    place.run_async(main)
