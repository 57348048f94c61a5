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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedContainer:
    """One probe of one container."""

    pod: Pod
    container: Container
    kind: ProbeType
    probe: Probe


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


_RESULTS = {ProbeOutcome.SUCCESS: "successful", ProbeOutcome.FAILURE: "failed", ProbeOutcome.UNKNOWN: "unknown"}
_LABELS = ("probe_type", "container", "pod", "namespace")
_Key = tuple[str, ...]


class ProbeCounts:
    """The counts of the probes that are run now; those of a probe go with it."""

    def __init__(self) -> None:
        # By uid too: a pod of the same name may come before the one before has gone.
        self._results: dict[tuple[_Key, str], Counter[ProbeOutcome]] = {}
        self._durations: dict[tuple[_Key, str], Histogram] = {}
        self.history = ProbeHistory()

    def note(self, subject: ProbedContainer, found: ProbeOutcome, seconds: float) -> None:
        """A probe was run; one that could not be carried out is not noted."""
        key = _key(subject.pod, subject.container.name, subject.kind)
        self._results.setdefault(key, Counter())[found] += 1
        self.history.note(PodUid(subject.pod.metadata.uid), subject.container.name, subject.kind, found, seconds)
        if found is not ProbeOutcome.FAILURE:
            self._durations.setdefault(key, Histogram()).observe(seconds)

    def forget(self, subject: ProbedContainer) -> None:
        """A probe is not run any more."""
        key = _key(subject.pod, subject.container.name, subject.kind)
        self._results.pop(key, None)
        self.history.forget(PodUid(subject.pod.metadata.uid), subject.container.name, subject.kind)
        self._durations.pop(key, None)

    def collect(self) -> "Iterator[Metric]":
        """What Prometheus asks for."""
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


def _key(pod: Pod, container: str, kind: ProbeType) -> tuple[_Key, str]:
    return (kind.capitalize(), container, pod.metadata.name, pod.metadata.namespace), pod.metadata.uid


FINDINGS = 40
"""So many of each probe are remembered."""
_LETTERS = {ProbeOutcome.SUCCESS: b"s", ProbeOutcome.FAILURE: b"f", ProbeOutcome.UNKNOWN: b"u"}


class RecentOutcomes(Struct, frozen=True, rename="camel"):
    """The last findings of one probe, the newest last: a letter each, s for success, f for failure, u for unknown."""

    container: str
    kind: ProbeType
    findings: str
    last_seconds: float


@dataclass(slots=True)
class _Remembered:
    letters: bytearray = field(default_factory=bytearray)
    last_seconds: float = 0.0


class ProbeHistory:
    """The last findings of all probes that are run now."""

    def __init__(self) -> None:
        self._pods: dict[PodUid, dict[tuple[str, ProbeType], _Remembered]] = {}

    def note(self, uid: PodUid, container: str, kind: ProbeType, found: ProbeOutcome, seconds: float) -> None:
        """A probe was run, and took so long."""
        known = self._pods.setdefault(uid, {}).setdefault((container, kind), _Remembered())
        known.letters += _LETTERS[found]
        del known.letters[:-FINDINGS]
        known.last_seconds = seconds

    def forget(self, uid: PodUid, container: str, kind: ProbeType) -> None:
        """A probe is not run any more."""
        probes = self._pods.get(uid, {})
        probes.pop((container, kind), None)
        if not probes:
            self._pods.pop(uid, None)

    def of_pod(self, uid: PodUid) -> tuple[RecentOutcomes, ...]:
        """The findings of each probe of a pod."""
        return tuple(
            RecentOutcomes(container, kind, known.letters.decode(), known.last_seconds)
            for (container, kind), known in self._pods.get(uid, {}).items()
        )
