"""Pure parts of the store: state, history, lifetimes, the effect of a write, restoring from a file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.errors import Expired
from pykubelet.api.serializer import encode
from pykubelet.apiserver.storage.durable_store import garbage_of, next_entry
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey, StoreSettings
from pykubelet.apiserver.storage.sqlite import StoreMeta, StoreRow
from pykubelet.apiserver.storage.watch_cache import (
    Expiry,
    History,
    Moment,
    NewestEntries,
    PastChange,
    StoreMemory,
    restore,
)
from stored_objects import document_of, key_of

NAMES = st.sampled_from(["a", "a-b", "a.b", "ab", "b", "é"])
KEYS = st.builds(StoreKey, st.sampled_from(["pods", "nodes"]), NAMES, NAMES)
# None removes a key, a number writes it.
STEPS = st.lists(st.tuples(KEYS, st.none() | st.integers(0, 3)), max_size=40)
A = key_of("a")


def entry_of(key: StoreKey, revision: int, size: int = 0) -> StoreEntry:
    return StoreEntry(key, revision, b"x" * size)


def history_of(pasts: list[PastChange], settings: StoreSettings | None = None) -> History:
    history = History(settings or StoreSettings(), forgotten=0)
    for past in pasts:
        history.append(past)
    return history


@given(STEPS, st.integers(0, 40))
def test_state_lists_in_etcd_order_whatever_happened(steps: list[tuple[StoreKey, int | None]], looked_at: int) -> None:
    """A list equals sorting all entries by the bytes of namespace/name, whenever it was first requested."""
    state, model = NewestEntries(), dict[StoreKey, StoreEntry]()
    for step, (key, value) in enumerate(steps):
        if step == looked_at:
            state.listed("pods")
        if value is None:
            state.remove(key)
            model.pop(key, None)
        else:
            model[key] = entry_of(key, step)
            state.put(model[key])
    ordered = sorted(model.values(), key=lambda entry: f"{entry.key.namespace}/{entry.key.name}".encode())
    for collection in ("pods", "nodes", "none"):
        assert state.listed(collection) == tuple(entry for entry in ordered if entry.key.collection == collection)
    assert state.listed("pods", "a") == tuple(entry for entry in ordered if entry.key[:2] == ("pods", "a"))
    assert set(state.keys_in("a")) == {key for key in model if key.namespace == "a"}
    assert all(state.get(key) == entry for key, entry in model.items())


@given(STEPS, st.integers(0, 40))
def test_history_undoes_to_any_revision(steps: list[tuple[StoreKey, int | None]], to: int) -> None:
    """Undoing later changes in the present state gives the past state."""
    state, history = NewestEntries(), History(StoreSettings(), forgotten=0)
    then: tuple[StoreEntry, ...] = ()
    for revision, (key, value) in enumerate(steps, 1):
        before, after = state.get(key), None if value is None else entry_of(key, revision)
        if before or after:
            history.append(PastChange(revision, before, after, 0.0))
        if after:
            state.put(after)
        else:
            state.remove(key)
        then = state.listed("pods") if revision <= to else then
    assert state.listed_as_it_was("pods", "", history.undone("pods", to)) == then


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        pytest.param(StoreSettings(history_changes=3), 3, id="number"),
        pytest.param(StoreSettings(history_bytes=250), 2, id="size"),
        pytest.param(StoreSettings(history_seconds=4), 5, id="age"),
        pytest.param(StoreSettings(), 10, id="none-reached"),
    ],
)
def test_history_forgets_the_oldest_beyond_each_bound(settings: StoreSettings, kept: int) -> None:
    """It still returns exactly the changes that it keeps."""
    entries = [entry_of(A, revision, 100) for revision in range(11)]
    pasts = [
        PastChange(revision, entries[revision - 1], entries[revision], float(revision)) for revision in range(1, 11)
    ]
    history = history_of(pasts, settings)
    forgotten = history.trim(10.0)
    assert forgotten == pasts[: 10 - kept]
    assert len(history) == kept
    assert len(history.since("configmaps", 10 - kept, 99)) == kept
    assert [change.revision for change in history.since("configmaps", 10 - kept, 2)] == [11 - kept, 12 - kept]
    if kept < 10:
        with pytest.raises(Expired, match=f"too old resource version: {9 - kept} "):
            history.since("configmaps", 9 - kept, 1)


def test_history_of_a_quiet_collection_outlasts_a_busy_one() -> None:
    """Changes of other collections do not force a relist."""
    pods = [
        PastChange(revision, None, entry_of(key_of("p", collection="pods"), revision), 0.0) for revision in range(2, 9)
    ]
    history = history_of(pods, StoreSettings(history_changes=2))
    history.trim(0.0)
    assert history.since("configmaps", 1, 9) == ()
    with pytest.raises(Expired):
        history.since("pods", 1, 9)


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abc"), st.booleans()), max_size=30), st.integers(0, 200))
def test_expiry_names_what_was_not_written_for_its_lifetime(steps: list[tuple[int, str, bool]], later: int) -> None:
    """A write restarts the lifetime, a removal ends it; other collections never expire."""
    expiry, written, now = Expiry({"events": 50.0}), dict[str, int](), 0
    for pause, name, is_written in steps:
        now += pause
        expiry.written(key_of(name, collection="pods"), now)
        if is_written:
            expiry.written(key_of(name, collection="events"), now)
            written[name] = now
        else:
            expiry.removed(key_of(name, collection="events"))
            written.pop(name, None)
    due = [key.name for key in expiry.due(now + later, 99)]
    assert sorted(due) == sorted(name for name, at in written.items() if at + 50 <= now + later)
    assert [written[name] for name in due] == sorted(written[name] for name in due)
    assert len(expiry.due(now + later, 1)) == min(1, len(due))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 999) | st.sampled_from([0.5, 1e20]) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, JSON, st.integers(1, 2000), st.integers(1, 2000))
def test_write_changes_something_unless_the_documents_are_equal(old: object, new: object, at: int, later: int) -> None:
    """Equal means the same JSON, whatever the order of keys."""
    before = next_entry(A, None, {"metadata": {}, "spec": old}, at)
    assert before is not None
    after = next_entry(A, before, {"spec": new, "metadata": {"resourceVersion": "x"}}, later)
    # Sorted text distinguishes 1 from true and 1.0, as JSON does and Python does not.
    assert (after is None) == (sorted_text(old) == sorted_text(new))
    if after is not None:
        assert after.document == {"spec": new, "metadata": {"resourceVersion": str(later)}}


def sorted_text(value: object) -> bytes:
    if isinstance(value, dict):
        return b"{%s}" % b",".join(sorted(encode(name) + sorted_text(item) for name, item in value.items()))
    if isinstance(value, list):
        return b"[%s]" % b",".join(map(sorted_text, value))
    return encode(value)


def restored_from(
    rows: list[StoreRow], *, compacted: int = 0, reached: int = 1, settings: StoreSettings
) -> StoreMemory:
    now = Moment(wall_seconds=1000.0, monotonic_seconds=50.0)
    return restore(rows, StoreMeta(compacted, reached, frozenset()), settings, now=now, decrypt=lambda _, value: value)


def test_restored_memory_knows_history_after_what_was_compacted() -> None:
    """Rows of older changes are leftovers, and the revision never decreases."""
    text = [encode(document_of(A, value)) for value in range(4)]
    rows = [
        StoreRow(2, 900, *A, text[0]),
        StoreRow(3, 900, *A, text[1]),
        StoreRow(4, 900, *key_of("b"), None),
        StoreRow(5, 900, *A, text[2]),
        StoreRow(6, 900, *A, text[3]),
    ]
    memory = restored_from(rows, compacted=4, reached=8, settings=StoreSettings())
    assert memory.revision == 8
    assert memory.state.listed("configmaps") == (StoreEntry(A, 6, text[3]),)
    assert memory.leftovers == [2, 4]
    assert [change.revision for change in memory.history.since("configmaps", 4, 9)] == [5, 6]
    with pytest.raises(Expired):
        memory.history.since("configmaps", 3, 9)


def test_restored_collection_without_history_can_only_go_on_from_now() -> None:
    """Its changes from before the start are unknown."""
    lease = key_of("node", collection="leases")
    rows = [
        StoreRow(2, 900, *lease, b"{}"),
        StoreRow(3, 900, *A, b"{}"),
        StoreRow(4, 900, *lease, b"{}"),
        StoreRow(5, 0, *A, None),
    ]
    memory = restored_from(rows, settings=StoreSettings(without_history=frozenset({"leases"})))
    assert memory.leftovers == [2]
    assert memory.history.since("leases", 5, 9) == ()
    with pytest.raises(Expired):
        memory.history.since("leases", 4, 9)


@pytest.mark.parametrize(
    ("written_at", "due_at"),
    [pytest.param(990, 60.0, id="past"), pytest.param(1000, 70.0, id="now"), pytest.param(9000, 70.0, id="future")],
)
def test_restored_object_lives_on_by_the_wall_clock(written_at: int, due_at: float) -> None:
    """A restart does not renew the lifetime; with a clock that was set back, the object gets one lifetime at most."""
    event = key_of("e", collection="events")
    memory = restored_from([StoreRow(2, written_at, *event, b"{}")], settings=StoreSettings(lifetimes={"events": 20.0}))
    assert memory.expiry.due(due_at - 0.5, 9) == []
    assert memory.expiry.due(due_at, 9) == [event]


def test_forgotten_changes_free_what_they_replaced_and_marks_of_removals() -> None:
    """In a collection without history, only removal marks remain to be freed."""
    lease = key_of("node", collection="leases")
    pasts = [
        PastChange(2, None, entry_of(A, 2), 0.0),
        PastChange(3, entry_of(A, 2), entry_of(A, 3), 0.0),
        PastChange(4, entry_of(A, 3), None, 0.0),
        PastChange(6, entry_of(lease, 5), entry_of(lease, 6), 0.0),
        PastChange(7, entry_of(lease, 6), None, 0.0),
    ]
    garbage = garbage_of(pasts, frozenset({"leases"}))
    assert [(each.revision, each.compacted) for each in garbage] == [(2, 3), (3, 4), (4, 4), (7, 7)]
