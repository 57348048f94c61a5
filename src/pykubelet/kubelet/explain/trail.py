"""Every decision about a pod, in order, and what the pod waits for now: what `why` and the page show.

Stations write through the `Trail` Protocol of `agent.flow`. Bounded in both directions: so many entries per pod, of which
the first, how it came here, are kept, and so many pods, of which the ones nobody wrote about for longest are dropped.
Upstream has nothing like it.

Writes on the trails of pods what passes by: events about them, hooks of theirs, statuses sent.

Each stands where something goes on anyway, so that those who do it need not know of trails.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from msgspec import Struct

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import ContainerState, LifecycleHandler, ObjectReference, Pod, PodStatus
from pykubelet.api.pods import AnyContainer, PodUid
from pykubelet.client.recorder import AnnotatingRecorder
from pykubelet.kubelet.lifecycle.handlers import HandlerRunner
from pykubelet.kubelet.types import Trail, WaitStation

EVENTS = "events"
"""The station of what was told as an event."""
STATUS = "status"
SENT, NOT_SENT, DONE = "sent", "not sent", "done, the pod may go"
"""What may become of a status."""

ENTRIES_PER_POD = 50
"""A pod that starts writes about fifteen; what repeats is counted, so this reaches back far."""
PODS = 5000
"""More than a node runs at once, so that pods that ended are remembered for a while."""
# Of the entries of a pod, one in so many is kept for its beginning.
_BEGINNING = 5
# What a container that crashes again and again writes in one round.
_LOOK_BACK = 8
# A probe may say ten kilobytes, and say them differently each time.
_LONGEST_FACT = 500


def event_facts(involved: ObjectReference, message: str) -> dict[str, str]:
    """What an event says: its message, and the container it is about, if it is about one."""
    # spec.containers{name}
    container = involved.field_path.partition("{")[2].removesuffix("}") if involved.field_path else ""
    return {"container": container, "said": message} if container else {"said": message}


class TrailEntry(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One decision. The same one again soon makes no new entry: `times` and `last_at` tell."""

    at: datetime
    station: str
    what: str
    facts: tuple[tuple[str, str], ...] = ()
    times: int = 1
    last_at: datetime | None = None

    def fact(self, name: str) -> str:
        """One of the facts; empty if it is not among them."""
        return next((value for known, value in self.facts if known == name), "")


class TrailWait(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What a pod waits for, since when, and until when at most if that is known."""

    since: datetime
    station: str
    what: str
    until: datetime | None = None


@dataclass(slots=True)
class _PodTrail:
    entries: list[TrailEntry] = field(default_factory=list)
    waiting: dict[str, TrailWait] = field(default_factory=dict)
    left_out: int = 0


class PodTrails:
    """The trails of all pods; owned by one loop."""

    def __init__(self, *, clock: Clock, pods: int = PODS, entries_per_pod: int = ENTRIES_PER_POD) -> None:
        self._clock, self._pods, self._entries_per_pod = clock, pods, entries_per_pod
        self._trails: OrderedDict[PodUid, _PodTrail] = OrderedDict()
        self._heard: Callable[[PodUid], None] = _nobody

    def on_news(self, heard: Callable[[PodUid], None]) -> None:
        """Have somebody hear about whom something was said; a hint, which must be taken at once."""
        self._heard = heard

    def note(self, uid: PodUid, station: str, what: str, **facts: Any) -> None:
        """A station decided something; facts become text at once, so that nothing is kept alive by them."""
        trail, now = self._trail(uid), self._clock.now()
        entries = trail.entries
        told = tuple([(name, str(value)[:_LONGEST_FACT]) for name, value in facts.items()])
        self._heard(uid)
        for place in range(len(entries) - 1, max(len(entries) - _LOOK_BACK, 0) - 1, -1):
            known = entries[place]
            if known.what == what and known.facts == told and known.station == station:
                # The newest is always the last.
                del entries[place]
                entries.append(TrailEntry(known.at, station, what, known.facts, known.times + 1, now))
                return
        entries.append(TrailEntry(now, station, what, told))
        if len(entries) > self._entries_per_pod:
            del entries[self._entries_per_pod // _BEGINNING]
            trail.left_out += 1

    def waits(self, uid: PodUid, station: str, what: str, seconds: float | None = None) -> None:
        """What the pod waits for at a station; the same again keeps its beginning."""
        self._heard(uid)
        if not what:
            # Most of what is said here; and a pod that nobody wrote about waits for nothing.
            if trail := self._trails.get(uid):
                trail.waiting.pop(station, None)
            return
        waiting = self._trail(uid).waiting
        if station not in waiting or waiting[station].what != what:
            now = self._clock.now()
            until = now + timedelta(seconds=seconds) if seconds is not None else None
            waiting[station] = TrailWait(now, station, what, until)

    def entries(self, uid: PodUid) -> tuple[TrailEntry, ...]:
        """What was decided about a pod, in the order in which it was last said."""
        trail = self._trails.get(uid)
        return tuple(trail.entries) if trail is not None else ()

    def left_out(self, uid: PodUid) -> int:
        """How many entries of a pod were dropped, after the first few."""
        trail = self._trails.get(uid)
        return trail.left_out if trail is not None else 0

    def waiting(self, uid: PodUid) -> tuple[TrailWait, ...]:
        """What a pod waits for now, what it waits for longest first."""
        trail = self._trails.get(uid)
        return tuple(sorted(trail.waiting.values(), key=lambda one: one.since)) if trail is not None else ()

    def __len__(self) -> int:
        """How many pods have a trail."""
        return len(self._trails)

    def _trail(self, uid: PodUid) -> _PodTrail:
        trail = self._trails.get(uid)
        if trail is None:
            trail = self._trails[uid] = _PodTrail()
            if len(self._trails) > self._pods:
                self._trails.popitem(last=False)
        else:
            self._trails.move_to_end(uid)
        return trail


def _nobody(_: PodUid) -> None:
    """Nobody listens."""


class TrailEventRecorder:
    """Tells of events as another recorder does; those about pods are on their trails. An AnnotatingRecorder."""

    def __init__(self, recorder: AnnotatingRecorder, trail: Trail) -> None:
        self._recorder, self._trail = recorder, trail

    def event(
        self,
        involved: ObjectReference,
        event_type: str,
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        if involved.kind == "Pod" and involved.uid:
            self._trail.note(PodUid(involved.uid), EVENTS, reason, **event_facts(involved, message))
        self._recorder.event(involved, event_type, reason, message, annotations)


class TrailHookRunner(HandlerRunner):
    """Runs hooks; while one runs, its pod waits for it."""

    def __init__(self, trail: Trail, **parts: Any) -> None:
        super().__init__(**parts)
        self._trail = trail

    async def run(self, container_id: str, pod: Pod, container: AnyContainer, hook: LifecycleHandler) -> None:
        is_last = container.lifecycle is not None and hook is container.lifecycle.pre_stop
        uid, station = PodUid(pod.metadata.uid), f"{WaitStation.HOOKS}/{container.name}"
        self._trail.waits(uid, station, f"{'preStop' if is_last else 'postStart'} hook of container {container.name}")
        try:
            await super().run(container_id, pod, container, hook)
        finally:
            self._trail.waits(uid, station, "")


class DownstreamStatusObserver(Protocol):
    """Hears what becomes of statuses."""

    def status_sent(self, pod: Pod, waited_seconds: float, /) -> None:
        """The API took a status."""

    def status_not_sent(self, uid: PodUid, why: str, /) -> None:
        """The API did not take a status."""

    def pod_forgotten(self, uid: PodUid, /) -> None:
        """The status of this pod is no longer kept."""

    def status_refused(self, pod: Pod, why: str, /) -> None:
        """A status was not accepted."""


class TrailStatusObserver:
    """Notes what becomes of statuses, and has another StatusObserver hear it too."""

    def __init__(self, observer: DownstreamStatusObserver, trail: Trail, *, pod_uid: Callable[[str], PodUid]) -> None:
        """`pod_uid` tells the UID that the node knows, also for the UID of a mirror."""
        self._observer, self._trail, self._pod_uid = observer, trail, pod_uid

    def status_sent(self, pod: Pod, waited_seconds: float) -> None:
        self._trail.note(self._pod_uid(pod.metadata.uid), STATUS, SENT, **status_facts(pod.status))
        self._observer.status_sent(pod, waited_seconds)

    def status_not_sent(self, uid: PodUid, why: str) -> None:
        self._trail.note(uid, STATUS, NOT_SENT, why=why)
        self._observer.status_not_sent(uid, why)

    def pod_forgotten(self, uid: PodUid) -> None:
        self._trail.note(uid, STATUS, DONE)
        self._observer.pod_forgotten(uid)

    def status_refused(self, pod: Pod, why: str) -> None:
        self._trail.note(PodUid(pod.metadata.uid), STATUS, "not accepted", why=why)
        self._observer.status_refused(pod, why)


def status_facts(status: PodStatus) -> dict[str, str]:
    """A status in a few words: phase, readiness, and what each container does."""
    ready = next((one.status for one in status.conditions if one.type == "Ready"), "")
    containers = (*status.init_container_statuses, *status.container_statuses)
    states = ", ".join(f"{one.name} {_word(one.state)}" for one in containers)
    return {"phase": status.phase, "ready": ready, "containers": states}


def _word(state: ContainerState) -> str:
    if state.running is not None:
        return "runs"
    if state.terminated is not None:
        return f"ended with {state.terminated.exit_code}"
    return f"waits: {state.waiting.reason}" if state.waiting is not None else "waits"
