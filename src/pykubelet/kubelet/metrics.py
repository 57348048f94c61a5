"""Counts the pods of a node by what becomes of them, when metrics are read. A collector.

Upstream: HandlePodCleanups in pkg/kubelet/kubelet_pods.go, pkg/kubelet/metrics/metrics.go

Counts the pods that a node refused, sent away, or ended for others. A collector of metrics.

Upstream: Evictions, Preemptions and AdmissionRejectionsTotal in pkg/kubelet/metrics/metrics.go
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid, is_static_pod
from pykubelet.kubelet.types import PodWorkerState

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_LIFECYCLES = ("sync", "terminating", "terminated")
_WORKING = (("desired", "true"), ("desired", ""), ("orphan", "true"), ("orphan", ""), ("runtime_only", "unknown"))


class CountedPods(Protocol):
    """The pods this node should run."""

    def pods_and_mirror_pods(self) -> tuple[tuple[Pod, ...], tuple[Pod, ...], tuple[str, ...]]:
        """Pods, mirrors, and names of mirrors without a pod."""


class CountedWorkers(Protocol):
    """What is known of the worker of a pod."""

    @property
    def state(self) -> PodWorkerState:
        """Where it is."""

    @property
    def pod(self) -> Pod | None:
        """The pod, unless only the runtime knows it."""


class PodCountCollector:
    """The counts of one node."""

    def __init__(
        self, *, pods: CountedPods, records: Mapping[PodUid, CountedWorkers], active_pods: Callable[[], Iterable[Pod]]
    ) -> None:
        self._pods, self._records, self._active_pods = pods, records, active_pods

    def collect(self) -> "Iterator[Metric]":
        """What Prometheus asks for."""
        from prometheus_client.metrics_core import GaugeMetricFamily

        pods, mirrors, _ = self._pods.pods_and_mirror_pods()
        for name, what, listed in (
            ("kubelet_desired_pods", "Pods that this node is to run.", pods),
            ("kubelet_active_pods", "Pods that have not come to their end.", self._active_pods()),
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
            "Pods that workers see to, by what they do, and whether anybody wants the pod.",
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
            # One that has finished is remembered for a while.
            lifecycle = _LIFECYCLES[min(record.state, PodWorkerState.TERMINATED)]
            if record.pod is None:
                counts[lifecycle, "runtime_only", "unknown"] += 1
            else:
                counts[lifecycle, "desired" if uid in desired else "orphan", _static(record.pod)] += 1
        return counts


def _static(pod: Pod) -> str:
    return "true" if is_static_pod(pod) else ""


_OUT_OF = "OutOf"
_KNOWN_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


class AdmissionCounters(Protocol):
    """The way in for pods."""

    @property
    def refusals(self) -> Mapping[str, int]:
        """How many pods were refused, by reason."""

    @property
    def preemptions(self) -> int:
        """How many had to go for others."""


class EvictionCounters(Protocol):
    """Ends pods when the machine is short of something."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many, by signal."""


class RejectionCollector:
    """The counts of one node."""

    def __init__(self, *, entrance: AdmissionCounters, evictor: EvictionCounters) -> None:
        self._entrance, self._evictor = entrance, evictor

    def collect(self) -> "Iterator[Metric]":
        """What Prometheus asks for."""
        from prometheus_client.metrics_core import CounterMetricFamily

        refusals: Counter[str] = Counter()
        for reason, count in self._entrance.refusals.items():
            refusals[_bounded(reason)] += count
        # Upstream's names of these two do not end in _total; the library adds it to what it calls a counter.
        for name, what, label, counts in (
            ("kubelet_evictions", "Pods ended because of a shortage.", "eviction_signal", self._evictor.counts),
            ("kubelet_preemptions", "Pods ended for others.", "preemption_signal", {"": self._entrance.preemptions}),
        ):
            yield _plain_counter(name, what, label, counts)
        rejected = CounterMetricFamily("kubelet_admission_rejections_total", "Pods refused.", labels=("reason",))
        for reason, count in refusals.items():
            rejected.add_metric((reason,), count)
        yield rejected


def _plain_counter(name: str, what: str, label: str, counts: Mapping[str, int]) -> "Metric":
    from prometheus_client.metrics_core import Metric

    family = Metric(name, what, "unknown")
    for value, count in counts.items():
        family.add_sample(name, {label: value}, count)
    return family


def _bounded(reason: str) -> str:
    """Users choose the names of extended resources, so these are one to us."""
    is_extended = reason.startswith(_OUT_OF) and reason.removeprefix(_OUT_OF) not in _KNOWN_RESOURCES
    return "OutOfExtendedResources" if is_extended else reason
