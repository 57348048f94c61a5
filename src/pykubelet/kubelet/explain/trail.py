"""Trails: the decisions about each pod and what it waits for, shown by `why` and the page.

The kubelet's parts write through the `Trail` Protocol. Trails are bounded: per pod the first few entries are kept and
later ones dropped from the middle, and the least recently written pods are dropped. Three wrappers record events, hooks
and statuses where these pass anyway, so that their producers need not know of trails. Every entry is also a line of the
verbose log with the name of its pod. Upstream has nothing like it.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec import Struct

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import ContainerState, LifecycleHandler, ObjectReference, Pod, PodStatus
from pykubelet.api.pods import AnyContainer, PodUid, pod_label
from pykubelet.api.times import seconds_after
from pykubelet.client.recorder import AnnotatingRecorder
from pykubelet.kubelet.lifecycle.handlers import HandlerRunner
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.status.cache import StatusObserver
from pykubelet.kubelet.types import Trail, WaitStage

log = get_logger(__name__)

EVENTS = "events"
"""The component of recorded events."""
STATUS = "status"
SENT, NOT_SENT, DONE = "sent", "not sent", "done, the pod may go"
"""What can become of a status."""

ENTRIES_PER_POD = 50
"""A starting pod writes about fifteen entries, and repeated ones are only counted."""
PODS = 5000
"""More pods than a node runs at once, so that ended pods are remembered for a while."""
# The first fifth of a pod's entries is kept.
_BEGINNING = 5
# The number of entries that one round of a crash loop writes.
_LOOK_BACK = 8
# The output of a probe may have ten kilobytes and differ each time.
_LONGEST_FACT = 500


def event_facts(involved: ObjectReference, message: str) -> dict[str, str]:
    """The facts of an event: its message, and the container it is about, if any."""
    # spec.containers{name}
    container = involved.field_path.partition("{")[2].removesuffix("}") if involved.field_path else ""
    return {"container": container, "said": message} if container else {"said": message}


class TrailEntry(
    Struct, frozen=True, gc=False, rename={"component": "station", "last_at": "lastAt"}, omit_defaults=True
):
    """One decision; repetitions are counted in `times`, the last one is at `last_at`."""

    at: datetime
    component: str
    """The part of the kubelet that decided; the API calls it `station`."""
    what: str
    facts: tuple[tuple[str, str], ...] = ()
    times: int = 1
    last_at: datetime | None = None

    def fact(self, name: str) -> str:
        """The value of a fact; empty if there is none."""
        return next((value for known, value in self.facts if known == name), "")


class TrailWait(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What a pod waits for, since when, and until when at most if known."""

    since: datetime
    stage: str
    what: str
    until: datetime | None = None


@dataclass(slots=True)
class _PodTrail:
    entries: list[TrailEntry] = field(default_factory=list)
    waiting: dict[str, TrailWait] = field(default_factory=dict)
    left_out: int = 0
    name: str = ""
    """The pod as `namespace/name`; empty until it is known."""


_EMPTY = _PodTrail()


class PodTrails:
    """The trails of all pods; implements `Trail`."""

    def __init__(self, *, clock: Clock, pods: int = PODS, entries_per_pod: int = ENTRIES_PER_POD) -> None:
        self._clock, self._pods, self._entries_per_pod = clock, pods, entries_per_pod
        self._trails: OrderedDict[PodUid, _PodTrail] = OrderedDict()
        self._listener: Callable[[PodUid], None] = lambda _: None
        self._known: PodManager | None = None

    def on_news(self, listener: Callable[[PodUid], None]) -> None:
        """Call this with the pod of every new entry; it must not wait."""
        self._listener = listener

    def use_names(self, pods: PodManager) -> None:
        """Log entries with the names of these pods; without it none are logged."""
        self._known = pods

    def note(self, uid: PodUid, component: str, what: str, **facts: Any) -> None:
        """Record a decision; facts become text at once, so that a trail keeps no objects alive."""
        trail, now = self._trail(uid), self._clock.now()
        entries = trail.entries
        texts = tuple([(name, str(value)[:_LONGEST_FACT]) for name, value in facts.items()])
        self._listener(uid)
        for place in range(len(entries) - 1, max(len(entries) - _LOOK_BACK, 0) - 1, -1):
            known = entries[place]
            if known.what == what and known.facts == texts and known.component == component:
                # The newest entry is always the last.
                del entries[place]
                entries.append(TrailEntry(known.at, component, what, known.facts, known.times + 1, now))
                self._log(uid, trail)
                return
        entries.append(TrailEntry(now, component, what, texts))
        self._log(uid, trail)
        if len(entries) > self._entries_per_pod:
            del entries[self._entries_per_pod // _BEGINNING]
            trail.left_out += 1

    def waits(self, uid: PodUid, stage: str, what: str, seconds: float | None = None) -> None:
        """Set what the pod waits for at a stage; repeating it keeps its start time."""
        self._listener(uid)
        if not what:
            # The most frequent call; a pod without a trail waits for nothing.
            if trail := self._trails.get(uid):
                trail.waiting.pop(stage, None)
            return
        waiting = self._trail(uid).waiting
        if stage not in waiting or waiting[stage].what != what:
            now = self._clock.now()
            until = seconds_after(now, seconds) if seconds is not None else None
            waiting[stage] = TrailWait(now, stage, what, until)

    def entries(self, uid: PodUid) -> tuple[TrailEntry, ...]:
        """The entries of a pod, in the order in which they were last repeated."""
        return tuple(self._trails.get(uid, _EMPTY).entries)

    def left_out(self, uid: PodUid) -> int:
        """How many entries of a pod were dropped, after the first few."""
        return self._trails.get(uid, _EMPTY).left_out

    def waiting(self, uid: PodUid) -> tuple[TrailWait, ...]:
        """What a pod waits for now, the longest wait first."""
        return tuple(sorted(self._trails.get(uid, _EMPTY).waiting.values(), key=lambda one: one.since))

    def __len__(self) -> int:
        """The number of pods with a trail."""
        return len(self._trails)

    def _log(self, uid: PodUid, trail: _PodTrail) -> None:
        """Log the newest entry; those from before the pod's name was known are logged together with the first after."""
        if not log.is_verbose:
            return
        new = trail.entries[-1:]
        if not trail.name:
            pod = self._known.pod_by_uid(uid) if self._known is not None else None
            if pod is None:
                return
            trail.name, new = pod_label(pod), trail.entries
        for entry in new:
            facts = {"pod": trail.name, "by": entry.component, "what": entry.what}
            log.debug("pod history", **facts, **{name: value for name, value in entry.facts if name not in facts})

    def _trail(self, uid: PodUid) -> _PodTrail:
        trail = self._trails.get(uid)
        if trail is None:
            trail = self._trails[uid] = _PodTrail()
            if len(self._trails) > self._pods:
                self._trails.popitem(last=False)
        else:
            self._trails.move_to_end(uid)
        return trail


class TrailEventRecorder:
    """Wraps a recorder; events about pods also go to their trails."""

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
    """Runs lifecycle hooks and records the pod's wait for each."""

    def __init__(self, trail: Trail, **parts: Any) -> None:
        super().__init__(**parts)
        self._trail = trail

    async def run(self, container_id: str, pod: Pod, container: AnyContainer, hook: LifecycleHandler) -> None:
        is_last = container.lifecycle is not None and hook is container.lifecycle.pre_stop
        uid, stage = PodUid(pod.metadata.uid), f"{WaitStage.HOOKS}/{container.name}"
        self._trail.waits(uid, stage, f"{'preStop' if is_last else 'postStart'} hook of container {container.name}")
        try:
            await super().run(container_id, pod, container, hook)
        finally:
            self._trail.waits(uid, stage, "")


class TrailStatusObserver:
    """Records the results of sending statuses, and passes them to another StatusObserver."""

    def __init__(self, observer: StatusObserver, trail: Trail, *, pod_uid: Callable[[str], PodUid]) -> None:
        """`pod_uid` translates the UID of a mirror pod to that of its static pod."""
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
    """A status in short: phase, readiness, and the state of each container."""
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
