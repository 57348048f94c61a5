"""Data for drawing a pod or a file: timelines, usage, broken manifests, YAML without secrets."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api import serializer
from pykubelet.api.generated.core import PodStatus
from pykubelet.client.manifests.scanner import DocumentProblem, parse_problems, problem_text
from pykubelet.client.node_view import UsageReading
from pykubelet.web.feed import Line, broken_manifest
from pykubelet.web.node_view import POINTS, UsageHistory
from pykubelet.web.object_pages import shown_yaml
from pykubelet.web.pod_pages import TimelineSpan, timeline

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: int) -> str:
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def ms(seconds: int) -> int:
    return int((START + timedelta(seconds=seconds)).timestamp() * 1000)


def entry(seconds: int, station: str, what: str, **facts: str) -> dict[str, Any]:
    return {"at": at(seconds), "station": station, "what": what, "facts": [list(pair) for pair in facts.items()]}


def test_trail_becomes_lanes_with_marks_in_order() -> None:
    """One lane for each station; a repeated entry spans its first to last time; failures are marked."""
    trail = [
        entry(2, "workers", "sync failed", why="no image") | {"times": 3, "lastAt": at(9)},
        entry(0, "sources", "read", place="web.yaml"),
        entry(1, "workers", "sync", why="create requested"),
        entry(3, "probes", "liveness probe", verdict="failure", said="refused"),
    ]
    drawn = timeline(trail, PodStatus())
    assert [lane.station for lane in drawn.lanes] == ["sources", "workers", "probes"]
    failed = drawn.lanes[1].marks[1]
    assert (failed.at, failed.until, failed.times, failed.is_bad) == (ms(2), ms(9), 3, True)
    assert drawn.lanes[0].marks[0].facts == "place=web.yaml"
    assert drawn.lanes[2].marks[0].facts == "verdict=failure  refused"
    assert [mark.is_bad for lane in drawn.lanes for mark in lane.marks] == [False, False, True, True]
    assert drawn.phases == ()


def test_phases_last_from_one_status_to_the_next() -> None:
    """Ready is a phase of its own, and the last phase is open-ended."""
    sent = [("Pending", "False"), ("Running", "False"), ("Running", "True"), ("Running", "True"), ("Failed", "False")]
    trail = [entry(number, "status", "sent", phase=phase, ready=ready) for number, (phase, ready) in enumerate(sent)]
    trail.append(entry(9, "status", "done, the pod may go"))
    assert timeline(trail, PodStatus()).phases == (
        TimelineSpan("Pending", ms(0), ms(1), "waiting"),
        TimelineSpan("Running", ms(1), ms(2), "waiting"),
        TimelineSpan("Ready", ms(2), ms(4), "good"),
        TimelineSpan("Failed", ms(4), 0, "bad"),
    )


def test_containers_last_from_start_to_end() -> None:
    """The previous and the current run, if their times are known."""
    before = {"terminated": {"exitCode": 1, "startedAt": at(0), "finishedAt": at(1)}}
    done = {"terminated": {"exitCode": 0, "startedAt": at(2), "finishedAt": at(3)}}
    runs = {"running": {"startedAt": at(4)}}
    states = [
        {"name": "a", "lastState": before, "state": runs},
        {"name": "b", "state": done},
        {"name": "c", "state": {"terminated": {"exitCode": 1}}},
    ]
    seen = serializer.from_document({"containerStatuses": states}, PodStatus)
    assert timeline([], seen).containers == (
        TimelineSpan("a", ms(0), ms(1), "bad"),
        TimelineSpan("a", ms(4), 0, "good"),
        TimelineSpan("b", ms(2), ms(3), ""),
    )


def test_start_time_of_a_container_comes_from_its_event() -> None:
    """The status has only whole seconds, which may be before the pod existed."""
    exact = {"at": "2026-01-01T00:00:01.5Z", "station": "events", "what": "Started", "facts": [["container", "a"]]}
    again = exact | {"lastAt": "2026-01-01T00:00:07.25Z", "times": 2}
    done = {"terminated": {"exitCode": 0, "startedAt": at(1), "finishedAt": at(1)}}
    states = [{"name": "a", "lastState": done, "state": {"running": {"startedAt": at(7)}}}]
    seen = serializer.from_document({"containerStatuses": states}, PodStatus)
    first, second = timeline([again], seen).containers
    assert (first.start, first.end) == (ms(1) + 500, ms(1) + 500)
    assert second.start == ms(7) + 250


def test_usage_history_has_cpu_rate_and_memory() -> None:
    """Two readings give a rate; a restarted container gives no point; the history is bounded."""
    history = UsageHistory()
    for number in range(POINTS + 10):
        history.note("a", UsageReading(START + timedelta(seconds=number), number * 500_000_000, 1000 + number))
    points = history.points("a")
    assert len(points) == POINTS
    assert (points[-1].milli_cores, points[-1].bytes) == (500.0, 1000 + POINTS + 9)
    history.note("a", UsageReading(START + timedelta(hours=1), 0, 5))
    history.note("a", UsageReading(START + timedelta(hours=1), 10, 5))
    assert history.points("a") == points
    history.note("a", UsageReading(START + timedelta(hours=2), None, 5))
    assert (history.points("a")[-1].milli_cores, history.points("a")[-1].bytes) == (None, 5)
    history.keep(["b"])
    assert history.points("a") == ()


BROKEN = "a: 1\nb: 2\nc: 3\nd: 4\ne: 5\nf: 6\n"


def test_mistake_is_shown_with_its_line_field_and_reason() -> None:
    """With two lines of context before and after."""
    told = 'line 4, column 1: spec.containers[0].d: unknown field; line 1: not a "Pod"'
    broken = broken_manifest("/m/web.yaml", told, BROKEN)
    first, second = broken.mistakes
    assert (first.line, first.column, first.field, first.reason) == (4, 1, "spec.containers[0].d", "unknown field")
    assert first.lines == (Line(2, "b: 2"), Line(3, "c: 3"), Line(4, "d: 4", True), Line(5, "e: 5"), Line(6, "f: 6"))
    assert (second.line, second.column, second.field, second.reason) == (1, 0, "", 'not a "Pod"')


@pytest.mark.parametrize("text", ["kind: Secret\ndata: {}\n", '{"kind": "Secret"}\n', "a: 1\n---\nkind:  'Secret'\n"])
def test_lines_of_a_file_with_a_secret_are_not_shown(text: str) -> None:
    """Only the place and the reason are shown."""
    broken = broken_manifest("/m/web.yaml", "line 1, column 1: what", text)
    assert broken.hides_lines
    assert broken.mistakes[0].lines == ()
    assert broken.mistakes[0].reason == "what"


def test_problem_without_a_line_shows_only_its_reason() -> None:
    """For example a vanished folder, or a line that no longer exists."""
    assert broken_manifest("http://x", "no answer; the pods are kept", None).mistakes[0].reason.startswith("no answer")
    assert broken_manifest("/m/web.yaml", "line 99, column 1: what", BROKEN).mistakes[0].lines == ()


TEXTS = st.text(st.characters(exclude_characters=";\n"), min_size=1).filter(lambda text: "line " not in text)
PROBLEMS = st.builds(DocumentProblem, TEXTS, st.integers(1, 999), st.integers(0, 99))


@given(st.lists(PROBLEMS, min_size=1))
def test_problem_text_is_parsed_back_to_the_problems(problems: list[DocumentProblem]) -> None:
    assert list(parse_problems(problem_text(problems))) == problems


def test_yaml_shows_no_secret() -> None:
    """Values and the last-applied annotation are hidden; only the length of each value is shown."""
    secret = {
        "type": "Opaque",
        "kind": "Secret",
        "data": {"password": "aHVudGVyMg=="},
        "stringData": {"more": "hunter2"},
        "metadata": {
            "name": "login",
            "managedFields": [{"manager": "x"}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "kept": "yes, this"},
        },
        "apiVersion": "v1",
    }
    text = shown_yaml(secret)
    assert "hunter2" not in text
    assert "aHVudGVyMg" not in text
    assert "managedFields" not in text
    assert "password: (hidden, 12 characters)" in text
    assert "kept: yes, this" in text
    assert text.startswith("apiVersion: v1\nkind: Secret\nmetadata:\n")
    assert "value: 1" in shown_yaml({"kind": "ConfigMap", "data": {"value": 1}})
