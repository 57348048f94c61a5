"""The slow steps of a write of a large object run in a thread, and its result is that of the newest state all the same."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.errors import Forbidden, Invalid
from pykubelet.api.serializer import Document
from pykubelet.apiserver.handlers.staged_decision import NewVersion, StagedDecision
from pykubelet.apiserver.storage.durable_store import DurableStore, open_store
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.testing.virtual_time import VirtualClock
from verb_requests import MERGE, Asker

KEY = StoreKey("configmaps", "default", "c")
MAP = "/api/v1/namespaces/default/configmaps"
LARGE = "x" * 100_000


def config_map(**data: str) -> Document:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}, "data": data}


class Steps:
    """The steps of a write that adds a field; `meanwhile` runs while the first slow step is in its thread."""

    def __init__(self, meanwhile: Callable[[], Any] = lambda: None) -> None:
        self.threads: list[tuple[str, bool]] = []
        self.quota = 1
        self.decision = StagedDecision(self._make, self._admit, self._complete, self._finish)
        self._main, self._meanwhile, self._once = threading.get_ident(), meanwhile, True
        self._loop = asyncio.get_running_loop()

    def _ran(self, step: str) -> None:
        self.threads.append((step, threading.get_ident() == self._main))

    def _make(self, existing: StoreEntry | None) -> NewVersion:
        self._ran("make")
        live = None if existing is None else existing.document
        data = {} if live is None else live["data"]
        return NewVersion(config_map(**{**data, "new": "1"}), live)

    def _admit(self, version: NewVersion) -> Document:
        self._ran("admit")
        if not self.quota:
            raise Forbidden("no quota")
        return {**version.new, "data": {**version.new["data"], "quota": str(self.quota)}}

    def _complete(self, admitted: Document, live: Document | None) -> Document:
        self._ran("complete")
        if self._once and threading.get_ident() != self._main:
            self._once = False
            asyncio.run_coroutine_threadsafe(self._wait(), self._loop).result(10)
        return {**admitted, "immutable": live is None}

    async def _wait(self) -> None:
        if (waited := self._meanwhile()) is not None:
            await waited

    def _finish(self, new: Document, _existing: StoreEntry | None, _live: Document | None) -> Document:
        self._ran("finish")
        return new


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def stored(store: DurableStore) -> Document:
    entry = store.get(KEY)
    assert entry is not None
    data: Document = entry.document["data"]
    return data


async def test_only_the_slow_steps_of_a_large_object_run_in_a_thread(path: Path) -> None:
    """Admission is asked again when the store decides."""
    async with open_store(path, clock=VirtualClock()) as store:
        small, large = Steps(), Steps()
        await small.decision.write(store, KEY, is_large=False)
        assert small.threads == [("make", True), ("admit", True), ("complete", True), ("finish", True)]
        await large.decision.write(store, KEY, is_large=True)
        ahead, within = large.threads[:3], large.threads[3:]
        assert ahead == [("make", False), ("admit", True), ("complete", False)]
        assert within == [("admit", True), ("finish", True)]


async def test_large_stored_object_is_changed_in_a_thread_however_small_the_request(path: Path) -> None:
    async with open_store(path, clock=VirtualClock()) as store:
        await store.write(KEY, lambda _: config_map(large=LARGE))
        steps = Steps()
        await steps.decision.write(store, KEY, is_large=False)
        assert ("complete", False) in steps.threads
        assert stored(store) == {"large": LARGE, "new": "1", "quota": "1"}


async def test_change_of_the_stored_object_meanwhile_is_kept(path: Path) -> None:
    """The steps run again with the newest state."""
    async with open_store(path, clock=VirtualClock()) as store:
        steps = Steps(lambda: store.write(KEY, lambda _: config_map(other="2")))
        await steps.decision.write(store, KEY, is_large=True)
        assert stored(store) == {"other": "2", "new": "1", "quota": "1"}


async def test_object_that_always_changes_is_decided_within_the_store(path: Path) -> None:
    async with open_store(path, clock=VirtualClock()) as store:
        numbers = iter(range(100))
        steps = Steps()

        def change() -> Any:
            steps._once = True
            return store.write(KEY, lambda _: config_map(other=str(next(numbers))))

        steps._meanwhile = change
        await steps.decision.write(store, KEY, is_large=True)
        assert steps.threads[-3:] == [("admit", True), ("complete", True), ("finish", True)]
        assert stored(store) == {"other": "2", "new": "1", "quota": "1"}


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("quota", [0, 2])
async def test_change_of_what_admission_reads_counts(path: Path, quota: int, *, dry_run: bool) -> None:
    """The object is rejected, or admitted as things are when the store decides."""
    async with open_store(path, clock=VirtualClock()) as store:

        def change() -> None:
            steps.quota = quota

        steps = Steps(change)
        run = steps.decision.dry_run if dry_run else steps.decision.write
        if quota:
            assert await run(store, KEY, is_large=True) is not None
            assert ("complete", False) in steps.threads
            assert dry_run or stored(store)["quota"] == "2"
        else:
            with pytest.raises(Forbidden):
                await run(store, KEY, is_large=True)
        assert (store.get(KEY) is None) == (dry_run or not quota)


async def test_error_of_a_slow_step_is_the_answer_if_nothing_has_changed(path: Path) -> None:
    async with open_store(path, clock=VirtualClock()) as store:
        steps = Steps()

        def reject(_admitted: Document, _live: Document | None) -> Document:
            raise Invalid("too many ports")

        steps.decision.complete = reject
        with pytest.raises(Invalid, match="too many ports"):
            await steps.decision.write(store, KEY, is_large=True)
        assert steps.threads == [("make", False), ("admit", True), ("admit", True)]


async def test_no_change_of_a_large_object_by_many_clients_is_lost(asker: Asker) -> None:
    await asker.ask("POST", MAP, {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"large": LARGE}})
    async with asyncio.TaskGroup() as group:
        for number in range(12):
            group.create_task(asker.ask("PATCH", f"{MAP}/c", {"data": {f"k{number}": "v"}}, MERGE))
    found = await asker.ask("GET", f"{MAP}/c")
    assert found["data"].keys() == {"large", *(f"k{number}" for number in range(12))}


async def test_large_object_is_not_created_twice_or_in_a_namespace_that_ends(asker: Asker) -> None:
    """The answers are those to small objects."""
    await asker.ask("POST", "/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": "team"}})
    body = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"large": LARGE}}
    answers = await asyncio.gather(*(asker.answer("POST", MAP, body) for _ in range(4)), return_exceptions=True)
    assert sum(not isinstance(answer, BaseException) for answer in answers) == 1
    path = "/api/v1/namespaces/team/configmaps"
    creating = asyncio.create_task(asker.refused("POST", path, body))
    await asyncio.sleep(0)
    await asker.ask("DELETE", "/api/v1/namespaces/team")
    code, _ = (await creating)[:2]
    assert code in (403, 404)
