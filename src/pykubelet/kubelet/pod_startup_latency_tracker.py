"""Measures how long pods take to start, and statuses to reach the API server.

A pod counts once, when the API server accepts the first status in which all its containers run, and only if they
started while this process ran: a restart of the kubelet counts nothing again.

Upstream: pkg/kubelet/util/pod_startup_latency_tracker.go, pkg/kubelet/metrics/metrics.go
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
"""Start and end, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStartupDuration:
    """Seconds from a pod's creation until the API showed all its containers running.

    `sli` excludes image pulls and init containers; None for pods with other than local storage, which the SLI excludes.
    """

    total: float
    sli: float | None


def running_since(status: PodStatus) -> datetime | None:
    """When the last container of a pod started; None unless all run."""
    running = [container.state.running for container in status.container_statuses]
    started = [state.started_at for state in running if state is not None and state.started_at]
    return max(map(parse_time, started)) if started and len(started) == len(running) else None


def start_duration(pod: Pod, at: datetime, pulls: Iterable[Interval]) -> PodStartupDuration:
    """How long a pod took that is now shown running; `pulls` are the intervals of its image pulls."""
    created = pod.metadata.creation_timestamp
    total = (at - parse_time(created)).total_seconds() if created else 0.0
    is_stateful = any(_is_stateful(volume) for volume in pod.spec.volumes)
    return PodStartupDuration(
        total=total, sli=None if is_stateful else total - covered_seconds(pulls) - _init_seconds(pod)
    )


def covered_seconds(intervals: Iterable[Interval]) -> float:
    """The length of the union of intervals."""
    covered, end = 0.0, float("-inf")
    for start, finish in sorted(intervals):
        covered += max(finish - max(start, end), 0.0)
        end = max(end, finish)
    return covered


def _init_seconds(pod: Pod) -> float:
    """How long init containers ran, without sidecars, which the pod does not wait for."""
    sidecars = {container.name for container in pod.spec.init_containers if is_restartable_init_container(container)}
    seconds = 0.0
    for container in pod.status.init_container_statuses:
        ended = container.state.terminated
        if container.name not in sidecars and ended is not None and ended.started_at and ended.finished_at:
            seconds += (parse_time(ended.finished_at) - parse_time(ended.started_at)).total_seconds()
    return max(seconds, 0.0)


def _is_stateful(volume: Volume) -> bool:
    kinds = (volume.secret, volume.config_map, volume.downward_api, volume.empty_dir, volume.projected)
    return all(kind is None for kind in kinds)


_START_BOUNDS = (
    *(0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360),
    *(480, 600, 900, 1200, 1800, 2700, 3600),
)
_SYNC_BOUNDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 20, 30, 45, 60)
# Statuses have whole seconds.
_CUT = timedelta(seconds=1)


class PodStartupLatencyTracker:
    """Tracks the pods of one node; a StatusObserver and a Prometheus collector."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock, self._begun_at = clock, clock.now()
        self._counted: set[PodUid] = set()
        self._pulls: dict[PodUid, list[Interval]] = {}
        self._seen: dict[PodUid, float] = {}
        self._here = Histogram(_START_BOUNDS)
        self._total, self._sli = Histogram(_START_BOUNDS), Histogram(_START_BOUNDS)
        self._synced = Histogram(_SYNC_BOUNDS)

    def pod_seen(self, uid: PodUid) -> None:
        """Record when the kubelet first saw a pod."""
        if uid not in self._counted:
            self._seen.setdefault(uid, self._clock.monotonic())

    def image_pulled(self, uid: PodUid, began: float, ended: float) -> None:
        """Record an image pull for a pod, in seconds of the monotonic clock."""
        if uid not in self._counted:
            self._pulls.setdefault(uid, []).append((began, ended))

    def status_sent(self, pod: Pod, waited_seconds: float) -> None:
        """Observe an accepted status; `pod` is the API's answer."""
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
        """Ignored: the duration is measured when the status arrives."""

    def pod_forgotten(self, uid: PodUid) -> None:
        """Forget a pod whose status is no longer kept."""
        self._counted.discard(uid)
        self._pulls.pop(uid, None)
        self._seen.pop(uid, None)

    def status_refused(self, pod: Pod, why: str) -> None:
        """Ignored: an illegal status is not sent."""

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import HistogramMetricFamily

        for name, what, histogram in (
            ("kubelet_pod_start_duration_seconds", "From first seen by the kubelet until shown running.", self._here),
            ("kubelet_pod_start_total_duration_seconds", "From creation until shown running.", self._total),
            ("kubelet_pod_start_sli_duration_seconds", "The same without image pulls and init containers.", self._sli),
            ("kubelet_pod_status_sync_duration_seconds", "From a change until the API has accepted it.", self._synced),
        ):
            yield HistogramMetricFamily(name, what, buckets=histogram.buckets, sum_value=histogram.sum)
