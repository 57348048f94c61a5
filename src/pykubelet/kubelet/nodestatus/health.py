"""How the node is: what keeps its loop from working, and what it says of itself.

In: the watchdog over the runtime, the sources, what the runtime says of its own state, what the machine is short of, that
the node goes down. Out: answers at once, for the loop, the workers, admission and the heartbeat. Upstream:
pkg/kubelet/runtime.go (runtimeState).
"""

from collections.abc import Callable, Collection
from typing import Protocol

from pykubelet.kubelet.eviction.thresholds import DISK_PRESSURE, MEMORY_PRESSURE, PID_PRESSURE
from pykubelet.kubelet.nodestatus.conditions import NodePressures, NodeProblems

_SHUTTING_DOWN = "node is shutting down"
_NOT_ADMITTED = "Pod was rejected as the node is shutting down."


class PlegHealth(Protocol):
    """Looks at the runtime."""

    def health_error(self) -> str | None:
        """Why the PLEG is unhealthy; None if it is healthy."""


class HealthSources(Protocol):
    """Which sources have told all their pods."""

    def all_ready(self) -> bool:
        """Whether every one has."""


class RuntimeConditions(Protocol):
    """What the runtime says of itself; empty if all is well."""

    def runtime_error(self) -> str:
        """Why it cannot run containers."""

    def network_error(self) -> str:
        """Why pods get no network."""


class SourceWarnings(Protocol):
    """What is wrong with the sources."""

    def warning(self) -> str:
        """In a few words; empty if nothing is."""


class NodeHealth:
    """The state of one node."""

    def __init__(
        self,
        *,
        watchdog: PlegHealth,
        sources: HealthSources,
        warnings: SourceWarnings,
        runtime: RuntimeConditions | None = None,
    ) -> None:
        self._watchdog, self._sources, self._warnings, self._runtime = watchdog, sources, warnings, runtime
        self._pressures = NodePressures()
        self._is_shutting_down = False
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have this called when something changes that the node's status should show at once; it must not wait."""
        self._listeners.append(listener)

    def note_pressures(self, conditions: Collection[str]) -> None:
        """Which conditions of pressure hold from now on."""
        self._pressures = NodePressures(
            memory=MEMORY_PRESSURE in conditions, disk=DISK_PRESSURE in conditions, pid=PID_PRESSURE in conditions
        )
        self._tell()

    def note_shutdown(self) -> None:
        """The node goes down: it takes no pods any more, and is not ready."""
        self._is_shutting_down = True
        self._tell()

    def runtime_error(self) -> str:
        """Why nothing can be done with the runtime; empty if it works."""
        if complaint := self._watchdog.health_error():
            return f"PLEG is not healthy: {complaint}"
        return self._runtime.runtime_error() if self._runtime is not None else ""

    def network_error(self) -> str:
        """Why pods get no network; empty if they do."""
        return self._runtime.network_error() if self._runtime is not None else ""

    def all_sources_ready(self) -> bool:
        """Whether every source has told its pods, so that what nobody names may go."""
        return self._sources.all_ready()

    def problems(self) -> NodeProblems:
        """What keeps the node from being ready."""
        runtime, network = self.runtime_error(), self.network_error()
        return NodeProblems(
            runtime=(runtime,) if runtime else (),
            network=(network,) if network else (),
            shutdown=(_SHUTTING_DOWN,) if self._is_shutting_down else (),
            warning=self._warnings.warning(),
        )

    def pressures(self) -> NodePressures:
        """What the machine is short of, as far as somebody measures it."""
        return self._pressures

    def shutdown_message(self) -> str:
        """Why no pod is taken any more; empty while pods are."""
        return _NOT_ADMITTED if self._is_shutting_down else ""

    def volumes_in_use(self) -> tuple[str, ...]:
        """Volumes that must not be detached: none, for none is ever attached."""
        return ()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()


class AdmissionConditions:
    """What may keep pods from starting."""

    def __init__(self, *, health: NodeHealth, app_armor_error: str) -> None:
        self._health, self._app_armor_error = health, app_armor_error

    def pressures(self) -> tuple[str, ...]:
        """The conditions of pressure that hold."""
        short = self._health.pressures()
        named = {MEMORY_PRESSURE: short.memory, DISK_PRESSURE: short.disk, PID_PRESSURE: short.pid}
        return tuple(name for name, holds in named.items() if holds)

    def app_armor_error(self) -> str:
        """Why AppArmor profiles cannot be enforced; empty if they can."""
        return self._app_armor_error

    def shutdown_message(self) -> str:
        """Why no pod is taken any more; empty while pods are."""
        return self._health.shutdown_message()
