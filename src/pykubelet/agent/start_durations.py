"""How long a pod took to start, and how much of that was the node's doing.

Pure. Upstream: pkg/kubelet/util/pod_startup_latency_tracker.go
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pykubelet.api.generated.core import Pod, PodStatus, Volume
from pykubelet.api.pods import is_restartable_init_container
from pykubelet.api.times import parse_time

Interval = tuple[float, float]
"""From when to when, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartDuration:
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


def start_duration(pod: Pod, at: datetime, pulls: Iterable[Interval]) -> StartDuration:
    """How long a pod took that is shown running at this moment; `pulls` is when images were pulled for it."""
    created = pod.metadata.creation_timestamp
    total = (at - parse_time(created)).total_seconds() if created else 0.0
    is_stateful = any(_is_of_others(volume) for volume in pod.spec.volumes)
    return StartDuration(total=total, sli=None if is_stateful else total - covered_seconds(pulls) - _init_seconds(pod))


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
