"""Which statuses the status manager accepts, and what it keeps."""

import asyncio
import logging
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    PodCondition,
    PodStatus,
)
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.testing.build import container, mirror_pod, pod, static_pod
from pykubelet.testing.virtual_time import VirtualClock

LONG_AGO = "2020-01-01T00:00:00Z"
READY = PodCondition(type="Ready", status="True", last_transition_time=LONG_AGO)


async def test_restart_moves_no_transition_time_when_nothing_turned(world: Any) -> None:
    """Departure: the first status after a restart continues the API's status, and sends nothing if they are equal."""
    shown = PodStatus(phase="Running", conditions=(READY,), start_time=LONG_AGO)
    known = world.add(pod(status=shown))
    world.manager.set_pod_status(
        known, PodStatus(phase="Running", conditions=(replace(READY, last_transition_time=None),))
    )
    assert world.manager.pod_status(known.metadata.uid) == shown
    assert await world.manager.sync_batch(all=False) == 1
    assert world.calls() == []


async def test_restart_continues_the_mirrors_status_of_a_static_pod(world: Any) -> None:
    """It keeps the mirror's conditions and start time."""
    static = static_pod()
    world.pods.add_pod(static)
    world.add(mirror_pod(status=PodStatus(conditions=(READY,), start_time=LONG_AGO)))
    world.manager.set_pod_status(static, PodStatus(conditions=(PodCondition(type="Ready", status="True"),)))
    status = world.manager.pod_status(static.metadata.uid)
    assert (status.conditions, status.start_time) == ((READY,), LONG_AGO)


async def test_mirror_of_another_version_is_ignored_by_its_static_pod(world: Any) -> None:
    """An edited manifest is a new pod: it inherits neither the phase nor the times of the former."""
    static = static_pod(content_hash="hash-2")
    world.pods.add_pod(static)
    world.add(mirror_pod(content_hash="hash-1", status=PodStatus(phase="Succeeded", start_time=LONG_AGO)))
    assert world.manager.shown_status(static) == static.status
    world.manager.set_pod_status(static, PodStatus(phase="Running"))
    status = world.manager.pod_status(static.metadata.uid)
    assert (status.phase, status.start_time != LONG_AGO) == ("Running", True)


@pytest.mark.parametrize("known", [pod(), static_pod()], ids=["api", "static"])
@pytest.mark.parametrize("phase", ["Running", "Succeeded", ""])
async def test_terminal_phase_never_leaves_when_another_is_set(world: Any, known: Any, phase: str) -> None:
    """Departure: a terminal phase is a latch; reason and message stay with it, and the refusal is reported."""
    world.manager.set_pod_status(known, PodStatus(phase="Failed", reason="Evicted", message="low on memory"))
    world.manager.set_pod_status(known, PodStatus(phase=phase, host_ip="10.0.0.1"))
    status = world.manager.pod_status(known.metadata.uid)
    assert (status.phase, status.reason, status.message) == ("Failed", "Evicted", "low on memory")
    assert status.host_ip == "10.0.0.1"
    assert world.refused == [f"terminal phase Failed attempted illegal transition to {phase or 'none'}"]


async def test_terminal_phase_in_the_api_never_leaves_when_the_cache_was_lost(world: Any) -> None:
    """Departure: a pod that another client marked as failed does not run again."""
    known = world.add()
    world.store(replace(known, status=PodStatus(phase="Failed", reason="NodeLost")))
    world.manager.set_pod_status(known, PodStatus(phase="Running"))
    world.watch()
    await world.manager.sync_batch(all=True)
    assert (world.live("web")["phase"], world.live("web")["reason"]) == ("Failed", "NodeLost")


async def test_illegal_transition_is_reported_when_a_dead_container_lives(world: Any) -> None:
    """The observer is notified of the refused status."""
    known = pod(restart_policy="Never")
    ended = ContainerStatus(name="main", state=ContainerState(terminated=ContainerStateTerminated()))
    world.manager.set_pod_status(known, PodStatus(container_statuses=(ended,)))
    alive = replace(ended, state=ContainerState(running=ContainerStateRunning()))
    world.manager.set_pod_status(known, PodStatus(container_statuses=(alive,)))
    assert world.refused == ["terminated container main attempted illegal transition to non-terminated state"]


async def test_static_pod_may_come_back_when_it_was_finished(world: Any) -> None:
    """A restored manifest has the same UID, so a static pod is not finished for ever."""
    for known, expected in ((static_pod(), False), (pod(), True)):
        world.manager.terminate_pod(known)
        world.manager.set_pod_status(known, PodStatus(message="again"))
        assert world.manager._cache.get(known.metadata.uid).finished is expected


async def test_container_change_is_ignored_when_something_is_unknown(world: Any) -> None:
    """An unknown pod, a missing status and an unknown container change nothing."""
    uid = PodUid("uid-default-web")
    world.manager.set_container_startup(uid, "test://main", started=True)
    known = world.add()
    world.manager.set_container_startup(uid, "test://main", started=True)
    assert world.manager.pod_status(uid) is None
    world.manager.set_pod_status(known, PodStatus())
    world.manager.set_container_readiness(uid, "test://main", ready=True)
    assert world.manager.pod_status(uid).conditions == ()


async def test_init_container_is_found_when_its_readiness_changes(world: Any) -> None:
    """Regular containers are searched first, then init containers."""
    known = world.add(pod(init_containers=(container("side"),)))
    sidecar = ContainerStatus(name="side", container_id="test://side")
    world.manager.set_pod_status(known, PodStatus(init_container_statuses=(sidecar,)))
    world.manager.set_container_readiness(PodUid(known.metadata.uid), "test://side", ready=True)
    assert world.manager.pod_status(known.metadata.uid).init_container_statuses == (replace(sidecar, ready=True),)


async def test_everything_about_a_pod_is_forgotten_when_it_is_orphaned(world: Any) -> None:
    """Status, resize conditions and pending sends are dropped at once, and the observer is notified."""
    known = world.add()
    uid = PodUid(known.metadata.uid)
    world.manager.set_pod_status(known, PodStatus(message="one"))
    world.manager.resize.set_pending(uid, reason="Deferred", message="", generation=1)
    world.manager.remove_orphaned_statuses(())
    assert (world.manager.pod_status(uid), world.manager.resize.of(uid), world.forgotten) == (None, (), [uid])
    assert await world.manager.sync_batch(all=False) == 0


async def test_manager_keeps_statuses_and_sends_nothing_without_a_client(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A standalone kubelet keeps statuses; that they are not sent is logged once."""
    manager = StatusManager(client=None, pods=PodManager(), safety=world, clock=VirtualClock())
    ready = asyncio.Event()
    with caplog.at_level(logging.INFO):
        await manager.run(ready)
    assert ready.is_set()
    assert [record.getMessage() for record in caplog.records] == ["no API server: statuses are not sent"]
    known = pod()
    manager.set_pod_status(known, PodStatus(message="one"))
    manager.reconcile_pod(PodUid(known.metadata.uid))
    assert await manager.sync_batch(all=True) == 0
    manager.remove_orphaned_statuses(())
    assert manager.pod_status(known.metadata.uid) is None


def _exited(*ids: str) -> PodStatus:
    """The status of a container whose newest instance and the one before it have exited, the newest first."""
    ends = [ContainerState(terminated=ContainerStateTerminated(container_id=f"containerd://{one}")) for one in ids]
    return PodStatus(
        phase="Running",
        container_statuses=(ContainerStatus(name="main", state=ends[0], last_state=(*ends, ContainerState())[1]),),
    )


async def test_exit_is_reported_once_the_api_shows_it(world: Any) -> None:
    """An unsent newer status does not change that; before the first status after a start, nothing is reported."""
    known, manager = world.add(), world.manager
    uid = PodUid(known.metadata.uid)
    assert not manager.is_exit_reported(uid, "a")
    manager.set_pod_status(known, _exited("a"))
    assert not manager.is_exit_reported(uid, "a")
    await manager.sync_batch(all=False)
    assert manager.is_exit_reported(uid, "a")
    manager.set_pod_status(known, _exited("b", "a"))
    assert [manager.is_exit_reported(uid, one) for one in "ba"] == [False, True]
    await manager.sync_batch(all=False)
    assert manager.is_exit_reported(uid, "b")
