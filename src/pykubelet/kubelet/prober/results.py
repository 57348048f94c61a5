"""Results of probes: the current one of each container, metrics, and the last outcomes for people.

Upstream: pkg/kubelet/prober/results/results_manager.go, pkg/kubelet/prober/prober_manager.go
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.aio.histogram import Histogram
from pykubelet.api.generated.core import Container, Pod, Probe
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.types import ProbeOutcome, ProbeResult, ProbeType

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_RESULTS = {ProbeOutcome.SUCCESS: "successful", ProbeOutcome.FAILURE: "failed", ProbeOutcome.UNKNOWN: "unknown"}
_LABELS = ("probe_type", "container", "pod", "namespace")
_Key = tuple[str, ...]
HISTORY_LENGTH = 40
"""The number of outcomes kept for each probe."""
_LETTERS = {ProbeOutcome.SUCCESS: b"s", ProbeOutcome.FAILURE: b"f", ProbeOutcome.UNKNOWN: b"u"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedContainer:
    """One probe of one container of a pod."""

    pod: Pod
    container: Container
    kind: ProbeType
    probe: Probe


class ResultsManager:
    """The current results of one probe type. `changed` is called synchronously."""

    def __init__(self, kind: ProbeType, changed: Callable[[ProbeResult], None]) -> None:
        self._kind, self._changed = kind, changed
        self._results: dict[str, ProbeOutcome] = {}
        self._passed: dict[str, bool] = {}

    @property
    def passed(self) -> Mapping[str, bool]:
        """Whether each container passed, by its ID at the runtime; a live view without unknown results."""
        return MappingProxyType(self._passed)

    def get(self, container_id: str) -> ProbeOutcome | None:
        return self._results.get(runtime_id(container_id))

    def set(self, container_id: str, result: ProbeOutcome, uid: PodUid, container: str = "") -> None:
        """Set a result; a change is reported together with the name of the container."""
        if self.get(container_id) != result:
            self.put_silently(container_id, result)
            self._changed(ProbeResult(uid, container_id, self._kind, result, container))

    def put_silently(self, container_id: str, result: ProbeOutcome) -> None:
        """Set a result without reporting it as a change."""
        key = runtime_id(container_id)
        self._results[key] = result
        if result == ProbeOutcome.UNKNOWN:
            self._passed.pop(key, None)
        else:
            self._passed[key] = result == ProbeOutcome.SUCCESS

    def remove(self, container_id: str) -> None:
        """Drop the result of a container without reporting it."""
        self._results.pop(runtime_id(container_id), None)
        self._passed.pop(runtime_id(container_id), None)

    def __len__(self) -> int:
        return len(self._results)


def runtime_id(container_id: str) -> str:
    """The runtime's ID of a container; statuses prefix it with the name of the runtime."""
    return container_id.rpartition("://")[2]


class ProbeCounts:
    """Counts outcomes and durations of running probes. Implements MetricsCollector."""

    def __init__(self) -> None:
        # By UID too: a pod of the same name may start before its predecessor is gone.
        self._results: dict[tuple[_Key, str], Counter[ProbeOutcome]] = {}
        self._durations: dict[tuple[_Key, str], Histogram] = {}
        self.history = ProbeHistory()

    def note(self, probed: ProbedContainer, found: ProbeOutcome, seconds: float) -> None:
        """Record the outcome of a probe that was carried out."""
        key = _key(probed)
        self._results.setdefault(key, Counter())[found] += 1
        self.history.note(PodUid(probed.pod.metadata.uid), probed.container.name, probed.kind, found, seconds)
        if found is not ProbeOutcome.FAILURE:
            self._durations.setdefault(key, Histogram()).observe(seconds)

    def forget(self, probed: ProbedContainer) -> None:
        self._results.pop(_key(probed), None)
        self._durations.pop(_key(probed), None)
        self.history.forget(PodUid(probed.pod.metadata.uid), probed.container.name, probed.kind)

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily

        total = CounterMetricFamily(
            "prober_probe_total", "Probes run, by what they found.", labels=(*_LABELS, "pod_uid", "result")
        )
        for (labels, uid), counts in self._results.items():
            for found, count in counts.items():
                total.add_metric((*labels, uid, _RESULTS[found]), count)
        yield total
        took = HistogramMetricFamily("prober_probe_duration_seconds", "How long probes took.", labels=_LABELS)
        for (labels, _), histogram in self._durations.items():
            took.add_metric(labels, buckets=histogram.buckets, sum_value=histogram.sum)
        yield took


def _key(probed: ProbedContainer) -> tuple[_Key, str]:
    metadata = probed.pod.metadata
    return (probed.kind.capitalize(), probed.container.name, metadata.name, metadata.namespace), metadata.uid


class RecentOutcomes(Struct, frozen=True, rename="camel"):
    """The last outcomes of one probe, newest last: s for success, f for failure, u for unknown."""

    container: str
    kind: ProbeType
    findings: str
    last_seconds: float


@dataclass(slots=True)
class _Remembered:
    letters: bytearray = field(default_factory=bytearray)
    last_seconds: float = 0.0


class ProbeHistory:
    """The last outcomes of all running probes, one byte each."""

    def __init__(self) -> None:
        self._pods: dict[PodUid, dict[tuple[str, ProbeType], _Remembered]] = {}

    def note(self, uid: PodUid, container: str, kind: ProbeType, found: ProbeOutcome, seconds: float) -> None:
        """Record the outcome and duration of a probe."""
        known = self._pods.setdefault(uid, {}).setdefault((container, kind), _Remembered())
        known.letters += _LETTERS[found]
        del known.letters[:-HISTORY_LENGTH]
        known.last_seconds = seconds

    def forget(self, uid: PodUid, container: str, kind: ProbeType) -> None:
        probes = self._pods.get(uid, {})
        probes.pop((container, kind), None)
        if not probes:
            self._pods.pop(uid, None)

    def of_pod(self, uid: PodUid) -> tuple[RecentOutcomes, ...]:
        """The last outcomes of each probe of a pod."""
        return tuple(
            RecentOutcomes(container, kind, known.letters.decode(), known.last_seconds)
            for (container, kind), known in self._pods.get(uid, {}).items()
        )
