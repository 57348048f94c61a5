"""Counts what probes found, and how long those that found something good took. A collector of metrics.

Upstream: ProberResults and ProberDuration in pkg/kubelet/prober/prober_manager.go
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pykubelet.agent.flow import ProbeKind, ProbeVerdict
from pykubelet.agent.probes.history import ProbeHistory
from pykubelet.agent.probes.schedule import Subject
from pykubelet.aio.histogram import Histogram
from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_RESULTS = {ProbeVerdict.SUCCESS: "successful", ProbeVerdict.FAILURE: "failed", ProbeVerdict.UNKNOWN: "unknown"}
_LABELS = ("probe_type", "container", "pod", "namespace")
_Key = tuple[str, ...]


class ProbeCounts:
    """The counts of the probes that are run now; those of a probe go with it."""

    def __init__(self) -> None:
        # By uid too: a pod of the same name may come before the one before has gone.
        self._results: dict[tuple[_Key, str], Counter[ProbeVerdict]] = {}
        self._durations: dict[tuple[_Key, str], Histogram] = {}
        self.history = ProbeHistory()

    def note(self, subject: Subject, found: ProbeVerdict, seconds: float) -> None:
        """A probe was run; one that could not be carried out is not noted."""
        key = _key(subject.pod, subject.container.name, subject.kind)
        self._results.setdefault(key, Counter())[found] += 1
        self.history.note(PodUid(subject.pod.metadata.uid), subject.container.name, subject.kind, found, seconds)
        if found is not ProbeVerdict.FAILURE:
            self._durations.setdefault(key, Histogram()).observe(seconds)

    def forget(self, subject: Subject) -> None:
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


def _key(pod: Pod, container: str, kind: ProbeKind) -> tuple[_Key, str]:
    return (kind.capitalize(), container, pod.metadata.name, pod.metadata.namespace), pod.metadata.uid
