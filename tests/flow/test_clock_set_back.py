"""The wall clock is set back by an hour: what was dated before lies in the future, and nothing waits for that."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from pykubelet.aio.backoff import KeyedBackoff
from pykubelet.api.generated.batch import JobCondition, JobStatus
from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
    Probe,
)
from pykubelet.api.pods import PodUid
from pykubelet.api.times import format_time
from pykubelet.controllers.framework.active_pods import is_pod_available, next_availability_seconds
from pykubelet.controllers.job.controller import _completion_time
from pykubelet.controllers.job.policies import FailureRecord, remaining_seconds
from pykubelet.controllers.job.status import COMPLETE
from pykubelet.kubelet.kuberuntime.container_gc import GcPolicy, containers_to_remove
from pykubelet.kubelet.pleg.pleg import PodLifecycleEventGenerator
from pykubelet.kubelet.prober.prober_manager import ProbeRecord, examine
from pykubelet.kubelet.prober.results import ProbedContainer
from pykubelet.kubelet.types import ProbeType
from pykubelet.runtimes import protocol
from pykubelet.runtimes.sim.runtime import SimRuntime
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import EPOCH
from simulation.faults import JumpingClock
from whole_node import is_ready, status_of, world

HOUR = timedelta(hours=1)
BEFORE, NOW = EPOCH, EPOCH - HOUR


async def test_restarted_container_is_shown_and_ready(tmp_path: Path) -> None:
    """Its attempt says which container is the newest; by their dates it would be the one that has ended."""
    clock = JumpingClock()
    async with world(tmp_path) as outside:
        outside.clock = outside.sim._clock = outside.sim._book._clock = clock
        async with outside.running_node():
            web = await outside.create("web")
            await outside.until("web", is_ready)
            clock.offset_seconds = -3600
            outside.sim.crash(PodUid(web.metadata.uid), "main", exit_code=5)
            shown = await outside.until("web", lambda one: is_ready(one) and status_of(one).restart_count == 1)
            ended = status_of(shown).last_state.terminated
            assert ended is not None
            assert ended.exit_code == 5


def test_back_off_ends() -> None:
    """The delay counts from an exit in the future; a skew shorter than the delay still counts."""
    backoff: KeyedBackoff[str] = KeyedBackoff(first_seconds=10, limit_seconds=300)
    backoff.advance("key", event_at=BEFORE, now=BEFORE)
    assert backoff.waits_until("key", event_at=BEFORE, now=NOW) is None
    assert backoff.waits_since_advance("key", now=NOW) is None
    skewed = BEFORE - timedelta(seconds=3)
    assert backoff.waits_until("key", event_at=BEFORE, now=skewed) == BEFORE + timedelta(seconds=10)


def test_failed_pods_of_a_job_are_replaced() -> None:
    assert remaining_seconds(FailureRecord(1, BEFORE), NOW) == 0
    assert remaining_seconds(FailureRecord(1, BEFORE), BEFORE - timedelta(seconds=3)) == 13


def test_job_completes_not_before_its_start() -> None:
    """The API rejects a completion before the start."""
    started = JobStatus(start_time=format_time(BEFORE))
    ending = JobCondition(type=COMPLETE, status="True", last_transition_time=format_time(NOW))
    assert _completion_time(started, ending) == started.start_time


def test_ready_pod_is_available() -> None:
    """Ready since a time further in the future than minReadySeconds."""
    ready = PodCondition(type="Ready", status="True", last_transition_time=format_time(BEFORE))
    shown = Pod(status=PodStatus(conditions=(ready,)))
    assert is_pod_available(shown, 60, NOW)
    assert next_availability_seconds(shown, 60, NOW) is None
    assert next_availability_seconds(shown, 60, BEFORE - timedelta(seconds=3)) == 63


def test_container_is_probed() -> None:
    """Its initial delay counts from a start in the future."""
    probe = Probe(initial_delay_seconds=5)
    of = pod(containers=[container("c", readiness_probe=probe)])
    probed = ProbedContainer(pod=of, container=of.spec.containers[0], kind=ProbeType.READINESS, probe=probe)
    running = ContainerState(running=ContainerStateRunning(started_at=format_time(BEFORE)))
    status = ContainerStatus(name="c", container_id="sim://1", state=running, started=True)
    step = examine(probed, ProbeRecord(), PodStatus(phase="Running", container_statuses=(status,)), NOW)
    assert step.should_probe


def test_dead_containers_are_collected() -> None:
    dead = [
        protocol.RuntimeContainer(
            id=str(number), name="main", state=protocol.ContainerState.EXITED, created_at=BEFORE + number * timedelta(1)
        )
        for number in (2, 1)
    ]
    seen = protocol.RuntimePod(uid=PodUid("a"), namespace="default", name="a", containers=tuple(dead))
    removals = containers_to_remove(
        [seen], GcPolicy(min_age_seconds=60), NOW, is_gone=lambda _: False, is_exit_reported=lambda _, __: True
    )
    assert [one.container_id for one in removals] == ["1"]


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
async def test_node_stays_healthy(jump: float) -> None:
    """The age of the last relist is measured on the monotonic clock, whichever way the wall clock is set."""
    clock = JumpingClock()
    pleg = PodLifecycleEventGenerator(runtime=SimRuntime(clock=clock), clock=clock)
    ready = asyncio.Event()
    task = asyncio.ensure_future(pleg.run(ready))
    await ready.wait()
    clock.offset_seconds = jump
    assert pleg.health_error() is None
    task.cancel()
    await asyncio.wait({task})
