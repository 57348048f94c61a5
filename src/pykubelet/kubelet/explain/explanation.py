"""The values of `why`: what is known of a pod, what blocks it, and the explanation."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.kubelet.explain.trail import TrailEntry, TrailWait
from pykubelet.kubelet.types import PodWorkerState


class BlockingStep(StrEnum):
    """The step that blocks a pod; a stable name for programs."""

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
    """The one thing that a pod waits for, what would unblock it, since when, and until when if known."""

    step: BlockingStep
    what: str
    unblock: str = ""
    since: datetime | None = None
    until: datetime | None = None


class PodSituation(Struct, frozen=True, kw_only=True):
    """Everything known of a pod. `entries` and `waiting` are its trail; without a node, the events about it."""

    pod: Pod
    status: PodStatus
    now: datetime
    entries: tuple[TrailEntry, ...] = ()
    waiting: tuple[TrailWait, ...] = ()
    worker: PodWorkerState | None = None
    """The state of its worker, if the node has one."""
    is_from_node: bool = True
    """Whether the node itself was asked; else only the API's view is known."""
    node_problem: str = ""
    """Why the node cannot do anything."""
    holder: "PodSituation | None" = None
    """The static pod of the same name that has to end first."""

    def at(self, stage: str) -> TrailWait | None:
        """The wait of the pod at a stage, if any."""
        return next((one for one in self.waiting if one.stage == stage), None)

    def below(self, stage: str) -> TrailWait | None:
        """The first wait at a part of a stage, such as the hooks of one container."""
        return next((one for one in self.waiting if one.stage.startswith(f"{stage}/")), None)

    def newest(self, *whats: str, container: str = "", said: str = "") -> TrailEntry | None:
        """The newest entry with one of these texts, optionally about a container and with this beginning."""
        for entry in reversed(self.entries):
            is_about = not container or entry.fact("container") in {container, ""}
            if entry.what in whats and is_about and entry.fact("said").startswith(said):
                return entry
        return None


class Explanation(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer of `why`; `told_by` is the node, or empty if only the API server was asked."""

    namespace: str
    name: str
    waits_for: Blocked
    uid: str = ""
    phase: str = ""
    node: str = ""
    told_by: str = ""
    trail: tuple[TrailEntry, ...] = ()
    left_out: int = 0
    """How many trail entries are missing after the first few."""
    note: str = ""
    """What does not block the pod, but is not as its author specified."""
