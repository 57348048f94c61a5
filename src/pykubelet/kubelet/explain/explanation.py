"""The values around the question why a pod is where it is: what is known, and the answer.

A `Situation` is what a node, or whoever only has the API server, knows of a pod; an `Explanation` is what a person is told.
"""

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.kubelet.explain.trail import TrailEntry, TrailWait
from pykubelet.kubelet.types import PodWorkerState


class BlockingStep(StrEnum):
    """What a pod may wait for; programs may compare it."""

    NOTHING = "nothing"
    ENDED = "ended"
    SCHEDULING = "scheduling"
    NODE = "node"
    ADMISSION = "admission"
    ROOM = "room"
    TURN = "turn"
    MANIFEST = "manifest"
    DUPLICATE = "duplicate"
    NETWORK = "network"
    VOLUME = "volume"
    CONFIGURATION = "configuration"
    IMAGE = "image"
    INIT_CONTAINER = "init container"
    START = "start"
    RUNTIME = "runtime"
    HOOK = "hook"
    CRASH_LOOP = "crash loop"
    CONTAINER_ENDED = "container ended"
    STARTUP_PROBE = "startup probe"
    READINESS_PROBE = "readiness probe"
    READINESS_GATE = "readiness gate"
    STOP = "stop"
    FINALIZER = "finalizer"
    STATUS = "status"


class Blocked(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The one thing that a pod waits for, what would unblock it, since when, and until when if that is known."""

    step: BlockingStep
    what: str
    unblock: str = ""
    since: datetime | None = None
    until: datetime | None = None


class PodSituation(Struct, frozen=True, kw_only=True):
    """All that is known of a pod. `entries` and `waiting` are its trail; without a node, the events about it."""

    pod: Pod
    status: PodStatus
    now: datetime
    entries: tuple[TrailEntry, ...] = ()
    waiting: tuple[TrailWait, ...] = ()
    worker: PodWorkerState | None = None
    """Where its worker is, of a node that has one."""
    is_from_node: bool = True
    """Whether the node itself says so; else only what the API shows is known."""
    node_problem: str = ""
    """Why nothing can be expected of the node."""
    holder: "PodSituation | None" = None
    """The static pod that has this one's name and has to end first."""

    def at(self, station: str) -> TrailWait | None:
        """What the pod waits for at a station."""
        return next((one for one in self.waiting if one.station == station), None)

    def below(self, station: str) -> TrailWait | None:
        """The same for the first of several places at a station."""
        return next((one for one in self.waiting if one.station.startswith(f"{station}/")), None)

    def newest(self, *whats: str, container: str = "", said: str = "") -> TrailEntry | None:
        """The newest entry of one of these words, about a container and beginning so, if that is asked for."""
        return next(self._matching(whats, container, said), None)

    def _matching(self, whats: tuple[str, ...], container: str, said: str) -> Iterator[TrailEntry]:
        for entry in reversed(self.entries):
            is_about = not container or entry.fact("container") in {container, ""}
            if entry.what in whats and is_about and entry.fact("said").startswith(said):
                yield entry


class Explanation(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a person who asks why is told; `told_by` is the node, or empty if only the API server was asked."""

    namespace: str
    name: str
    waits_for: Blocked
    uid: str = ""
    phase: str = ""
    node: str = ""
    told_by: str = ""
    trail: tuple[TrailEntry, ...] = ()
    left_out: int = 0
    """So many entries of the trail are missing after the first few."""
