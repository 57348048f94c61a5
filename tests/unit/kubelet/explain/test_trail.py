"""The trail of a pod: decisions in order, counted and bounded."""

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.explain.trail import PodTrails
from pykubelet.testing.virtual_time import EPOCH, ManualClock

UID = PodUid("uid")


def test_same_decision_again_is_counted_not_repeated() -> None:
    """A failure that repeats for an hour is one entry with a count, a first and a last time."""
    clock = ManualClock()
    trails = PodTrails(clock=clock)
    for _ in range(3):
        trails.note(UID, "sync", "failed", why="no volume", tries=1)
        clock.advance(10)
    trails.note(UID, "sync", "failed", why="no network")
    first, second = trails.entries(UID)
    assert (first.times, first.at, first.facts) == (3, EPOCH, (("why", "no volume"), ("tries", "1")))
    assert first.last_at is not None
    assert (first.last_at - EPOCH).total_seconds() == 20
    assert (second.times, second.last_at) == (1, None)


def test_waiting_shows_the_cause_and_its_start() -> None:
    """There is one cause per stage; repeating it keeps its start time."""
    clock = ManualClock()
    trails = PodTrails(clock=clock)
    trails.waits(UID, "sync", "volumes")
    clock.advance(5)
    trails.waits(UID, "sync", "volumes")
    trails.waits(UID, "workers", "its turn")
    assert [(one.what, (one.since - EPOCH).total_seconds()) for one in trails.waiting(UID)] == [
        ("volumes", 0),
        ("its turn", 5),
    ]
    trails.waits(UID, "sync", "containers")
    trails.waits(UID, "workers", "")
    trails.waits(UID, "workers", "")
    assert [(one.stage, one.what) for one in trails.waiting(UID)] == [("sync", "containers")]


def test_unknown_pod_has_no_trail() -> None:
    """Reading it does not create a trail."""
    trails = PodTrails(clock=ManualClock())
    assert (trails.entries(UID), trails.waiting(UID), len(trails)) == ((), (), 0)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3)), max_size=60))
def test_trails_are_bounded_and_keep_the_newest(notes: list[tuple[str, int]]) -> None:
    """Entries per pod and pods are limited; the newest of both are kept."""
    trails = PodTrails(clock=ManualClock(), pods=3, entries_per_pod=4)
    for uid, what in notes:
        trails.note(PodUid(uid), "sync", str(what))
        assert trails.entries(PodUid(uid))[-1].what == str(what)
    assert len(trails) <= 3
    assert all(len(trails.entries(PodUid(uid))) <= 4 for uid in "abcdef")
    newest = list(dict.fromkeys(uid for uid, _ in reversed(notes)))[:3]
    assert all(trails.entries(PodUid(uid)) for uid in newest)


def test_round_that_repeats_is_counted_and_the_beginning_is_kept() -> None:
    """A container that crashes for days leaves few entries; those about the pod's arrival stay."""
    trails = PodTrails(clock=ManualClock(), entries_per_pod=10)
    trails.note(UID, "sources", "read", place="/a")
    trails.note(UID, "loop", "added")
    for number in range(20):
        trails.note(UID, "events", "Started")
        trails.note(UID, "workers", "sync failed", why="x" * 1000 + str(number))
        trails.note(UID, "events", "BackOff", delay=number)
    entries = trails.entries(UID)
    assert [entry.what for entry in entries[:2]] == ["read", "added"]
    assert (len(entries), trails.left_out(UID)) == (10, 14)
    assert next(entry.times for entry in entries if entry.what == "Started") == 20
    assert max(len(value) for entry in entries for _, value in entry.facts) == 500
    assert (entries[0].fact("place"), entries[0].fact("none")) == ("/a", "")


def test_waiting_with_a_limit_shows_its_end() -> None:
    """The wait ends by itself at that time."""
    trails = PodTrails(clock=ManualClock())
    trails.waits(UID, "stop", "containers", 30)
    (waiting,) = trails.waiting(UID)
    assert waiting.until is not None
    assert (waiting.until - EPOCH).total_seconds() == 30
