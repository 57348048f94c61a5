"""Measures how long pods take to start, and statuses to arrive. StatusObserver, and a collector.

A pod counts once, when the API server has taken the first status in which all its containers run, and only if they were
started while this agent was there: after a restart nothing is counted again. What is counted is in `start_durations.py`.

Upstream: pkg/kubelet/util/pod_startup_latency_tracker.go, PodStatusSyncDuration in pkg/kubelet/metrics/metrics.go

How long a pod took to start, and how much of that was the node's doing.

Pure. Upstream: pkg/kubelet/util/pod_startup_latency_tracker.go
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pykubelet.aio.clock import Clock
from pykubelet.aio.histogram import Histogram
from pykubelet.api.generated.core import Pod, PodStatus, Volume
from pykubelet.api.pods import PodUid, is_mirror_pod, is_restartable_init_container
from pykubelet.api.times import parse_time

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

Interval = tuple[float, float]
"""From when to when, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStartupDuration:
    """From a pod's creation until the API showed all its containers running, in seconds.

    `sli` leaves out what images and init containers took; None for a pod with storage of others, for which nobody promises
    anything.
    """

    total: float
    sli: float | None


def running_since(status: PodStatus) -> datetime | None:
    """When the last container of a pod was started; None if one does not run."""
    running = [container.state.running for container in status.container_statuses]
    started = [state.started_at for state in running if state is not None and state.started_at]
    return max(map(parse_time, started)) if started and len(started) == len(running) else None


def start_duration(pod: Pod, at: datetime, pulls: Iterable[Interval]) -> PodStartupDuration:
    """How long a pod took that is shown running at this moment; `pulls` is when images were pulled for it."""
    created = pod.metadata.creation_timestamp
    total = (at - parse_time(created)).total_seconds() if created else 0.0
    is_stateful = any(_is_of_others(volume) for volume in pod.spec.volumes)
    return PodStartupDuration(
        total=total, sli=None if is_stateful else total - covered_seconds(pulls) - _init_seconds(pod)
    )


def covered_seconds(intervals: Iterable[Interval]) -> float:
    """How long at least one of several things went on."""
    covered, end = 0.0, float("-inf")
    for start, finish in sorted(intervals):
        covered += max(finish - max(start, end), 0.0)
        end = max(end, finish)
    return covered


def _init_seconds(pod: Pod) -> float:
    """How long its init containers ran; those that go on beside the others are not waited for."""
    sidecars = {container.name for container in pod.spec.init_containers if is_restartable_init_container(container)}
    seconds = 0.0
    for container in pod.status.init_container_statuses:
        ended = container.state.terminated
        if container.name not in sidecars and ended is not None and ended.started_at and ended.finished_at:
            seconds += (parse_time(ended.finished_at) - parse_time(ended.started_at)).total_seconds()
    return max(seconds, 0.0)


def _is_of_others(volume: Volume) -> bool:
    kinds = (volume.secret, volume.config_map, volume.downward_api, volume.empty_dir, volume.projected)
    return all(kind is None for kind in kinds)


_START_BOUNDS = (
    *(0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360),
    *(480, 600, 900, 1200, 1800, 2700, 3600),
)
_SYNC_BOUNDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 20, 30, 45, 60)
# Times in statuses are cut to whole seconds.
_CUT = timedelta(seconds=1)


class PodStartupLatencyTracker:
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
