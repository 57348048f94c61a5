"""What the probes of one kind say of each container by now; tells of changes, not of repeats.

Keyed by the container's id at the runtime: `containerd://abc` and `abc` are the same one.
Upstream: pkg/kubelet/prober/results/results_manager.go
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.types import ProbeOutcome, ProbeResult, ProbeType


class ResultsManager:
    """The results of one kind. `changed` is called at once and must not wait."""

    def __init__(self, kind: ProbeType, changed: Callable[[ProbeResult], None]) -> None:
        self._kind, self._changed = kind, changed
        self._results: dict[str, ProbeOutcome] = {}
        self._passed: dict[str, bool] = {}

    @property
    def passed(self) -> Mapping[str, bool]:
        """Whether each container passed, by its id at the runtime; a live view, without those still unknown."""
        return MappingProxyType(self._passed)

    def get(self, container_id: str) -> ProbeOutcome | None:
        """The result for a container, if there is any."""
        return self._results.get(runtime_id(container_id))

    def set(self, container_id: str, result: ProbeOutcome, uid: PodUid, container: str = "") -> None:
        """The result is this now; a change is told, with the name of the container."""
        if self.get(container_id) != result:
            self.put_silently(container_id, result)
            self._changed(ProbeResult(uid, container_id, self._kind, result, container))

    def put_silently(self, container_id: str, result: ProbeOutcome) -> None:
        """The result is this now, which is nothing new to anybody."""
        key = runtime_id(container_id)
        self._results[key] = result
        if result == ProbeOutcome.UNKNOWN:
            self._passed.pop(key, None)
        else:
            self._passed[key] = result == ProbeOutcome.SUCCESS

    def remove(self, container_id: str) -> None:
        """Forget a container; nobody is told."""
        self._results.pop(runtime_id(container_id), None)
        self._passed.pop(runtime_id(container_id), None)

    def __len__(self) -> int:
        """Of how many containers there is a result."""
        return len(self._results)


def runtime_id(container_id: str) -> str:
    """The id that the runtime gave; a status has the name of the runtime before it."""
    return container_id.rpartition("://")[2]
