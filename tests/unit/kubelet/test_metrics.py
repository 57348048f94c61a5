"""Pod metrics of the kubelet: counts, states and startup durations."""

import itertools
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from pykubelet.aio.histogram import USUAL_BOUNDS, Histogram
from pykubelet.api.generated.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    Pod,
    PodStatus,
    Volume,
)
from pykubelet.api.pods import PodUid
from pykubelet.api.times import parse_time
from pykubelet.kubelet.metrics import PodCountCollector, RejectionCollector
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.pod_startup_latency_tracker import (
    PodStartupLatencyTracker,
    covered_seconds,
    running_since,
    start_duration,
)
from pykubelet.kubelet.pod_workers.state import PodSyncStatus
from pykubelet.kubelet.pod_workers.sync import PodWorkerDurations
from pykubelet.kubelet.types import PodWorkerState, SyncPodType, UpdatePodOptions
from pykubelet.testing.build import pod, static_pod
from pykubelet.testing.virtual_time import ManualClock

CREATED = "2026-01-02T03:00:00Z"


def page(collector: Any) -> str:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


@given(st.lists(st.floats(0, 20), max_size=30))
def test_histogram_counts_everything_once(seconds: list[float]) -> None:
    """Each bucket counts the values up to its bound."""
    histogram = Histogram()
    for one in seconds:
        histogram.observe(one)
    expected = [sum(one <= bound for one in seconds) for bound in (*USUAL_BOUNDS, float("inf"))]
    assert [count for _, count in histogram.buckets] == expected
    assert histogram.buckets[-1][0] == "+Inf"


def test_pods_are_counted_by_config_and_lifecycle() -> None:
    """Desired and active pods, and workers by state; static pods are counted apart."""
    pods = PodManager()
    wanted, static = pod("wanted"), static_pod("static")
    for one in (wanted, static):
        pods.update_pod(one)
    gone = pod("gone")
    records = {
        PodUid(wanted.metadata.uid): _record(wanted),
        PodUid(static.metadata.uid): replace(_record(static), terminating_at=1.0),
        PodUid(gone.metadata.uid): replace(_record(gone), terminated_at=1.0, finished=True),
        PodUid("runtime"): PodSyncStatus(full_name="x_y", terminating_at=1.0),
    }
    told = page(PodCountCollector(pods=pods, records=records, active_pods=lambda: [wanted]))
    for line in (
        'kubelet_desired_pods{static=""} 1.0',
        'kubelet_desired_pods{static="true"} 1.0',
        'kubelet_active_pods{static="true"} 0.0',
        "kubelet_mirror_pods 0.0",
        "kubelet_managed_ephemeral_containers 0.0",
        'kubelet_working_pods{config="desired",lifecycle="sync",static=""} 1.0',
        'kubelet_working_pods{config="desired",lifecycle="terminating",static="true"} 1.0',
        'kubelet_working_pods{config="orphan",lifecycle="terminated",static=""} 1.0',
        'kubelet_working_pods{config="runtime_only",lifecycle="terminating",static="unknown"} 1.0',
        'kubelet_working_pods{config="desired",lifecycle="terminated",static="true"} 0.0',
    ):
        assert line in told


def _record(of: Pod) -> PodSyncStatus:
    return PodSyncStatus(full_name="x_y", active=UpdatePodOptions(SyncPodType.CREATE, of))


def started(since: str = "2026-01-02T03:00:20Z", **spec: Any) -> Pod:
    """A pod whose container runs, after an init container that took three seconds."""
    running = ContainerStatus(name="main", state=ContainerState(running=ContainerStateRunning(started_at=since)))
    ended = ContainerStateTerminated(started_at="2026-01-02T03:00:10Z", finished_at="2026-01-02T03:00:13Z")
    status = PodStatus(
        container_statuses=(running,),
        init_container_statuses=(ContainerStatus(name="first", state=ContainerState(terminated=ended)),),
    )
    made = pod(status=status, init_containers=(Container(name="first"),), **spec)
    return replace(made, metadata=replace(made.metadata, creation_timestamp=CREATED))


def test_start_of_a_pod_leaves_out_images_and_init_containers() -> None:
    """25 seconds in total, minus five for two overlapping pulls and three for an init container."""
    at = parse_time("2026-01-02T03:00:25Z")
    took = start_duration(started(), at, [(10.0, 13.0), (11.0, 15.0)])
    assert (took.total, took.sli) == (25.0, 17.0)
    local, others = Volume(empty_dir=EmptyDirVolumeSource()), Volume(host_path=HostPathVolumeSource(path="/x"))
    assert start_duration(started(volumes=(local,)), at, ()).sli == 22.0
    assert start_duration(started(volumes=(local, others)), at, ()).sli is None
    sidecar = Container(name="first", restart_policy="Always")
    beside = started()
    beside = replace(beside, spec=replace(beside.spec, init_containers=(sidecar,)))
    assert start_duration(beside, at, ()).sli == 25.0


def test_pod_runs_once_all_its_containers_do() -> None:
    """Since the start of the last container; a pod with a waiting container does not run."""
    assert running_since(started().status) == parse_time("2026-01-02T03:00:20Z")
    waiting = ContainerStatus(name="other")
    shown = started().status
    assert running_since(replace(shown, container_statuses=(*shown.container_statuses, waiting))) is None
    assert running_since(PodStatus()) is None


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=10))
def test_time_covered_is_counted_once_however_intervals_overlap(pairs: list[tuple[int, int]]) -> None:
    """The sum equals the number of seconds covered by any interval."""
    intervals = [(float(start), float(start + length)) for start, length in pairs]
    seconds = set(itertools.chain(*(range(start, start + length) for start, length in pairs)))
    assert covered_seconds(intervals) == len(seconds)


def test_start_is_counted_once_and_only_if_it_happened_here() -> None:
    """Excludes pods that ran before the kubelet started, mirrors, and pods counted already."""
    clock = ManualClock(parse_time("2026-01-02T03:00:05Z"))
    times = PodStartupLatencyTracker(clock=clock)
    clock.advance(18)
    for uid in ("new", "old", "waits"):
        times.pod_seen(PodUid(uid))
    clock.advance(2)
    new, old = started(uid="new"), started(since="2026-01-02T03:00:01Z", uid="old")
    mirror = started(uid="mirror", annotations={"kubernetes.io/config.mirror": "hash"})
    times.image_pulled(PodUid("new"), 1.0, 3.0)
    for shown in (new, new, old, mirror, pod("waits")):
        times.status_sent(shown, 0.2)
    told = page(times)
    for line in (
        "kubelet_pod_start_total_duration_seconds_count 1.0",
        "kubelet_pod_start_total_duration_seconds_sum 25.0",
        "kubelet_pod_start_sli_duration_seconds_sum 20.0",
        "kubelet_pod_start_duration_seconds_count 1.0",
        "kubelet_pod_start_duration_seconds_sum 2.0",
        "kubelet_pod_status_sync_duration_seconds_count 5.0",
        'kubelet_pod_status_sync_duration_seconds_bucket{le="0.1"} 0.0',
    ):
        assert line in told
    times.pod_forgotten(PodUid("new"))
    times.status_sent(new, 0.2)
    assert "kubelet_pod_start_total_duration_seconds_count 2.0" in page(times), "what was forgotten is new again"


def test_rejections_preemptions_and_evictions_are_counted() -> None:
    """Names are upstream's; all extended resources share one reason."""
    admission: Any = SimpleNamespace(rejections={"OutOfcpu": 1, "OutOfexample.com/a": 2, "OutOfb": 1}, preemptions=3)
    eviction: Any = SimpleNamespace(counts={"memory.available": 2})
    told = page(RejectionCollector(admission=admission, eviction=eviction))
    for line in (
        'kubelet_evictions{eviction_signal="memory.available"} 2.0',
        'kubelet_preemptions{preemption_signal=""} 3.0',
        'kubelet_admission_rejections_total{reason="OutOfcpu"} 1.0',
        'kubelet_admission_rejections_total{reason="OutOfExtendedResources"} 3.0',
    ):
        assert f"{line}\n" in told


def test_syncs_are_measured_by_operation() -> None:
    """Syncs of terminated pods have an operation type of their own, as upstream."""
    clock = ManualClock()
    durations = PodWorkerDurations(clock=clock)
    with durations.measuring(SyncPodType.CREATE, PodWorkerState.SYNC):
        clock.advance(2)
    with durations.measuring(SyncPodType.SYNC, PodWorkerState.TERMINATED):
        pass
    told = page(durations)
    assert 'kubelet_pod_worker_duration_seconds_sum{operation_type="create"} 2.0\n' in told
    assert 'kubelet_pod_worker_duration_seconds_count{operation_type="terminated"} 1.0\n' in told
