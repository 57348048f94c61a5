"""The pages of one pod: explanation, containers, timeline, probes, usage and logs.

The timeline shows the trail of decisions as lanes with marks, and the phases and container runs as spans.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from msgspec import Struct

from pykubelet.api.generated.core import ContainerStatus, Pod, PodStatus
from pykubelet.api.pods import AnyContainer, is_restartable_init_container
from pykubelet.api.serializer import Document, encode
from pykubelet.api.times import parse_time
from pykubelet.client.node_view import NOT_HERE, NodePod, pod_key
from pykubelet.httpserver.response import JSON, TEXT, HttpError, HttpResponse, HttpStream
from pykubelet.web.node_view import Explain, OpenLog, PageNode, PodUsageHistory
from pykubelet.web.routes import PageOutcome, PageRoute, text
from pykubelet.web.rows import RowTone, container_statuses, pod_row
from pykubelet.web.tables import ApiTables

_TONES = {"Pending": "waiting", "Running": "waiting", "Ready": "good", "Failed": "bad"}
_STATUS, _SENT = "status", "sent"
_BAD = frozenset(
    {"not sent", "sync failed", "refused", "not accepted", "Failed", "FailedMount", "BackOff", "Unhealthy"}
)


class ContainerRow(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    name: str
    kind: str
    image: str
    word: str
    tone: RowTone
    message: str = ""
    since: str = ""
    restarts: int = 0
    is_ready: bool = False
    has_log: bool = False
    has_previous: bool = False
    last_end: str = ""


def container_rows(pod: Pod, status: PodStatus) -> tuple[ContainerRow, ...]:
    """The containers of a pod, in the order in which they start."""
    known = {one.name: one for one in container_statuses(status)}
    return tuple(_row(kind, one, known.get(one.name)) for kind, one in _declared(pod))


def _declared(pod: Pod) -> Iterator[tuple[str, AnyContainer]]:
    for one in pod.spec.init_containers:
        yield "sidecar" if is_restartable_init_container(one) else "init", one
    for one in pod.spec.containers:
        yield "", one
    for debug in pod.spec.ephemeral_containers:
        yield "debug", debug


def _row(kind: str, declared: AnyContainer, status: ContainerStatus | None) -> ContainerRow:
    name, image = declared.name, declared.image
    if status is None:
        return ContainerRow(name=name, kind=kind, image=image, word="not yet started", tone=RowTone.WAITING)
    word, tone, message, since = _state(status)
    before = status.last_state.terminated
    return ContainerRow(
        name=name,
        kind=kind,
        image=image,
        word=word,
        tone=tone,
        message=message,
        since=since,
        restarts=status.restart_count,
        is_ready=status.ready,
        has_log=bool(status.container_id),
        has_previous=before is not None and bool(before.container_id),
        last_end=_ended(before.exit_code, before.reason) if before is not None else "",
    )


def _state(status: ContainerStatus) -> tuple[str, RowTone, str, str]:
    """The state of a container: word, tone, message and since when."""
    running, ended, waiting = status.state.running, status.state.terminated, status.state.waiting
    if running is not None:
        is_well = status.ready or status.started
        return "running", RowTone.GOOD if is_well else RowTone.WAITING, "", running.started_at or ""
    if ended is not None:
        tone = RowTone.DONE if ended.exit_code == 0 else RowTone.BAD
        return _ended(ended.exit_code, ended.reason), tone, ended.message, ended.finished_at or ""
    if waiting is not None:
        is_starting = waiting.reason in {"", "ContainerCreating", "PodInitializing"}
        return waiting.reason or "waiting", RowTone.WAITING if is_starting else RowTone.BAD, waiting.message, ""
    return "waiting", RowTone.WAITING, "", ""


def _ended(code: int, reason: str) -> str:
    return f"ended with {code}" + (f" ({reason})" if reason and reason not in {"Completed", "Error"} else "")


class TimelineMark(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One decision; repeated ones span from the first to the last."""

    at: int
    what: str
    facts: str = ""
    until: int = 0
    times: int = 1
    is_bad: bool = False


class TimelineSpan(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A period; without an end it continues."""

    name: str
    start: int
    end: int = 0
    tone: str = ""


class TimelineLane(Struct, frozen=True):
    """The decisions of one component."""

    station: str
    marks: tuple[TimelineMark, ...]


class Timeline(Struct, frozen=True):
    """The lanes and spans to draw, in milliseconds since 1970."""

    lanes: tuple[TimelineLane, ...] = ()
    phases: tuple[TimelineSpan, ...] = ()
    containers: tuple[TimelineSpan, ...] = ()


def timeline(trail: Iterable[Document], status: PodStatus) -> Timeline:
    """The timeline of a trail, given as the documents of its entries."""
    entries = sorted(trail, key=lambda entry: str(entry["at"]))
    starts = _starts(entries)
    lanes: dict[str, list[TimelineMark]] = {}
    for entry in entries:
        lanes.setdefault(str(entry["station"]), []).append(_mark(entry))
    return Timeline(
        tuple(TimelineLane(station, tuple(marks)) for station, marks in lanes.items()),
        _phases(entries),
        tuple(span for one in container_statuses(status) for span in _container_spans(one, starts)),
    )


def _mark(entry: Document) -> TimelineMark:
    facts = _facts(entry)
    what = str(entry["what"])
    is_bad = what in _BAD or what.startswith(("Failed", "kept as it was")) or facts.get("verdict") == "failure"
    return TimelineMark(
        _milliseconds(entry["at"]),
        what,
        "  ".join(value if name == "said" else f"{name}={value}" for name, value in facts.items() if value),
        _milliseconds(entry["lastAt"]) if entry.get("lastAt") else 0,
        int(entry.get("times", 1)),
        is_bad,
    )


def _phases(entries: Iterable[Document]) -> tuple[TimelineSpan, ...]:
    """Each phase, from the status that first reported it until the next phase."""
    starts: list[tuple[str, int]] = []
    for entry in entries:
        if (entry["station"], entry["what"]) != (_STATUS, _SENT):
            continue
        facts = _facts(entry)
        phase = facts.get("phase", "")
        name = "Ready" if phase == "Running" and facts.get("ready") == "True" else phase
        if name and (not starts or starts[-1][0] != name):
            starts.append((name, _milliseconds(entry["at"])))
    # The last phase continues.
    ends = (*(start for _, start in starts[1:]), 0)
    return tuple(
        TimelineSpan(name, start, end, _TONES.get(name, "")) for (name, start), end in zip(starts, ends, strict=False)
    )


def _container_spans(one: ContainerStatus, starts: Mapping[tuple[str, int], int]) -> Iterable[TimelineSpan]:
    """The last two runs of a container, as far as they are known."""
    for state in (one.last_state, one.state):
        ended, running = state.terminated, state.running
        if ended is not None and ended.started_at and ended.finished_at:
            start, end = _start(one.name, ended.started_at, starts), _milliseconds(ended.finished_at)
            yield TimelineSpan(one.name, start, max(start, end), "" if ended.exit_code == 0 else "bad")
        elif running is not None and running.started_at:
            yield TimelineSpan(one.name, _start(one.name, running.started_at, starts), 0, "good")


def _starts(entries: Iterable[Document]) -> dict[tuple[str, int], int]:
    """The start times of containers, by name and second: events are more precise than statuses."""
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


class PodPages:
    def __init__(
        self, *, node: PageNode, tables: ApiTables, explain: Explain, usage: PodUsageHistory, open_log: OpenLog
    ) -> None:
        self._node, self._tables, self._explain = node, tables, explain
        self._usage, self._open_log = usage, open_log

    async def pod(self, asked: PageRoute) -> HttpResponse:
        """All data about one pod."""
        namespace, name = asked.names
        key = pod_key(namespace, name)
        found, why = self._found(key), await self._explain(namespace, name)
        if found is None and why is None:
            return text(404, f"there is no pod {key}")
        answer: Document = {"why": why}
        if found is not None:
            answer |= {
                "row": pod_row(*found),
                "labels": found.pod.metadata.labels,
                "containers": container_rows(found.pod, found.status),
                "conditions": found.status.conditions,
                "timeline": timeline((why or {}).get("trail", ()), found.status),
                "probes": tuple(self._node.probe_results(key)),
                "usage": self._usage.points(key),
            }
        return HttpResponse(200, encode(answer), JSON)

    async def log(self, asked: PageRoute) -> PageOutcome:
        """The log of a container, followed until the browser disconnects."""
        namespace, pod, container = asked.names
        try:
            log = await self._open_log(namespace, pod, container, previous=asked.value("previous") == "true")
        except HttpError as error:
            return text(404, str(error))
        return HttpStream(TEXT, log.copy)

    def _found(self, key: str) -> NodePod | None:
        if (found := self._node.pod(key)) is not None:
            return found
        pod = self._tables.pod(key)
        return NodePod(pod, pod.status, NOT_HERE) if pod is not None else None
