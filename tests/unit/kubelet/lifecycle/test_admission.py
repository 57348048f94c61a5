"""Pod admission: starting, rejecting and preempting pods."""

import asyncio

import pytest
from msgspec.structs import replace

from pykubelet.api.generated.core import Pod, PodCondition, PodStatus, ResourceRequirements
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.types import PodOperation, PodWorkerState
from pykubelet.testing.build import container, pod
from sync_loop_rig import LoopLab


@pytest.fixture
async def lab() -> LoopLab:
    made = LoopLab()
    made.outside.offer(cpu="2")
    return made


def asking(name: str, cpu: str, priority: int | None = None) -> Pod:
    resources = ResourceRequirements(requests={"cpu": cpu})
    return pod(
        name,
        uid=name,
        containers=[container(resources=resources)],
        priority=priority,
        termination_grace_period_seconds=30,
    )


SMALL, LARGE = asking("small", "500m"), asking("large", "1500m")
CRITICAL = asking("critical", "1", 2_000_000_000)


def synced(lab: LoopLab) -> list[str]:
    return [uid for kind, uid, _ in lab.syncs.calls if kind == "sync"]


async def test_critical_pod_starts_once_its_victim_has_stopped(lab: LoopLab) -> None:
    """Other pods sync meanwhile, and updates of the waiting pod do not start it."""
    async with lab.running():
        release = lab.syncs.hold("terminating", "large")
        lab.send(PodOperation.ADD, SMALL, LARGE)
        await lab.quiet()
        lab.send(PodOperation.ADD, CRITICAL)
        changed = replace(CRITICAL, metadata=replace(CRITICAL.metadata, annotations={"version": "2"}))
        lab.send(PodOperation.UPDATE, changed)
        lab.send(PodOperation.ADD, changed)
        lab.send(PodOperation.UPDATE, SMALL)
        await asyncio.sleep(5)
        assert synced(lab) == ["small", "large", "small"]
        assert [one.what for one in lab.trail.waiting(PodUid("critical"))] == ["end of default/large"]
        assert lab.events.told == ["Warning Preempting Preempted in order to admit critical pod"]
        release.set()
        await lab.quiet()
        assert lab.syncs.calls[-1] == ("sync", "critical", "2")
        assert lab.trail.waiting(PodUid("critical")) == ()


async def test_critical_pod_starts_anyway_when_its_victim_does_not_stop_in_time(lab: LoopLab) -> None:
    """As upstream, the kill continues in the background."""
    async with lab.running():
        lab.syncs.hold("terminating", "large")
        lab.send(PodOperation.ADD, LARGE)
        lab.send(PodOperation.ADD, CRITICAL)
        await asyncio.sleep(45.1)
        assert synced(lab) == ["large", "critical"]
        assert lab.pool.state(PodUid("large")) is PodWorkerState.TERMINATING


async def test_waiting_pod_is_forgotten_when_it_is_removed(lab: LoopLab) -> None:
    """It never had a worker, and its resources are released."""
    async with lab.running():
        release = lab.syncs.hold("terminating", "large")
        lab.send(PodOperation.ADD, LARGE)
        lab.send(PodOperation.ADD, CRITICAL)
        lab.send(PodOperation.REMOVE, CRITICAL)
        await lab.quiet()
        release.set()
        await asyncio.sleep(5)
        assert synced(lab) == ["large"]
        assert PodUid("critical") not in lab.admitter.allocated


async def test_preempted_pod_has_a_failed_status(lab: LoopLab) -> None:
    """The DisruptionTarget condition keeps controllers from counting it as a failure."""
    async with lab.running():
        lab.syncs.hold("terminating", "large")
        lab.send(PodOperation.ADD, LARGE)
        lab.send(PodOperation.ADD, CRITICAL)
        await lab.quiet()
        change = lab.pool._machine.records[PodUid("large")].change_status
        assert change is not None
        old = PodCondition(type="DisruptionTarget", status="False")
        ready = PodCondition(type="Ready", status="True")
        status = change(PodStatus(phase="Running", conditions=(old, ready)))
        assert (status.phase, status.reason) == ("Failed", "Preempting")
        assert status.message == "Preempted in order to admit critical pod"
        kept, condition = status.conditions
        assert kept == ready
        assert (condition.type, condition.status, condition.reason) == (
            "DisruptionTarget",
            "True",
            "TerminationByKubelet",
        )
        assert condition.message == "Pod was preempted by Kubelet to accommodate a critical pod."
        assert condition.observed_generation == LARGE.metadata.generation


async def test_room_is_free_again_when_a_pod_has_stopped_or_is_removed(lab: LoopLab) -> None:
    """Whichever comes first: an edited manifest is admitted while its former pod still runs."""
    async with lab.running():
        lab.send(PodOperation.ADD, LARGE)
        await lab.quiet()
        lab.syncs.hold("terminating", "large")
        lab.send(PodOperation.REMOVE, LARGE)
        lab.send(PodOperation.ADD, asking("next", "2"))
        await lab.quiet()
        assert synced(lab) == ["large", "next"]
        lab.syncs.ended.add("next")
        lab.send(PodOperation.UPDATE, asking("next", "2"))
        await lab.quiet()
        lab.send(PodOperation.ADD, asking("last", "2"))
        await lab.quiet()
        assert synced(lab)[-1] == "last"


async def test_pod_that_has_ended_needs_no_room(lab: LoopLab) -> None:
    """After a restart of the kubelet it is only cleaned up."""
    async with lab.running():
        lab.send(PodOperation.ADD, asking("big", "2"))
        lab.send(PodOperation.ADD, replace(LARGE, status=PodStatus(phase="Succeeded")))
        await lab.quiet()
        assert [kind for kind, uid, _ in lab.syncs.calls if uid == "large"] == ["terminating", "terminated"]


async def test_pod_that_cannot_be_handled_does_not_stop_the_others(lab: LoopLab) -> None:
    """The quantity is invalid and its source did not validate it."""
    async with lab.running():
        lab.send(PodOperation.ADD, asking("broken", "many"), SMALL)
        await lab.quiet()
        assert synced(lab) == ["small"]
        assert lab.trail.entries(PodUid("broken"))[-1].what == "not handled"


async def test_pod_is_rejected_for_pressure_only_once_the_api_shows_that(lab: LoopLab) -> None:
    """Before, the scheduler would send its replacement here too, and the next one; a pod that waits can be deleted."""
    lab.outside.pressures = ("DiskPressure",)
    async with lab.running():
        lab.send(PodOperation.ADD, SMALL, LARGE)
        await asyncio.sleep(30)
        assert (lab.phase(SMALL), lab.events.told, synced(lab)) == ("", [], [])
        assert [one.what for one in lab.trail.waiting(PodUid("small"))] == [
            "the API server to show the node's pressure"
        ]
        gone = replace(LARGE, metadata=replace(LARGE.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
        lab.send(PodOperation.DELETE, gone)
        await asyncio.sleep(1)
        assert [kind for kind, uid, _ in lab.syncs.calls if uid == "large"] == ["terminating", "terminated"]
        lab.outside.show_pressures()
        await asyncio.sleep(1)
        assert (lab.phase(SMALL), lab.phase(LARGE)) == ("Failed", "")
        assert lab.events.told == ["Warning Evicted The node had condition: [DiskPressure]. "]
        assert lab.trail.waiting(PodUid("small")) == ()


async def test_pod_starts_when_the_pressure_ends_before_the_api_shows_it(lab: LoopLab) -> None:
    """It waits with the others that came meanwhile."""
    lab.outside.pressures = ("DiskPressure",)
    async with lab.running():
        lab.send(PodOperation.ADD, SMALL)
        await asyncio.sleep(5)
        assert lab.admission.is_held(PodUid("small"))
        lab.outside.pressures = ()
        await asyncio.sleep(1)
        assert synced(lab) == ["small"]


async def test_restart_under_pressure_ends_no_running_pod(lab: LoopLab) -> None:
    """A new kubelet admits what runs already, and keeps out only what does not."""
    lab.outside.pressures = ("DiskPressure",)
    lab.outside.show_pressures()
    lab.outside.running.add(PodUid("small"))
    async with lab.running():
        lab.send(PodOperation.ADD, SMALL, LARGE)
        await asyncio.sleep(1)
        assert (synced(lab), lab.admission.rejections) == (["small"], {"Evicted": 1})
