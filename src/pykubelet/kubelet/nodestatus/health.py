"""The health of the node: runtime errors, source problems, pressure conditions and shutdown.

The sync loop, the workers, admission and the node status read it; every method answers at once.

Upstream: pkg/kubelet/runtime.go
"""

from collections.abc import Callable, Collection
from typing import Protocol

from pykubelet.kubelet.config.sources import SourceProblemReporter, SourcesReady
from pykubelet.kubelet.eviction.thresholds import DISK_PRESSURE, MEMORY_PRESSURE, PID_PRESSURE
from pykubelet.kubelet.nodestatus.conditions import NodePressures, NodeProblems
from pykubelet.kubelet.pleg.pleg import PodLifecycleEventGenerator

_SHUTTING_DOWN = "node is shutting down"
_NOT_ADMITTED = "Pod was rejected as the node is shutting down."


class RuntimeConditions(Protocol):
    """The conditions that a runtime reports of itself; an empty text means that all is well."""

    def runtime_error(self) -> str:
        """Why it cannot run containers."""

    def network_error(self) -> str:
        """Why pods get no network."""


class NodeHealth:
    """The health of one node."""

    def __init__(
        self,
        *,
        pleg: PodLifecycleEventGenerator,
        sources: SourcesReady,
        problems: SourceProblemReporter,
        runtime: RuntimeConditions | None = None,
    ) -> None:
        self._pleg, self._sources, self._source_problems, self._runtime = pleg, sources, problems, runtime
        self._pressures = NodePressures()
        self._is_shutting_down = False
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call this, without waiting, when something changes that the node status should show at once."""
        self._listeners.append(listener)

    def note_pressures(self, conditions: Collection[str]) -> None:
        """Set the pressure conditions that hold from now on."""
        self._pressures = NodePressures(
            memory=MEMORY_PRESSURE in conditions, disk=DISK_PRESSURE in conditions, pid=PID_PRESSURE in conditions
        )
        self._notify()

    def note_shutdown(self) -> None:
        """Mark the node as shutting down: it admits no pods and is not ready."""
        self._is_shutting_down = True
        self._notify()

    def runtime_error(self) -> str:
        """Why the runtime cannot be used; empty if it can."""
        if error := self._pleg.health_error():
            return f"PLEG is not healthy: {error}"
        return self._runtime.runtime_error() if self._runtime is not None else ""

    def network_error(self) -> str:
        """Why pods get no network; empty if they do."""
        return self._runtime.network_error() if self._runtime is not None else ""

    def all_sources_ready(self) -> bool:
        """Whether every source has delivered its pods, so that pods no source names may be removed."""
        return self._sources.all_ready()

    def problems(self) -> NodeProblems:
        """What keeps the node from being ready."""
        runtime, network = self.runtime_error(), self.network_error()
        return NodeProblems(
            runtime=(runtime,) if runtime else (),
            network=(network,) if network else (),
            shutdown=(_SHUTTING_DOWN,) if self._is_shutting_down else (),
            warning=self._source_problems.warning(),
        )

    def pressures(self) -> NodePressures:
        """Which resources the machine is short of."""
        return self._pressures

    def pressure_conditions(self) -> tuple[str, ...]:
        """The types of the pressure conditions that hold."""
        short = self._pressures
        named = {MEMORY_PRESSURE: short.memory, DISK_PRESSURE: short.disk, PID_PRESSURE: short.pid}
        return tuple(name for name, holds in named.items() if holds)

    def shutdown_message(self) -> str:
        """Why no pod is admitted any more; empty while pods are."""
        return _NOT_ADMITTED if self._is_shutting_down else ""

    def volumes_in_use(self) -> tuple[str, ...]:
        """Volumes that must not be detached: none, because this node attaches none."""
        return ()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()
