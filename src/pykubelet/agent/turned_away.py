"""Counts the pods that a node refused, sent away, or ended for others. A collector of metrics.

Upstream: Evictions, Preemptions and AdmissionRejectionsTotal in pkg/kubelet/metrics/metrics.go
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_OUT_OF = "OutOf"
_KNOWN_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


class Entrance(Protocol):
    """The way in for pods."""

    @property
    def refusals(self) -> Mapping[str, int]:
        """How many pods were refused, by reason."""

    @property
    def preemptions(self) -> int:
        """How many had to go for others."""


class Evictor(Protocol):
    """Ends pods when the machine is short of something."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many, by signal."""


class TurnedAway:
    """The counts of one node."""

    def __init__(self, *, entrance: Entrance, evictor: Evictor) -> None:
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
