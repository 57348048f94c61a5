"""Counts the pods and containers that were started or could not be. A collector.

Upstream: SyncPod in pkg/kubelet/kuberuntime/kuberuntime_manager.go, pkg/kubelet/metrics/metrics.go
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pykubelet.api.generated.core import Pod
from pykubelet.runtime.crash_backoff import CRASH_LOOP_BACK_OFF
from pykubelet.runtime.results import Action, StepResult

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class StartCounts:
    """The counts of one node: every try counts, as upstream has it."""

    def __init__(self) -> None:
        self._pods = self._failed_pods = 0
        self._containers: Counter[str] = Counter()
        self._failed: Counter[tuple[str, str]] = Counter()

    def sandbox_asked(self) -> None:
        """A pod is about to get a sandbox."""
        self._pods += 1

    def note(self, pod: Pod, results: Iterable[StepResult]) -> None:
        """What came of the steps of a pod."""
        for step in results:
            if step.action is Action.CREATE_SANDBOX and step.reason:
                self._failed_pods += 1
            elif step.action is Action.START_CONTAINER and step.reason != CRASH_LOOP_BACK_OFF:
                kind = container_type(pod, step.target)
                self._containers[kind] += 1
                if step.reason:
                    self._failed[kind, step.reason] += 1

    def collect(self) -> "Iterator[Metric]":
        """What Prometheus asks for."""
        from prometheus_client.metrics_core import CounterMetricFamily

        yield CounterMetricFamily("kubelet_started_pods_total", "Tries to start a pod.", self._pods)
        yield CounterMetricFamily("kubelet_started_pods_errors_total", "Those that failed.", self._failed_pods)
        containers = CounterMetricFamily(
            "kubelet_started_containers_total", "Tries to start a container.", labels=("container_type",)
        )
        for kind, count in self._containers.items():
            containers.add_metric((kind,), count)
        yield containers
        failed = CounterMetricFamily(
            "kubelet_started_containers_errors_total", "Those that failed.", labels=("container_type", "code")
        )
        for labels, count in self._failed.items():
            failed.add_metric(labels, count)
        yield failed


def container_type(pod: Pod, name: str) -> str:
    """Which of its lists a pod has this container in, by upstream's word for it."""
    if any(container.name == name for container in pod.spec.init_containers):
        return "init_container"
    is_ephemeral = any(container.name == name for container in pod.spec.ephemeral_containers)
    return "ephemeral_container" if is_ephemeral else "container"
