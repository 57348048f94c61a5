"""A process with its own store: `store_child.py write|hold|full FILE` or `create FOLDER` prints each event as one line of JSON."""

import asyncio
import json
import os
import resource
import sys
from itertools import count
from pathlib import Path
from typing import Any

from pykubelet.aio.clock import SystemClock
from pykubelet.api.errors import ServiceUnavailable
from pykubelet.apiserver.storage.durable_store import DurableStore, open_store
from pykubelet.apiserver.storage.interfaces import StoreSettings
from stored_objects import key_of, put, remove, value_of

WRITERS = 8


def say(*facts: Any) -> None:
    """Print one line with a single write, so that a kill never leaves a partial line in the pipe."""
    os.write(1, json.dumps(facts).encode() + b"\n")


async def write_for_ever(store: DurableStore, writer: int) -> None:
    """Create, update and delete objects without end, and print each answer."""
    for turn in count():
        key = key_of(f"{writer}-{turn % 5}", collection=("configmaps", "leases.coordination.k8s.io")[writer % 2])
        entry = await put(store, key, f"{os.getpid()}-{turn}")
        say("answered", entry.revision, key.collection, key.name, value_of(entry))
        if turn % 3 == 2:
            await remove(store, key)
            say("answered", None, key.collection, key.name, None)


async def watch_for_ever(store: DurableStore) -> None:
    async with store.watch("configmaps", store.revision) as watch:
        async for batch in watch:
            for change in batch.changes:
                say("seen", change.revision, change.key.collection, change.key.name, value_of(change.after))


async def write(store: DurableStore) -> None:
    say("ready", store.revision)
    async with asyncio.TaskGroup() as group:
        group.create_task(watch_for_ever(store))
        for writer in range(WRITERS):
            group.create_task(write_for_ever(store, writer))


async def hold(store: DurableStore) -> None:
    say("ready", store.revision)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def full(store: DurableStore) -> None:
    """Write until the file size limit is reached, read, lift the limit, and write again."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    written = 0
    try:
        for written in count():
            await put(store, key_of(str(written)), "x" * 20_000)
    except ServiceUnavailable as error:
        say("refused", written, str(error), store.health_error())
    say("read", len(store.list("configmaps").entries), store.revision)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    entry = await put(store, key_of("later"), 1)
    say("written", entry.revision > store.list("configmaps").entries[0].revision, store.health_error())


async def create(folder: Path) -> None:
    """Create stores without end, each in a folder of its own."""
    for number in count():
        async with open_store(folder / str(number) / "state.db", clock=SystemClock()):
            say("created", number)


async def main(work: str, path: Path) -> None:
    # Less history than the writes of all kills together, so that old rows are compacted in between.
    settings = StoreSettings(history_changes=5000)
    async with open_store(path, clock=SystemClock(), settings=settings) as store:
        await {"write": write, "hold": hold, "full": full}[work](store)


if __name__ == "__main__":
    given = Path(sys.argv[2])
    asyncio.run(create(given) if sys.argv[1] == "create" else main(sys.argv[1], given))
