"""A day of a busy node on the store: leases, events and status patches do not make the file grow."""

import asyncio
from pathlib import Path

from pykubelet.apiserver.storage.durable_store import DurableStore, open_store
from pykubelet.apiserver.storage.interfaces import StoreSettings
from pykubelet.apiserver.storage.reserve import RESERVE_BYTES
from pykubelet.testing.virtual_time import VirtualClock
from stored_objects import key_of, put

MINUTES = 24 * 60
PODS = 30
NODE_LEASE = key_of("node", "kube-node-lease", "leases.coordination.k8s.io")
NODE = key_of("node", "", "nodes")
STATUS = "s" * 5000


async def minute(store: DurableStore, number: int) -> None:
    """Writes a minute's load: six lease renewals, three events, three pod statuses, sometimes a node status."""
    writes = [put(store, NODE_LEASE, f"{number}-{turn}") for turn in range(6)]
    writes += [put(store, key_of(f"e{number}-{turn}", collection="events"), "x" * 800) for turn in range(3)]
    writes += [
        put(store, key_of(f"pod{(number * 3 + turn) % PODS}", collection="pods"), f"{number}{STATUS}")
        for turn in range(3)
    ]
    if number % 5 == 0:
        writes.append(put(store, NODE, f"{number}{STATUS}"))
    await asyncio.gather(*writes)
    await asyncio.sleep(60)


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


async def test_day_of_a_node_leaves_file_and_memory_bounded(tmp_path: Path) -> None:
    """The size after a day is that after two hours, and a restart loads only current objects."""
    path = tmp_path / "state.db"
    sizes: list[int] = []
    async with open_store(path, clock=VirtualClock()) as store:
        for number in range(MINUTES):
            await minute(store, number)
            sizes.append(size_of(tmp_path))
        assert len(store.list("events").entries) <= 181
    last = store.revision
    assert last > MINUTES * 12
    assert max(sizes) <= max(sizes[:120]) * 1.1
    assert max(sizes) < 10_000_000 + 3 * RESERVE_BYTES
    # The file without its log: 30 pods and a node of 5 kB, 180 events of 1 kB, 5 minutes of history.
    assert path.stat().st_size < 1_500_000 + RESERVE_BYTES
    async with open_store(path, clock=VirtualClock()) as store:
        assert store.revision == last
        assert len(store.list("pods").entries) == PODS


async def test_burst_is_given_back_to_the_disk(tmp_path: Path) -> None:
    """After many large objects are deleted and compacted, the file shrinks again."""
    path = tmp_path / "state.db"
    async with open_store(path, clock=VirtualClock(), settings=StoreSettings(history_bytes=2**30)) as store:
        keys = [key_of(str(number)) for number in range(400)]
        await asyncio.gather(*[put(store, key, "x" * 50_000) for key in keys])
        await asyncio.sleep(600)
        large = path.stat().st_size
        await asyncio.gather(*[store.write(key, lambda _: None) for key in keys])
        await asyncio.sleep(600)
        assert large > 20_000_000
        assert path.stat().st_size < 6_000_000 + RESERVE_BYTES
