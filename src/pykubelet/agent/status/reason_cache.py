"""Remembers why containers could not be started, for their statuses; a thousand reasons at most.

Only starts write here: one that failed leaves its reason, one that worked clears it. No clock, no I/O.
Upstream: pkg/kubelet/reason_cache.go.
"""

from collections.abc import Iterable, Mapping

from pykubelet.agent.status.container_statuses import StartFailure
from pykubelet.api.generated.core import Container, EphemeralContainer, Pod
from pykubelet.api.keys import PodUid
from pykubelet.runtime.results import Action, StepResult

_MAX_ENTRIES = 1000


class ReasonCache:
    """The last failure to start of each container; the one used least recently goes first."""

    def __init__(self, max_entries: int = _MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._failures: dict[tuple[PodUid, str], StartFailure] = {}

    def __len__(self) -> int:
        return len(self._failures)

    def update(self, uid: PodUid, results: Iterable[StepResult]) -> None:
        """Take note of what came of a sync."""
        for step in results:
            if step.action != Action.START_CONTAINER:
                continue
            if step.reason:
                self._put((uid, step.target), StartFailure(step.reason, step.message))
            else:
                self._failures.pop((uid, step.target), None)

    def failures_of(self, pod: Pod) -> Mapping[str, StartFailure]:
        """Why containers of a pod did not start, by name."""
        uid, spec = PodUid(pod.metadata.uid), pod.spec
        containers: tuple[Container | EphemeralContainer, ...]
        containers = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
        names = (container.name for container in containers)
        found = {name: self._failures[uid, name] for name in names if (uid, name) in self._failures}
        for name, failure in found.items():
            # Asking counts as using.
            self._put((uid, name), failure)
        return found

    def _put(self, key: tuple[PodUid, str], failure: StartFailure) -> None:
        self._failures.pop(key, None)
        self._failures[key] = failure
        if len(self._failures) > self._max_entries:
            del self._failures[next(iter(self._failures))]
