"""Measures how long pods take to start, and statuses to arrive. StatusObserver, and a collector.

A pod counts once, when the API server has taken the first status in which all its containers run, and only if they were
started while this agent was there: after a restart nothing is counted again. What is counted is in `start_durations.py`.

Upstream: pkg/kubelet/util/pod_startup_latency_tracker.go, PodStatusSyncDuration in pkg/kubelet/metrics/metrics.go
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from pykubelet.agent.start_durations import Interval, running_since, start_duration
from pykubelet.aio.clock import Clock
from pykubelet.aio.histogram import Histogram
from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.api.pods import is_mirror_pod

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_START_BOUNDS = (
    *(0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360),
    *(480, 600, 900, 1200, 1800, 2700, 3600),
)
_SYNC_BOUNDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 20, 30, 45, 60)
# Times in statuses are cut to whole seconds.
_CUT = timedelta(seconds=1)


class StartTimes:
    """What was measured on one node."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock, self._begun_at = clock, clock.now()
        self._counted: set[PodUid] = set()
        self._pulls: dict[PodUid, list[Interval]] = {}
        self._seen: dict[PodUid, float] = {}
        self._here = Histogram(_START_BOUNDS)
        self._total, self._sli = Histogram(_START_BOUNDS), Histogram(_START_BOUNDS)
        self._synced = Histogram(_SYNC_BOUNDS)

    def pod_seen(self, uid: PodUid) -> None:
        """A pod has come to this node."""
        if uid not in self._counted:
            self._seen.setdefault(uid, self._clock.monotonic())

    def image_pulled(self, uid: PodUid, began: float, ended: float) -> None:
        """An image was pulled for a pod, from when to when on the monotonic clock."""
        if uid not in self._counted:
            self._pulls.setdefault(uid, []).append((began, ended))

    def status_sent(self, pod: Pod, waited_seconds: float) -> None:
        """The API took a status; `pod` is its answer."""
        self._synced.observe(waited_seconds)
        uid = PodUid(pod.metadata.uid)
        if uid in self._counted or is_mirror_pod(pod) or (since := running_since(pod.status)) is None:
            return
        self._counted.add(uid)
        pulls, seen = self._pulls.pop(uid, ()), self._seen.pop(uid, None)
        if since > self._begun_at - _CUT:
            took = start_duration(pod, self._clock.now(), pulls)
            self._total.observe(took.total)
            if seen is not None:
                self._here.observe(self._clock.monotonic() - seen)
            if took.sli is not None:
                self._sli.observe(took.sli)

    def status_not_sent(self, uid: PodUid, why: str) -> None:
        """A status did not arrive; what is measured is when it does."""

    def pod_forgotten(self, uid: PodUid) -> None:
        """The status of this pod is no longer kept."""
        self._counted.discard(uid)
        self._pulls.pop(uid, None)
        self._seen.pop(uid, None)

    def status_refused(self, pod: Pod, why: str) -> None:
        """A status was not accepted; that is not measured."""

    def collect(self) -> "Iterator[Metric]":
        """What Prometheus asks for."""
        from prometheus_client.metrics_core import HistogramMetricFamily

        for name, what, histogram in (
            ("kubelet_pod_start_duration_seconds", "From the first sight here until shown running.", self._here),
            ("kubelet_pod_start_total_duration_seconds", "From creation until shown running.", self._total),
            ("kubelet_pod_start_sli_duration_seconds", "The same without images and init containers.", self._sli),
            ("kubelet_pod_status_sync_duration_seconds", "From a change until the API has taken it.", self._synced),
        ):
            yield HistogramMetricFamily(name, what, buckets=histogram.buckets, sum_value=histogram.sum)
