"""Origin of static pods on their trails: manifest file, its problems, and files that claim the same name."""

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.config.file import PodProvenance, ProvenanceTrail, file_provenance
from pykubelet.kubelet.explain.trail import PodTrails
from pykubelet.testing.build import static_pod
from pykubelet.testing.virtual_time import ManualClock

UID = PodUid("hash-1")
POD = static_pod()


def test_provenance_has_the_file_its_problem_and_the_losers() -> None:
    """A problem of the folder applies to the pods of its files; a problem of another pod's file does not."""
    other = static_pod("other", content_hash="hash-2")
    named = {"/m/a": (POD,), "/m/b": (POD, other), "/n/c": ()}
    owners = {"web-node-1_default": "/m/a", "other_default": "/m/b"}
    told = dict(file_provenance([POD, other], owners, named, {"/m/b": "broken", "/n": "gone"}))
    assert told == {UID: PodProvenance("/m/a", "", ("/m/b",)), PodUid("hash-2"): PodProvenance("/m/b", "broken")}
    assert dict(file_provenance([POD], owners, named, {"/m": "gone"}))[UID].problem == "/m: gone"


def test_problems_are_recorded_once_and_cleared() -> None:
    """The pod waits on current problems only; a repeated problem is recorded once and its end is recorded, too."""
    trail = PodTrails(clock=ManualClock())
    stories = ProvenanceTrail(trail)
    for story in (
        PodProvenance("/a"),
        PodProvenance("/a", "broken", ("/b",)),
        PodProvenance("/a", "broken", ("/b",)),
        PodProvenance("/a"),
    ):
        stories.record([(UID, story)])
        stages = {one.stage for one in trail.waiting(UID)}
        assert stages == ({"sources", "claims"} if story.problem else set())
    assert [(entry.what, entry.times) for entry in trail.entries(UID)] == [
        ("read", 1),
        ("kept as it was, its source is broken", 1),
        ("another manifest that names it is ignored", 1),
        ("its source is in good order again", 1),
    ]


def test_nothing_is_recorded_without_a_trail() -> None:
    """A source can be used outside a node."""
    stories = ProvenanceTrail(None)
    stories.record([(UID, PodProvenance("/a"))])
    assert stories is not None


@given(st.lists(st.builds(PodProvenance, st.sampled_from("ab"), st.sampled_from(["", "p"])), max_size=8))
def test_waiting_always_shows_the_newest_problem(told: list[PodProvenance]) -> None:
    """After any sequence of records, the pod waits exactly if the last one has a problem."""
    trail = PodTrails(clock=ManualClock())
    stories = ProvenanceTrail(trail)
    for story in told:
        stories.record([(UID, story)])
        assert bool(trail.waiting(UID)) == bool(story.problem)
