"""Output of `pykubelet why`."""

from datetime import timedelta

from click import unstyle

from pykubelet.cli.why import lines
from pykubelet.kubelet.explain.explanation import Blocked, BlockingStep, Explanation
from pykubelet.kubelet.explain.trail import TrailEntry
from pykubelet.testing.virtual_time import EPOCH

BLOCKED = Blocked(BlockingStep.IMAGE, "the image", "pull it", EPOCH, EPOCH + timedelta(minutes=1))


def shown(told: Explanation) -> list[str]:
    """Returns the lines without their colours."""
    return [unstyle(line) for line in lines(told)]


def test_headline_comes_first_and_then_the_trail() -> None:
    """What the pod waits for, what would unblock it and since when; then each entry, repeats counted."""
    again = TrailEntry(EPOCH, "events", "BackOff", (("container", "main"), ("said", "later")), 3, EPOCH)
    told = shown(Explanation("default", "web", BLOCKED, phase="Pending", node="n", told_by="n", trail=(again,)))
    assert told[:3] == ["pod default/web: Pending on n", "  waits for  the image", "  unblock    pull it"]
    assert told[3].startswith("  time       since 20")
    assert "events     BackOff  container=main  later  (3 times since " in told[-1]


def test_missing_node_and_omitted_entries_are_mentioned() -> None:
    """The reader can see what is missing."""
    trail = tuple(TrailEntry(EPOCH, "workers", f"entry {number}") for number in range(10))
    told = shown(Explanation("default", "web", Blocked(BlockingStep.NOTHING, "nothing"), trail=trail, left_out=7))
    assert told[0] == "pod default/web: unknown"
    assert any("its node was not asked" in line for line in told)
    assert told.index("  ... 7 more") == told.index(next(line for line in told if "entry 2" in line)) - 1


def test_output_of_a_container_cannot_control_the_terminal() -> None:
    """The output of a probe is untrusted text."""
    evil = "\x1b[2J\nroot# "
    entry = TrailEntry(EPOCH, "events", "Unhealthy", (("said", evil),))
    told = shown(Explanation("default", "web", Blocked(BlockingStep.IMAGE, evil, evil), trail=(entry,)))
    assert not any("\x1b" in line or "\n" in line for line in told)
    assert not any("\x1b[2J" in line for line in lines(Explanation("d", "w", Blocked(BlockingStep.IMAGE, evil, evil))))
