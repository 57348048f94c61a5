"""Prometheus collectors for the node's pods: counts by state, rejections, preemptions and evictions.

Upstream: pkg/kubelet/metrics/metrics.go, pkg/kubelet/kubelet_pods.go
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid, is_static_pod
from pykubelet.kubelet.eviction.eviction_manager import EvictionManager
from pykubelet.kubelet.lifecycle.admission import PodAdmission
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.pod_workers.state import PodSyncStatus
from pykubelet.kubelet.types import PodWorkerState

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_OUT_OF = "OutOf"
_KNOWN_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
_LIFECYCLES = ("sync", "terminating", "terminated")
_WORKING = (("desired", "true"), ("desired", ""), ("orphan", "true"), ("orphan", ""), ("runtime_only", "unknown"))


class PodCountCollector:
    """Counts desired, active, mirror and working pods at each scrape."""

    def __init__(
        self, *, pods: PodManager, records: Mapping[PodUid, PodSyncStatus], active_pods: Callable[[], Iterable[Pod]]
    ) -> None:
        self._pods, self._records, self._active_pods = pods, records, active_pods

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import GaugeMetricFamily

        pods, mirrors, _ = self._pods.pods_and_mirror_pods()
        for name, what, listed in (
            ("kubelet_desired_pods", "Pods that this node should run.", pods),
            ("kubelet_active_pods", "Pods that have not terminated.", self._active_pods()),
        ):
            family = GaugeMetricFamily(name, what, labels=("static",))
            counts = Counter(map(_static, listed))
            for static in ("", "true"):
                family.add_metric((static,), counts[static])
            yield family
        yield GaugeMetricFamily("kubelet_mirror_pods", "Mirrors of static pods.", len(mirrors))
        debugging = sum(len(pod.spec.ephemeral_containers) for pod in pods)
        yield GaugeMetricFamily("kubelet_managed_ephemeral_containers", "Ephemeral containers in pods.", debugging)
        working = GaugeMetricFamily(
            "kubelet_working_pods",
            "Pods with a worker, by its state, and whether the pod is desired and static.",
            labels=("lifecycle", "config", "static"),
        )
        counts_of = self._working({PodUid(pod.metadata.uid) for pod in pods})
        for lifecycle in _LIFECYCLES:
            for config, static in _WORKING:
                working.add_metric((lifecycle, config, static), counts_of[lifecycle, config, static])
        yield working

    def _working(self, desired: set[PodUid]) -> Counter[tuple[str, str, str]]:
        counts: Counter[tuple[str, str, str]] = Counter()
        for uid, record in self._records.items():
            # A finished worker is remembered for a while.
            lifecycle = _LIFECYCLES[min(record.state, PodWorkerState.TERMINATED)]
            if record.pod is None:
                counts[lifecycle, "runtime_only", "unknown"] += 1
            else:
                counts[lifecycle, "desired" if uid in desired else "orphan", _static(record.pod)] += 1
        return counts


def _static(pod: Pod) -> str:
    return "true" if is_static_pod(pod) else ""


class RejectionCollector:
    """Counts rejected, preempted and evicted pods."""

    def __init__(self, *, admission: PodAdmission, eviction: EvictionManager) -> None:
        self._admission, self._eviction = admission, eviction

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import CounterMetricFamily

        rejections: Counter[str] = Counter()
        for reason, count in self._admission.rejections.items():
            rejections[_bounded(reason)] += count
        # Upstream names these two without _total, which the library appends to every counter.
        for name, what, label, counts in (
            ("kubelet_evictions", "Pods evicted by the kubelet.", "eviction_signal", self._eviction.counts),
            (
                "kubelet_preemptions",
                "Pods preempted for critical pods.",
                "preemption_signal",
                {"": self._admission.preemptions},
            ),
        ):
            yield _plain_counter(name, what, label, counts)
        rejected = CounterMetricFamily(
            "kubelet_admission_rejections_total", "Pods rejected at admission.", labels=("reason",)
        )
        for reason, count in rejections.items():
            rejected.add_metric((reason,), count)
        yield rejected


def _plain_counter(name: str, what: str, label: str, counts: Mapping[str, int]) -> "Metric":
    from prometheus_client.metrics_core import Metric

    family = Metric(name, what, "unknown")
    for value, count in counts.items():
        family.add_sample(name, {label: value}, count)
    return family


def _bounded(reason: str) -> str:
    """The reason as a label: one value for all extended resources, whose names users choose."""
    is_extended = reason.startswith(_OUT_OF) and reason.removeprefix(_OUT_OF) not in _KNOWN_RESOURCES
    return "OutOfExtendedResources" if is_extended else reason
