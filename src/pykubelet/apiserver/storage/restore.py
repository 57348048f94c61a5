"""From the rows of a store's file to its memory: entries, history, lifetimes, what to clean up."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from sys import intern

from pykubelet.apiserver.storage.expiry import Expiry
from pykubelet.apiserver.storage.history import History, Past
from pykubelet.apiserver.storage.rows import Meta, Row
from pykubelet.apiserver.storage.settings import StoreSettings
from pykubelet.apiserver.storage.state import State
from pykubelet.apiserver.store import Entry, Key


@dataclass(slots=True, kw_only=True)
class Memory:
    """A store's memory. `leftovers` are rows that nothing needs any more."""

    state: State
    history: History
    expiry: Expiry
    revision: int
    leftovers: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Moment:
    """The same moment on the wall clock, which rows are dated by, and on the monotonic one, which memory uses."""

    wall_seconds: float
    monotonic_seconds: float

    def monotonic_of(self, wall_seconds: float) -> float:
        """When something dated by the wall clock happened; the future, after the clock was set back, counts as now."""
        return self.monotonic_seconds - max(0.0, self.wall_seconds - wall_seconds)


Unseal = Callable[[Key, bytes], bytes]


def restored(rows: Iterable[Row], meta: Meta, settings: StoreSettings, *, now: Moment, unseal: Unseal) -> Memory:
    """The memory that the rows, given oldest first, describe."""
    # What had no history when it was written has none now, whatever the settings say today.
    without_history = settings.without_history | meta.without_history
    memory = Memory(
        state=State(),
        history=History(settings, forgotten=meta.compacted),
        expiry=Expiry(settings.lifetimes),
        revision=meta.revision,
    )
    for row in rows:
        key = Key(intern(row.collection), intern(row.namespace), row.name)
        before = memory.state.get(key)
        after = None if row.value is None else Entry(key, row.revision, unseal(key, row.value))
        at = now.monotonic_of(row.written_at)
        if row.revision > meta.compacted and row.collection not in without_history:
            memory.history.append(Past(row.revision, before, after, at))
        else:
            memory.leftovers += [] if before is None else [before.revision]
            memory.leftovers += [] if after is not None else [row.revision]
        if after is None:
            memory.state.remove(key)
            memory.expiry.removed(key)
        else:
            memory.state.put(after)
            memory.expiry.written(key, at)
        memory.revision = max(memory.revision, row.revision)
    for collection in without_history:
        memory.history.forget_before(collection, memory.revision)
    return memory
