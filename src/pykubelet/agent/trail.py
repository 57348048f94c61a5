"""Every decision about a pod, in order, and what the pod waits for now: what `why` and the page show.

Stations write through the `Trail` Protocol of `agent.flow`. Bounded in both directions: so many entries per pod, of which
the first, how it came here, are kept, and so many pods, of which the ones nobody wrote about for longest are dropped.
Upstream has nothing like it.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import ObjectReference
from pykubelet.api.keys import PodUid

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


class Waiting(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What a pod waits for, since when, and until when at most if that is known."""

    since: datetime
    station: str
    what: str
    until: datetime | None = None


@dataclass(slots=True)
class _PodTrail:
    entries: list[TrailEntry] = field(default_factory=list)
    waiting: dict[str, Waiting] = field(default_factory=dict)
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
            waiting[station] = Waiting(now, station, what, until)

    def entries(self, uid: PodUid) -> tuple[TrailEntry, ...]:
        """What was decided about a pod, in the order in which it was last said."""
        trail = self._trails.get(uid)
        return tuple(trail.entries) if trail is not None else ()

    def left_out(self, uid: PodUid) -> int:
        """How many entries of a pod were dropped, after the first few."""
        trail = self._trails.get(uid)
        return trail.left_out if trail is not None else 0

    def waiting(self, uid: PodUid) -> tuple[Waiting, ...]:
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
