"""Metrics of the runtime: operations, starts and relists."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from pykubelet.api.generated.core import Container, EphemeralContainer
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.kuberuntime.instrumented_services import (
    InstrumentedImages,
    InstrumentedRuntime,
    RuntimeOperationMetrics,
    image_size_bucket,
)
from pykubelet.kubelet.kuberuntime.manager import ContainerStartMetrics
from pykubelet.kubelet.kuberuntime.pod_actions import SyncAction, SyncResult
from pykubelet.kubelet.pleg.pleg import RelistMetrics
from pykubelet.runtimes.protocol import RuntimeFailure, SandboxRequest
from pykubelet.runtimes.sim.runtime import SimImages, SimRuntime
from pykubelet.testing.build import pod
from pykubelet.testing.virtual_time import ManualClock, VirtualClock


def value(collector: Any, name: str, **labels: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(collector)
    return registry.get_sample_value(name, labels)


async def test_operations_have_the_names_of_cri() -> None:
    """Stopping and removing a sandbox counts as such even if an earlier kubelet created it."""
    clock, web = VirtualClock(), pod("web")
    sim, counts = SimRuntime(clock=clock), RuntimeOperationMetrics(clock=clock)
    made = await InstrumentedRuntime(sim, counts).create_sandbox(
        SandboxRequest(pod=web, attempt=0, hostname="web", log_directory="/logs")
    )
    later = InstrumentedRuntime(sim, counts)
    assert len(await later.pods()) == 1
    await later.inspect(PodUid(web.metadata.uid))
    await later.stop(made, 0)
    await later.remove(made)
    for operation in ("run_podsandbox", "list_podsandbox", "podsandbox_status", "stop_podsandbox", "remove_podsandbox"):
        assert value(counts, "kubelet_runtime_operations_total", operation_type=operation) == 1, operation
    assert value(counts, "kubelet_runtime_operations_total", operation_type="remove_container") is None


async def test_operations_that_fail_are_errors_and_those_cancelled_are_not() -> None:
    """The duration of both is recorded."""
    clock = VirtualClock()
    counts = RuntimeOperationMetrics(clock=clock)
    with pytest.raises(RuntimeFailure), counts.counting("start_container"):
        raise RuntimeFailure("no")
    with pytest.raises(asyncio.CancelledError), counts.counting("start_container"):
        raise asyncio.CancelledError
    assert value(counts, "kubelet_runtime_operations_total", operation_type="start_container") == 2
    assert value(counts, "kubelet_runtime_operations_errors_total", operation_type="start_container") == 1
    assert value(counts, "kubelet_runtime_operations_duration_seconds_count", operation_type="start_container") == 2


async def test_pulls_are_measured_by_image_size() -> None:
    """A small image counts in the smallest size class."""
    clock = VirtualClock()
    counts = RuntimeOperationMetrics(clock=clock)
    images = InstrumentedImages(SimImages(), counts, clock=clock)
    await images.pull("web:1", ())
    assert value(counts, "kubelet_runtime_operations_total", operation_type="pull_image") == 1
    assert value(counts, "kubelet_image_pull_duration_seconds_count", image_size_in_bytes="0-10MB") == 1


@given(st.integers(min_value=0, max_value=1 << 40))
def test_every_image_has_a_size_class(size: int) -> None:
    """The smallest class ends at 10 MB, the largest begins above 100 GB."""
    assert image_size_bucket(size)
    assert (image_size_bucket(size) == "0-10MB") == (size <= 10 << 20)
    assert (image_size_bucket(size) == "GT100GB") == (size > 100 << 30)


def test_starts_are_counted_by_kind_and_reason() -> None:
    """Each attempt counts; a start held back by CrashLoopBackOff does not."""
    web = pod(
        "web",
        init_containers=(Container(name="first"),),
        containers=(Container(name="main"), Container(name="side")),
        ephemeral_containers=(EphemeralContainer(name="debug"),),
    )
    counts, start = ContainerStartMetrics(), SyncAction.START_CONTAINER
    counts.sandbox_requested()
    counts.observe(
        web,
        [
            SyncResult(action=start, target="first"),
            SyncResult(action=start, target="main", reason="ErrImagePull", message="no"),
            SyncResult(action=start, target="side", reason="CrashLoopBackOff", message="wait"),
            SyncResult(action=start, target="debug"),
            SyncResult(action=SyncAction.KILL_CONTAINER, target="side", reason="KillContainerError"),
        ],
    )
    counts.observe(web, [SyncResult(action=SyncAction.CREATE_SANDBOX, target="web", reason="CreatePodSandboxError")])
    assert value(counts, "kubelet_started_pods_total") == 1
    assert value(counts, "kubelet_started_pods_errors_total") == 1
    for kind in ("container", "init_container", "ephemeral_container"):
        assert value(counts, "kubelet_started_containers_total", container_type=kind) == 1, kind
    errors = "kubelet_started_containers_errors_total"
    assert value(counts, errors, container_type="container", code="ErrImagePull") == 1


def test_relists_are_measured() -> None:
    """Records durations, intervals and the time of the last successful relist."""
    clock, times = ManualClock(), RelistMetrics()
    times.began(10.0)
    times.ended(10.2, clock.now())
    times.began(11.0)
    times.ended(11.1, None)
    assert value(times, "kubelet_pleg_relist_duration_seconds_count") == 2
    assert value(times, "kubelet_pleg_relist_interval_seconds_sum") == 1.0
    assert value(times, "kubelet_pleg_last_seen_seconds") == clock.now().timestamp()
