"""Values that the parts of the kubelet pass to each other: pod updates, worker options, probe results.

Upstream: pkg/kubelet/types/pod_update.go, pkg/kubelet/pod_workers.go, pkg/kubelet/prober/results/results_manager.go
"""

from collections.abc import Callable, Iterable
from enum import IntEnum, StrEnum
from typing import Any, Protocol

from msgspec import Struct

from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.protocol import RuntimePod


class PodOperation(IntEnum):
    """What an update does to its pods; upstream's numbers, and RESTORE."""

    SET = 0
    ADD = 1
    DELETE = 2
    REMOVE = 3
    UPDATE = 4
    RECONCILE = 5
    RESTORE = 6


class PodSource(StrEnum):
    """The source of a pod. Tests may use other names."""

    FILE = "file"
    HTTP = "http"
    API = "api"
    ALL = "*"


class PodUpdate(Struct, frozen=True):
    """An operation on pods of one source. An ADD without pods only says that the source is ready."""

    op: PodOperation
    source: str
    pods: tuple[Pod, ...] = ()


class SyncPodType(IntEnum):
    """Why a pod is synced; upstream's numbers."""

    SYNC = 0
    UPDATE = 1
    CREATE = 2
    KILL = 3


def sync_type_name(number: int) -> str:
    """The name of a sync type in logs; `unknown` for other numbers."""
    return SyncPodType(number).name.lower() if number in SyncPodType.__members__.values() else "unknown"


def validated_sources(names: Iterable[str]) -> tuple[PodSource, ...]:
    """The configured sources: `*` means all, empty names are skipped, unknown ones raise ValueError."""
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
"""Changes the status of a pod that is killed: eviction, shutdown, preemption."""


class KillPodOptions(Struct, frozen=True):
    """How to kill a pod. `grace_seconds` can only shorten the grace period of the pod and the API."""

    evict: bool = False
    grace_seconds: int | None = None
    change_status: PodStatusFunc | None = None


class UpdatePodOptions(Struct, frozen=True):
    """Work for a pod worker: a desired pod, without its mirror pod, or a running pod that only the runtime knows."""

    type: SyncPodType
    pod: Pod | None = None
    running: RuntimePod | None = None
    kill: KillPodOptions | None = None


class PodWorkerState(IntEnum):
    """The state of a pod worker; it only moves forward."""

    SYNC = 0
    TERMINATING = 1
    TERMINATED = 2
    FINISHED = 3


class ProbeType(StrEnum):
    """The three probes of a container."""

    LIVENESS = "liveness"
    READINESS = "readiness"
    STARTUP = "startup"


class ProbeOutcome(StrEnum):
    """The outcome of a probe, after its thresholds."""

    UNKNOWN = "unknown"
    SUCCESS = "success"
    FAILURE = "failure"


class ProbeResult(Struct, frozen=True):
    """A changed outcome of one container's probe."""

    uid: PodUid
    container_id: str
    kind: ProbeType
    verdict: ProbeOutcome
    container: str = ""


class WaitStage(StrEnum):
    """The stages at which a pod can wait; it may wait at several at once."""

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
    """Records decisions about pods for `why`. Its methods never wait and never raise."""

    def note(self, uid: PodUid, component: str, what: str, **facts: Any) -> None:
        """Record a decision of a component, or why there was none; a repeated entry is only counted."""

    def waits(self, uid: PodUid, stage: str, what: str, seconds: float | None = None) -> None:
        """Set what the pod waits for at this stage, and for how long at most; an empty `what` clears it."""
