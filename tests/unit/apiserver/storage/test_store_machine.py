"""The durable store compared with a plain model, through writes, refusals, restarts and time."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pykubelet.api.errors import Expired
from pykubelet.apiserver.storage.durable_store import DurableStore, open_store
from pykubelet.apiserver.storage.interfaces import StoreKey, StoreSettings
from pykubelet.testing.virtual_time import VirtualClock, VirtualTimeLoop
from stored_objects import drained, put, remove, value_of

T = TypeVar("T")

REMEMBERED = 6
SETTINGS = StoreSettings(history_changes=REMEMBERED, without_history=frozenset({"leases"}), lifetimes={})
GENEROUS = replace(SETTINGS, history_changes=1000, history_seconds=1e6)
COLLECTIONS = ("pods", "leases")
KEYS = st.builds(StoreKey, st.sampled_from(COLLECTIONS), st.sampled_from(["a", "a-b"]), st.sampled_from(["x", "y"]))
# None removes; the numbers are few, so that some writes change nothing.
WRITES = st.lists(st.tuples(KEYS, st.none() | st.integers(0, 2)), min_size=1, max_size=6)


class Change(NamedTuple):
    revision: int
    key: StoreKey
    value: int | None


class StoreMachine(RuleBasedStateMachine):
    """The model is the log of all acknowledged changes; every past state follows from it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.loop = VirtualTimeLoop()
        self.log: list[Change] = []
        self.opened_at = 1
        self.quiet_since = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize()
    def open(self, chosen: StoreSettings = SETTINGS) -> None:
        self.context: AbstractAsyncContextManager[DurableStore] = open_store(
            self.folder / "state.db", clock=VirtualClock(), settings=chosen
        )
        self.store = self.run(self.context.__aenter__())
        self.opened_at = self.store.revision

    @rule(writes=WRITES)
    def write_at_once(self, writes: list[tuple[StoreKey, int | None]]) -> None:
        """Writes concurrently, so that writes share transactions and depend on each other."""

        async def write() -> None:
            await asyncio.gather(
                *[remove(self.store, key) if value is None else put(self.store, key, value) for key, value in writes]
            )

        self.run(write())
        for key, value in writes:
            if self.state_at(self.newest).get(key) != value:
                self.log.append(Change(self.newest + 1, key, value))

    @rule(chosen=st.sampled_from([SETTINGS, GENEROUS]))
    def restart(self, chosen: StoreSettings) -> None:
        """Restarts with a history limit; a larger one must not reveal what was dropped before."""
        self.run(self.context.__aexit__(None, None, None))
        self.open(chosen)

    @rule(seconds=st.sampled_from([20, 400]))
    def let_time_pass(self, seconds: int) -> None:
        self.run(asyncio.sleep(seconds))
        if seconds > SETTINGS.history_seconds:
            self.quiet_since = self.newest

    @property
    def newest(self) -> int:
        return self.log[-1].revision if self.log else 1

    def state_at(self, revision: int) -> dict[StoreKey, int]:
        state: dict[StoreKey, int] = {}
        for change in self.log:
            if change.revision <= revision:
                state.pop(change.key, None)
                if change.value is not None:
                    state[change.key] = change.value
        return state

    def must_know(self, collection: str, revision: int) -> bool:
        """Whether the store must still keep a revision."""
        since = max(self.quiet_since, self.opened_at if collection in SETTINGS.without_history else 0)
        return revision >= since and sum(change.revision > revision for change in self.log) <= REMEMBERED

    @invariant()
    def present_is_as_the_log_says(self) -> None:
        assert self.store.revision == self.newest
        state = self.state_at(self.newest)
        for collection in COLLECTIONS:
            entries = self.store.list(collection).entries
            expected = {key: value for key, value in state.items() if key.collection == collection}
            assert {entry.key: value_of(entry) for entry in entries} == expected
            assert [f"{entry.key.namespace}/{entry.key.name}" for entry in entries] == sorted(
                f"{key.namespace}/{key.name}" for key in expected
            )

    @rule(back=st.integers(0, 20), collection=st.sampled_from(COLLECTIONS))
    def past_is_as_the_log_says_or_forgotten(self, back: int, collection: str) -> None:
        revision = max(1, self.newest - back)
        try:
            entries = self.store.list(collection, "a", at=revision).entries
        except Expired:
            assert not self.must_know(collection, revision)
        else:
            state = self.state_at(revision)
            expected = {key: value for key, value in state.items() if key[:2] == (collection, "a")}
            assert {entry.key: value_of(entry) for entry in entries} == expected

    @rule(back=st.integers(0, 20), collection=st.sampled_from(COLLECTIONS))
    def watch_tells_the_log_or_that_it_is_forgotten(self, back: int, collection: str) -> None:
        revision = max(1, self.newest - back)

        async def changes() -> list[Change]:
            async with self.store.watch(collection, revision) as watch:
                found = await drained(watch, self.newest)
            for change in found:
                assert value_of(change.before) == self.state_at(change.revision - 1).get(change.key)
            return [Change(change.revision, change.key, value_of(change.after)) for change in found]

        try:
            found = self.run(changes())
        except Expired:
            assert not self.must_know(collection, revision)
        else:
            expected = [change for change in self.log if change.revision > revision]
            assert found == [change for change in expected if change.key.collection == collection]

    def teardown(self) -> None:
        if hasattr(self, "context"):
            self.run(self.context.__aexit__(None, None, None))
        self.loop.close()
        shutil.rmtree(self.folder)


StoreMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestStoreMachine = StoreMachine.TestCase
