"""The values handed from station to station."""

from collections.abc import Callable, Iterable
from enum import IntEnum, StrEnum
from typing import Any, Protocol

from msgspec import Struct

from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.keys import PodUid
from pykubelet.runtime.protocol import RuntimePod


class PodOp(IntEnum):
    """What an update says about its pods; the numbers are upstream's, RESTORE is from the seed."""

    SET = 0
    ADD = 1
    DELETE = 2
    REMOVE = 3
    UPDATE = 4
    RECONCILE = 5
    RESTORE = 6


class Source(StrEnum):
    """Where pods come from. A test may use any other name."""

    FILE = "file"
    HTTP = "http"
    API = "api"
    ALL = "*"


class PodUpdate(Struct, frozen=True):
    """Pods of one source and what happened to them. An ADD without pods says only that the source is ready."""

    op: PodOp
    source: str
    pods: tuple[Pod, ...] = ()


class SyncType(IntEnum):
    """Why a pod is synced; the numbers are upstream's."""

    SYNC = 0
    UPDATE = 1
    CREATE = 2
    KILL = 3


def sync_type_name(number: int) -> str:
    """The name of a sync type as logs show it; `unknown` for a number that is none."""
    return SyncType(number).name.lower() if number in SyncType.__members__.values() else "unknown"


def validated_sources(names: Iterable[str]) -> tuple[Source, ...]:
    """The sources a configuration names: `*` means all at once, empty names are skipped, others are a ValueError."""
    validated: list[Source] = []
    for name in names:
        if name == Source.ALL:
            return (Source.FILE, Source.HTTP, Source.API)
        if name and name not in Source.__members__.values():
            raise ValueError(f'unknown pod source "{name}"')
        if name:
            validated.append(Source(name))
    return tuple(validated)


StatusChange = Callable[[PodStatus], PodStatus]
"""What whoever kills a pod wants its status to say: eviction, shutdown, preemption."""


class PodKill(Struct, frozen=True):
    """How a pod is to be stopped. `grace_seconds` may only shorten what the pod and the API grant."""

    evict: bool = False
    grace_seconds: int | None = None
    change_status: StatusChange | None = None


class PodWork(Struct, frozen=True):
    """What a worker is asked to see to: a pod as it should be now, or one that only the runtime knows.

    The mirror of a static pod is no part of it: whoever needs it looks it up when it is needed.
    """

    type: SyncType
    pod: Pod | None = None
    running: RuntimePod | None = None
    kill: PodKill | None = None


class WorkerState(IntEnum):
    """Where the worker of a pod is; it only ever goes forward."""

    SYNC = 0
    TERMINATING = 1
    TERMINATED = 2
    FINISHED = 3


class Verdict(Struct, frozen=True):
    """What admission says about a pod: no `reason`, it may start, once the `victims` are gone; else why it may not."""

    reason: str = ""
    message: str = ""
    victims: tuple[Pod, ...] = ()

    @property
    def admitted(self) -> bool:
        """Whether the pod may start."""
        return not self.reason


class ProbeKind(StrEnum):
    """Which probe of a container."""

    LIVENESS = "liveness"
    READINESS = "readiness"
    STARTUP = "startup"


class ProbeVerdict(StrEnum):
    """What a probe found, thresholds counted."""

    UNKNOWN = "unknown"
    SUCCESS = "success"
    FAILURE = "failure"


class ProbeResult(Struct, frozen=True):
    """A probe's verdict on a container changed."""

    uid: PodUid
    container_id: str
    kind: ProbeKind
    verdict: ProbeVerdict
    container: str = ""


class WaitAt(StrEnum):
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
