"""A pod's trail as a picture can show it: lanes with marks, and the phases it went through.

In: the explanation of a pod, and the states of its containers. Out: what to draw, in milliseconds since 1970.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from pykubelet.api.generated.core import ContainerStatus, PodStatus
from pykubelet.api.times import parse_time
from pykubelet.api.wire import Document

_TONES = {"Pending": "waiting", "Running": "waiting", "Ready": "good", "Failed": "bad"}
_STATUS, _SENT = "status", "sent"
_BAD = frozenset(
    {"not sent", "sync failed", "refused", "not accepted", "Failed", "FailedMount", "BackOff", "Unhealthy"}
)


class Mark(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One decision; repeated ones reach from the first to the last."""

    at: int
    what: str
    facts: str = ""
    until: int = 0
    times: int = 1
    is_bad: bool = False


class Span(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Something that lasted; without an end it goes on."""

    name: str
    start: int
    end: int = 0
    tone: str = ""


class Lane(Struct, frozen=True):
    """What one station decided."""

    station: str
    marks: tuple[Mark, ...]


class Timeline(Struct, frozen=True):
    """All that is drawn."""

    lanes: tuple[Lane, ...] = ()
    phases: tuple[Span, ...] = ()
    containers: tuple[Span, ...] = ()


def timeline(trail: Iterable[Document], status: PodStatus) -> Timeline:
    """The picture of a trail, as the documents of its entries say it."""
    entries = sorted(trail, key=lambda entry: str(entry["at"]))
    starts = _starts(entries)
    lanes: dict[str, list[Mark]] = {}
    for entry in entries:
        lanes.setdefault(str(entry["station"]), []).append(_mark(entry))
    return Timeline(
        tuple(Lane(station, tuple(marks)) for station, marks in lanes.items()),
        _phases(entries),
        tuple(span for one in _all(status) for span in _container_spans(one, starts)),
    )


def _mark(entry: Document) -> Mark:
    facts = _facts(entry)
    what = str(entry["what"])
    is_bad = what in _BAD or what.startswith(("Failed", "kept as it was")) or facts.get("verdict") == "failure"
    return Mark(
        _milliseconds(entry["at"]),
        what,
        "  ".join(value if name == "said" else f"{name}={value}" for name, value in facts.items() if value),
        _milliseconds(entry["lastAt"]) if entry.get("lastAt") else 0,
        int(entry.get("times", 1)),
        is_bad,
    )


def _phases(entries: Iterable[Document]) -> tuple[Span, ...]:
    """Each phase from the status that told it first to the one that told the next."""
    starts: list[tuple[str, int]] = []
    for entry in entries:
        if (entry["station"], entry["what"]) != (_STATUS, _SENT):
            continue
        facts = _facts(entry)
        phase = facts.get("phase", "")
        name = "Ready" if phase == "Running" and facts.get("ready") == "True" else phase
        if name and (not starts or starts[-1][0] != name):
            starts.append((name, _milliseconds(entry["at"])))
    # The last one goes on.
    ends = (*(start for _, start in starts[1:]), 0)
    return tuple(Span(name, start, end, _TONES.get(name, "")) for (name, start), end in zip(starts, ends, strict=False))


def _container_spans(one: ContainerStatus, starts: Mapping[tuple[str, int], int]) -> Iterable[Span]:
    """The run before the last one, and the last one, as far as they are known."""
    for state in (one.last_state, one.state):
        ended, running = state.terminated, state.running
        if ended is not None and ended.started_at and ended.finished_at:
            start, end = _start(one.name, ended.started_at, starts), _milliseconds(ended.finished_at)
            yield Span(one.name, start, max(start, end), "" if ended.exit_code == 0 else "bad")
        elif running is not None and running.started_at:
            yield Span(one.name, _start(one.name, running.started_at, starts), 0, "good")


def _starts(entries: Iterable[Document]) -> dict[tuple[str, int], int]:
    """When containers were started, by name and second: a status knows no less, an event does."""
    found: dict[tuple[str, int], int] = {}
    for entry in entries:
        if entry["what"] == "Started":
            for at in (entry["at"], entry.get("lastAt") or entry["at"]):
                exact = _milliseconds(at)
                found.setdefault((_facts(entry).get("container", ""), exact // 1000), exact)
    return found


def _start(name: str, at: str, starts: Mapping[tuple[str, int], int]) -> int:
    second = _milliseconds(at)
    return starts.get((name, second // 1000), second)


def _facts(entry: Document) -> Mapping[str, str]:
    return {str(name): str(value) for name, value in entry.get("facts", ())}


def _milliseconds(at: str | datetime) -> int:
    return int((parse_time(at) if isinstance(at, str) else at).timestamp() * 1000)


def _all(status: PodStatus) -> tuple[ContainerStatus, ...]:
    return (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
