"""The event correlator counts, combines and rate-limits events."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import Event, EventSource, ObjectReference
from pykubelet.api.names import dns1123_subdomain_errors
from pykubelet.client.event_correlator import Correlation, EventCorrelator, event_name, new_event

SECOND = 10**9
START = 1_767_225_600 * SECOND  # 2026-01-01T00:00:00Z
SOURCE = EventSource(component="kubelet", host="node-1")
POD = ObjectReference(api_version="v1", kind="Pod", name="web", namespace="default", uid="u1")


def event(message: str = "m", *, at: int = START, involved: ObjectReference = POD, reason: str = "Reason") -> Event:
    return new_event(involved, "Normal", reason, message, source=SOURCE, now_nanoseconds=at)


def correlate(correlator: EventCorrelator, message: str, *, at: int = START, reason: str = "Reason") -> Correlation:
    correlation = correlator.correlate(event(message, at=at, reason=reason), at)
    assert correlation is not None
    return correlation


def test_new_event_has_all_fields() -> None:
    """Name, namespace, times, count, and both forms of the source."""
    got = event()
    assert got.metadata.name == f"web.{START:x}"
    assert (got.metadata.namespace, got.count, got.type, got.reason, got.message) == (
        "default",
        1,
        "Normal",
        "Reason",
        "m",
    )
    assert got.first_timestamp == got.last_timestamp == "2026-01-01T00:00:00Z"
    assert (got.source, got.reporting_component, got.reporting_instance) == (SOURCE, "kubelet", "node-1")
    assert got.involved_object == POD


def test_new_event_goes_to_default_when_the_object_has_no_namespace() -> None:
    """For example an event about a node."""
    node = ObjectReference(api_version="v1", kind="Node", name="node-1", uid="node-1")
    assert event(involved=node).metadata.namespace == "default"


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300), st.integers(0, 2**62))
def test_event_name_is_always_valid(name: str, nanoseconds: int) -> None:
    """Whatever the name of the object; event names of different times differ."""
    assert dns1123_subdomain_errors(event_name(name, nanoseconds)) == []
    assert event_name(name, nanoseconds) != event_name(name, nanoseconds + 1)


def test_same_event_is_counted_when_it_comes_again() -> None:
    """The first is created; repeats patch its count, time and message."""
    correlator = EventCorrelator()
    first = correlate(correlator, "m")
    assert first.patch is None
    again = correlate(correlator, "m", at=START + 5 * SECOND)
    assert again.patch == {"count": 2, "lastTimestamp": "2026-01-01T00:00:05Z", "message": "m"}
    assert again.event.metadata.name == first.event.metadata.name
    assert (again.event.count, again.event.first_timestamp) == (2, "2026-01-01T00:00:00Z")
    assert correlate(correlator, "m", at=START + 9 * SECOND).event.count == 3


def test_patch_leaves_out_an_empty_message() -> None:
    correlator = EventCorrelator()
    correlate(correlator, "")
    assert correlate(correlator, "").patch == {"count": 2, "lastTimestamp": "2026-01-01T00:00:00Z"}


def test_update_state_adopts_the_event_returned_by_the_server() -> None:
    """The next patch is for the name that the server returned."""
    correlator = EventCorrelator()
    correlator.correlate(event(), START)
    other = event(at=START + 7)
    correlator.update_state(other)
    again = correlate(correlator, "m")
    assert again.event.metadata.name == other.metadata.name


def test_similar_events_are_combined_after_the_ninth_message() -> None:
    """The tenth message within ten minutes becomes a combined event, on which later ones are counted."""
    correlator = EventCorrelator()
    plain = [correlate(correlator, f"m{number}", at=START + number) for number in range(9)]
    assert [one.event.message for one in plain] == [f"m{number}" for number in range(9)]
    assert {one.patch is None for one in plain} == {True}
    tenth = correlate(correlator, "m9", at=START + 9)
    assert tenth.patch is None
    assert tenth.event.message == "(combined from similar events): m9"
    assert tenth.event.metadata.name == f"web.{START + 9:x}"
    assert (tenth.event.source, tenth.event.reporting_component) == (SOURCE, "")
    eleventh = correlate(correlator, "m10", at=START + SECOND)
    assert eleventh.patch == {
        "count": 2,
        "lastTimestamp": "2026-01-01T00:00:01Z",
        "message": "(combined from similar events): m10",
    }
    assert eleventh.event.metadata.name == tenth.event.metadata.name


@pytest.mark.parametrize(("seconds", "combined"), [(600, True), (601, False)])
def test_similar_events_are_forgotten_when_none_came_for_ten_minutes(seconds: int, combined: bool) -> None:
    """The window starts with the last similar event."""
    correlator = EventCorrelator()
    for number in range(9):
        correlate(correlator, f"m{number}")
    late = correlate(correlator, "late", at=START + seconds * SECOND)
    assert late.event.message.startswith("(combined") == combined


def test_events_with_another_reason_are_not_combined() -> None:
    """Similar events differ only in the message."""
    correlator = EventCorrelator()
    messages = [correlate(correlator, f"m{number}", reason=f"R{number}").event.message for number in range(12)]
    assert messages == [f"m{number}" for number in range(12)]


def test_events_about_one_object_are_rate_limited() -> None:
    """A burst of 25, then one in five minutes; other objects are not affected."""
    correlator = EventCorrelator()
    sent = [correlator.correlate(event(), START) is not None for _ in range(30)]
    assert sent == [True] * 25 + [False] * 5
    other = ObjectReference(api_version="v1", kind="Pod", name="db", namespace="default", uid="u2")
    assert correlator.correlate(event(involved=other), START) is not None
    assert correlator.correlate(event(), START + 299 * SECOND) is None
    later = START + 300 * SECOND
    assert [correlator.correlate(event(at=later), later) is not None for _ in range(2)] == [True, False]


def test_count_includes_rate_limited_events() -> None:
    """The next patch has the true count."""
    correlator = EventCorrelator()
    for _ in range(30):
        correlator.correlate(event(), START)
    assert correlate(correlator, "m", at=START + 300 * SECOND).event.count == 31


def test_oldest_records_are_forgotten_when_there_are_too_many() -> None:
    """4,096 events are remembered; an evicted one is created again."""
    correlator = EventCorrelator()
    for number in range(4097):
        involved = ObjectReference(kind="Pod", name=f"p{number}", namespace="default")
        correlator.correlate(event(involved=involved), START)
    newest = correlator.correlate(event(involved=ObjectReference(kind="Pod", name="p4096", namespace="default")), START)
    oldest = correlator.correlate(event(involved=ObjectReference(kind="Pod", name="p0", namespace="default")), START)
    assert newest is not None
    assert newest.patch is not None
    assert oldest is not None
    assert oldest.patch is None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 400)), max_size=60))
def test_writes_are_bounded_and_consistent(steps: list[tuple[int, int]]) -> None:
    """Writes never exceed the rate limit; an event is created with count 1 and patched after that."""
    correlator = EventCorrelator()
    at, written, known = START, 0, set()
    for number, wait in steps:
        at += wait * SECOND
        one = event(f"m{number}", at=at)
        correlation = correlator.correlate(one, at)
        if correlation is None:
            continue
        written += 1
        assert (correlation.patch is None) == (correlation.event.count == 1)
        assert correlation.event.message.removeprefix("(combined from similar events): ") == f"m{number}"
        known.add(correlation.event.metadata.name)
    assert written <= 25 + (at - START) // SECOND / 299
    assert len(known) <= written
