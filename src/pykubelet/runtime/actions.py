"""What to do with a pod now, and what its probes say: the values around the plan.

Upstream: podActions and containerToKillInfo in pkg/kubelet/kuberuntime/kuberuntime_manager.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pykubelet.api.generated.core import Container, EphemeralContainer


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResults:
    """Whether each container passed its last probe, by its id at the runtime; one without a verdict yet is absent."""

    liveness: Mapping[str, bool] = field(default_factory=dict)
    startup: Mapping[str, bool] = field(default_factory=dict)
    readiness: Mapping[str, bool] = field(default_factory=dict)


class KillReason(StrEnum):
    """Why one container of a pod is killed, where that decides how long it may take to end."""

    LIVENESS_PROBE = "LivenessProbe"
    STARTUP_PROBE = "StartupProbe"
    UNKNOWN = "Unknown"
    OTHER = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One container to kill; `message` is what its event says."""

    container_id: str
    container: Container
    message: str
    reason: KillReason = KillReason.OTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class PodActions:
    """One step towards what a pod should be. What is to be killed goes before anything starts.

    `kill_pod` takes everything the pod has; a sandbox is then made anew only if `create_sandbox` says so. `sandbox_id`
    is the sandbox there is (none if it cannot be kept as it is), `attempt` the number of the one to use.
    """

    attempt: int
    sandbox_id: str = ""
    kill_pod: bool = False
    create_sandbox: bool = False
    kills: tuple[Kill, ...] = ()
    start_ephemeral: tuple[EphemeralContainer, ...] = ()
    start_init: tuple[Container, ...] = ()
    start: tuple[Container, ...] = ()
