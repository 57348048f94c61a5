"""The values handed from station to station."""

from collections.abc import Callable, Iterable
from enum import IntEnum, StrEnum
from typing import Any, Protocol

from msgspec import Struct

from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.pods import PodUid, is_terminal
from pykubelet.runtimes.protocol import RuntimePod


class PodOperation(IntEnum):
    """What an update says about its pods; the numbers are upstream's, RESTORE is from the seed."""

    SET = 0
    ADD = 1
    DELETE = 2
    REMOVE = 3
    UPDATE = 4
    RECONCILE = 5
    RESTORE = 6


class PodSource(StrEnum):
    """Where pods come from. A test may use any other name."""

    FILE = "file"
    HTTP = "http"
    API = "api"
    ALL = "*"


class PodUpdate(Struct, frozen=True):
    """Pods of one source and what happened to them. An ADD without pods says only that the source is ready."""

    op: PodOperation
    source: str
    pods: tuple[Pod, ...] = ()


class SyncPodType(IntEnum):
    """Why a pod is synced; the numbers are upstream's."""

    SYNC = 0
    UPDATE = 1
    CREATE = 2
    KILL = 3


def sync_type_name(number: int) -> str:
    """The name of a sync type as logs show it; `unknown` for a number that is none."""
    return SyncPodType(number).name.lower() if number in SyncPodType.__members__.values() else "unknown"


def validated_sources(names: Iterable[str]) -> tuple[PodSource, ...]:
    """The sources a configuration names: `*` means all at once, empty names are skipped, others are a ValueError."""
    validated: list[PodSource] = []
    for name in names:
        if name == PodSource.ALL:
            return (PodSource.FILE, PodSource.HTTP, PodSource.API)
        if name and name not in PodSource.__members__.values():
            raise ValueError(f'unknown pod source "{name}"')
        if name:
            validated.append(PodSource(name))
    return tuple(validated)


PodStatusFunc = Callable[[PodStatus], PodStatus]
"""What whoever kills a pod wants its status to say: eviction, shutdown, preemption."""


class KillPodOptions(Struct, frozen=True):
    """How a pod is to be stopped. `grace_seconds` may only shorten what the pod and the API grant."""

    evict: bool = False
    grace_seconds: int | None = None
    change_status: PodStatusFunc | None = None


class UpdatePodOptions(Struct, frozen=True):
    """What a worker is asked to see to: a pod as it should be now, or one that only the runtime knows.

    The mirror of a static pod is no part of it: whoever needs it looks it up when it is needed.
    """

    type: SyncPodType
    pod: Pod | None = None
    running: RuntimePod | None = None
    kill: KillPodOptions | None = None


class PodWorkerState(IntEnum):
    """Where the worker of a pod is; it only ever goes forward."""

    SYNC = 0
    TERMINATING = 1
    TERMINATED = 2
    FINISHED = 3


class PodAdmitResult(Struct, frozen=True):
    """What admission says about a pod: no `reason`, it may start, once the `victims` are gone; else why it may not."""

    reason: str = ""
    message: str = ""
    victims: tuple[Pod, ...] = ()

    @property
    def admitted(self) -> bool:
        """Whether the pod may start."""
        return not self.reason


class ProbeType(StrEnum):
    """Which probe of a container."""

    LIVENESS = "liveness"
    READINESS = "readiness"
    STARTUP = "startup"


class ProbeOutcome(StrEnum):
    """What a probe found, thresholds counted."""

    UNKNOWN = "unknown"
    SUCCESS = "success"
    FAILURE = "failure"


class ProbeResult(Struct, frozen=True):
    """A probe's verdict on a container changed."""

    uid: PodUid
    container_id: str
    kind: ProbeType
    verdict: ProbeOutcome
    container: str = ""


class WaitStation(StrEnum):
    """Where a pod may have to wait; it may be in several places at once."""

    SOURCES = "sources"
    CLAIMS = "claims"
    ADMISSION = "admission"
    TURNS = "turns"
    VOLUMES = "volumes"
    START = "start"
    HOOKS = "hooks"
    STOP = "stop"
    UNMOUNT = "unmount"
    RETRY = "retry"


class Trail(Protocol):
    """Keeps what was decided about a pod, for people who ask why. Never waits, never raises, costs next to nothing."""

    def note(self, uid: PodUid, station: str, what: str, **facts: Any) -> None:
        """A station decided something, or could not go on; the same again is only counted."""

    def waits(self, uid: PodUid, station: str, what: str, seconds: float | None = None) -> None:
        """What the pod waits for now at this station, and how long at most; nothing if `what` is empty."""


def is_active(pod: Pod, worker: PodWorkerState | None, own_phase: str) -> bool:
    """Whether a pod counts: it has not ended, by the API's word or ours, or is still being stopped."""
    if worker is not None and worker >= PodWorkerState.TERMINATED:
        return False
    return worker is PodWorkerState.TERMINATING or not (is_terminal(pod.status.phase) or is_terminal(own_phase))
