"""Every decision about a pod, in order, and what the pod waits for now: what `why` and the page show.

Stations write through the `Trail` Protocol of `agent.flow`. Bounded in both directions: so many entries per pod, so
many pods, the ones nobody wrote about for longest are dropped. Upstream has nothing like it.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec import Struct

from pykubelet.aio.clock import Clock
from pykubelet.api.keys import PodUid

ENTRIES_PER_POD = 50
"""A pod that starts writes about ten; what repeats is counted, so this reaches back far."""
PODS = 5000
"""More than a node runs at once, so that pods that ended are remembered for a while."""


class TrailEntry(Struct, frozen=True):
    """One decision. The same one again within the trail's end makes no new entry: `times` and `last_at` tell."""

    at: datetime
    station: str
    what: str
    facts: tuple[tuple[str, str], ...] = ()
    times: int = 1
    last_at: datetime | None = None


class Waiting(Struct, frozen=True):
    """What a pod waits for, and since when."""

    since: datetime
    station: str
    what: str


@dataclass(slots=True)
class _PodTrail:
    entries: deque[TrailEntry]
    waiting: dict[str, Waiting] = field(default_factory=dict)


class PodTrails:
    """The trails of all pods; owned by one loop."""

    def __init__(self, *, clock: Clock, pods: int = PODS, entries_per_pod: int = ENTRIES_PER_POD) -> None:
        self._clock, self._pods, self._entries_per_pod = clock, pods, entries_per_pod
        self._trails: OrderedDict[PodUid, _PodTrail] = OrderedDict()

    def note(self, uid: PodUid, station: str, what: str, **facts: Any) -> None:
        """A station decided something; facts become text at once, so that nothing is kept alive by them."""
        entries, now = self._trail(uid).entries, self._clock.now()
        entry = TrailEntry(now, station, what, tuple((name, str(value)) for name, value in facts.items()))
        last = entries[-1] if entries else None
        if last is not None and (last.station, last.what, last.facts) == (station, what, entry.facts):
            entries[-1] = TrailEntry(last.at, station, what, last.facts, last.times + 1, now)
        else:
            entries.append(entry)

    def waits(self, uid: PodUid, station: str, what: str) -> None:
        """What the pod waits for at a station; the same again keeps its beginning."""
        waiting = self._trail(uid).waiting
        if not what:
            waiting.pop(station, None)
        elif station not in waiting or waiting[station].what != what:
            waiting[station] = Waiting(self._clock.now(), station, what)

    def entries(self, uid: PodUid) -> tuple[TrailEntry, ...]:
        """What was decided about a pod, oldest first."""
        trail = self._trails.get(uid)
        return tuple(trail.entries) if trail is not None else ()

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
            trail = self._trails[uid] = _PodTrail(deque(maxlen=self._entries_per_pod))
            if len(self._trails) > self._pods:
                self._trails.popitem(last=False)
        else:
            self._trails.move_to_end(uid)
        return trail
