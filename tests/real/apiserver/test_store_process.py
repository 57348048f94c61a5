"""The store across processes: killed at any moment, opened twice, and on a full disk."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pykubelet.aio.clock import SystemClock
from pykubelet.apiserver.storage.durable_store import open_store
from pykubelet.apiserver.storage.interfaces import StoreSettings, StoreUnusable
from stored_objects import drained, key_of, put, told, value_of

KILLS = 50
CREATION_KILLS = 12
TESTS = Path(__file__).parents[2] / "support"


class Child:
    """A process of `store_child.py` and the lines it prints."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> list[Any]:
        assert self.process.stdout is not None
        facts: list[Any] = json.loads(await self.process.stdout.readline())
        return facts

    async def lines(self) -> list[list[Any]]:
        """Wait for the process to end and return its remaining lines."""
        output, _ = await self.process.communicate()
        return [json.loads(line) for line in output.splitlines()]

    async def killed_after(self, answers: int) -> list[list[Any]]:
        """Kill the process after this many answers and return all of its lines."""
        told = [await self.line() for _ in range(answers)]
        self.process.kill()
        return told + await self.lines()


@asynccontextmanager
async def child(work: str, path: Path) -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("store_child.py")),
        work,
        str(path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


class Recorder:
    """Follows a store across kills with a watch and checks the promises of the store."""

    def __init__(self) -> None:
        self.revision = 1
        self.objects: dict[str, Any] = {}

    async def check(self, path: Path, lines: list[list[Any]]) -> None:
        async with open_store(path, clock=SystemClock(), settings=StoreSettings(history_changes=100_000)) as store:
            async with store.watch("configmaps", self.revision) as watch:
                changes = told(await drained(watch, store.revision))
            revisions = [revision for revision, _, _ in changes]
            assert revisions == sorted(set(revisions))
            assert not revisions or revisions[0] > self.revision
            for _, name, value in changes:
                self.objects[name] = value
            kept = {entry.key.name: value_of(entry) for entry in store.list("configmaps").entries}
            assert kept == {name: value for name, value in self.objects.items() if value is not None}
            leases = {entry.key.name: value_of(entry) for entry in store.list("leases.coordination.k8s.io").entries}
            self.require_promises(lines, changes, {**kept, **leases})
            self.revision = store.revision

    def require_promises(
        self, lines: list[list[Any]], changes: list[tuple[int, str, Any]], present: dict[str, Any]
    ) -> None:
        """Every answered or seen write is in the log; each object has its last answered state or a later one."""
        log = set(changes)
        last: dict[str, Any] = {}
        for kind, revision, collection, name, value in lines:
            if collection == "configmaps" and revision is not None:
                assert (revision, name, value) in log
            if kind == "answered":
                last[name] = value
        for name, value in last.items():
            found = present.get(name)
            assert found == value or is_later(found, value)


def is_later(found: str | None, answered: str | None) -> bool:
    """Whether the object has the state of a later, unanswered write or deletion by the same writer."""
    if found is None:
        return answered is not None and int(answered.split("-")[1]) % 3 == 2
    return answered is None or int(found.split("-")[1]) > int(answered.split("-")[1])


@pytest.mark.timeout(180)
async def test_killed_store_has_every_answered_write_and_watches_resume(tmp_path: Path) -> None:
    """After each of 50 kills, revisions are ordered and unique, and no answered or seen write is lost."""
    path, recorder, answered = tmp_path / "state.db", Recorder(), 0
    for kill in range(KILLS):
        async with child("write", path) as writer:
            ready, revision = await writer.line()
            assert (ready, revision) == ("ready", recorder.revision)
            lines = await writer.killed_after(kill * 7 % 150)
        answered += len(lines)
        await recorder.check(path, lines)
    assert answered > KILLS * 50


@pytest.mark.timeout(120)
async def test_process_killed_while_it_creates_its_store_can_start_again(tmp_path: Path) -> None:
    """A database is there completely or not at all, so the next start never finds an empty one."""
    for kill in range(CREATION_KILLS):
        folder = tmp_path / str(kill)
        async with child("create", folder) as creator:
            assert (await creator.line())[0] == "created"
            await asyncio.sleep(0.003 * kill)
            lines = await creator.killed_after(1)
        last = lines[-1][1]
        for number in range(last, last + 2):
            async with open_store(folder / str(number) / "state.db", clock=SystemClock()) as store:
                assert value_of(await put(store, key_of("a"), 1)) == 1


async def test_second_process_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    """A killed first process leaves no lock that has to be removed by hand."""
    path = tmp_path / "state.db"
    async with child("hold", path) as holder:
        assert (await holder.line())[0] == "ready"
        with pytest.raises(StoreUnusable, match="is in use by another process"):
            await open_store(path, clock=SystemClock()).__aenter__()
        holder.process.kill()
        await holder.lines()
    async with open_store(path, clock=SystemClock()) as store:
        assert value_of(await put(store, key_of("a"), 1)) == 1


async def test_full_disk_refuses_writes_until_there_is_room(tmp_path: Path) -> None:
    """A limit on the file size (RLIMIT_FSIZE) simulates the full disk."""
    path = tmp_path / "state.db"
    async with child("full", path) as writer:
        lines = await writer.lines()
    (refused, written, message, problem), (read, objects, revision), (_, is_newer, problem_later) = lines
    assert (refused, read, objects) == ("refused", "read", written)
    assert message.startswith("storage cannot be written (disk I/O error): nothing was changed")
    assert problem == "storage cannot be written (disk I/O error)"
    assert revision == written + 1
    assert is_newer
    assert problem_later == ""
    async with open_store(path, clock=SystemClock()) as store:
        assert len(store.list("configmaps").entries) == written + 1
