"""Cases 6.24-06 to -16: pod workers.

Departure: a static pod that waits for its name is not retried every ten seconds; it is woken when the name is free.
"""

import asyncio

import pytest
from msgspec.structs import replace

from pod_workers_rig import WorkerLab, api_pod, deleted, file_pod, in_runtime
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.pod_workers.state import PodStateMachine, PodSyncStatus, effective_grace
from pykubelet.kubelet.types import KillPodOptions, PodWorkerState, SyncPodType, UpdatePodOptions

UID = PodUid("uid")


@pytest.fixture
def lab() -> WorkerLab:
    return WorkerLab()


def record(lab: WorkerLab, uid: str = UID) -> PodSyncStatus:
    return lab.machine.records[PodUid(uid)]


@pytest.mark.case("6.24-06 a new pod")
async def test_new_pod_is_recorded_and_started(lab: WorkerLab) -> None:
    async with lab.running():
        lab.update(api_pod(), SyncPodType.CREATE)
        await lab.quiet()
        assert record(lab).state is PodWorkerState.SYNC
        assert record(lab).is_started
        assert record(lab).active == UpdatePodOptions(SyncPodType.CREATE, api_pod())
        assert record(lab).pending is None


@pytest.mark.case("6.24-07 create for a UID that is terminating")
async def test_create_of_a_terminating_pod_requests_a_restart(lab: WorkerLab) -> None:
    async with lab.running():
        release = lab.syncs.hold("terminating", UID)
        lab.update(api_pod(), SyncPodType.CREATE)
        lab.kill(api_pod())
        await lab.quiet()
        lab.update(api_pod(), SyncPodType.CREATE)
        release.set()
        await lab.quiet()
        assert (record(lab).state, record(lab).restart_requested) == (PodWorkerState.FINISHED, True)
        assert record(lab).grace_seconds == 30


@pytest.mark.case("6.24-08 config pod and runtime pod together")
async def test_runtime_pod_is_ignored_when_the_pod_is_known(lab: WorkerLab) -> None:
    async with lab.running():
        lab.pool.update(UpdatePodOptions(SyncPodType.UPDATE, api_pod(), running=in_runtime(UID)))
        await lab.quiet()
        assert record(lab).active == UpdatePodOptions(SyncPodType.UPDATE, api_pod())
        assert not record(lab).observed


@pytest.mark.case("6.24-09 deletion with 15 s of grace")
async def test_deleted_pod_goes_through_all_states(lab: WorkerLab) -> None:
    async with lab.running():
        lab.update(deleted(api_pod(), 15))
        await lab.quiet()
        assert [kind for kind, *_ in lab.syncs.calls] == ["terminating", "terminated"]
        assert (record(lab).state, record(lab).deleted, record(lab).grace_seconds) == (
            PodWorkerState.FINISHED,
            True,
            15,
        )


@pytest.mark.case("6.24-10 eviction")
async def test_evicted_pod_is_flagged_and_gets_its_grace(lab: WorkerLab) -> None:
    async with lab.running():
        lab.update(api_pod())
        await lab.quiet()
        lab.kill(api_pod(), evict=True)
        await lab.quiet()
        assert ("terminating", UID, 30) in lab.syncs.calls
        assert (record(lab).evicted, record(lab).deleted) == (True, False)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("is_seen", [False, True], ids=["runtime unknown", "runtime known and quiet"])
@pytest.mark.case("6.24-11 a terminal phase from the start")
async def test_ended_pod_is_cleared_up_but_never_started(lab: WorkerLab, phase: str, is_seen: bool) -> None:
    if is_seen:
        lab.see(UID, in_runtime(UID, is_running=False))
    async with lab.running():
        lab.update(api_pod(phase=phase), SyncPodType.CREATE)
        assert record(lab).is_terminated == is_seen
        await lab.quiet()
        assert [kind for kind, *_ in lab.syncs.calls] == ["terminating", "terminated"][is_seen:]
        assert (record(lab).finished, record(lab).restart_requested) == (True, False)


@pytest.mark.case("6.24-11 a terminal phase, containers still running")
async def test_ended_pod_is_stopped_when_its_containers_run(lab: WorkerLab) -> None:
    lab.see(UID, in_runtime(UID))
    async with lab.running():
        lab.update(api_pod(phase="Failed"), SyncPodType.CREATE)
        await lab.quiet()
        assert [kind for kind, *_ in lab.syncs.calls] == ["terminating", "terminated"]


@pytest.mark.case("6.24-12 an orphan in the runtime is killed and forgotten")
async def test_runtime_pod_is_killed_and_forgotten(lab: WorkerLab) -> None:
    async with lab.running():
        release = lab.syncs.hold("runtime", UID)
        lab.pool.update(
            UpdatePodOptions(SyncPodType.KILL, running=in_runtime(UID), kill=KillPodOptions(grace_seconds=1))
        )
        await lab.quiet()
        assert (record(lab).state, record(lab).deleted) == (PodWorkerState.TERMINATING, True)
        assert record(lab).grace_seconds == 1
        release.set()
        await lab.quiet()
        assert lab.machine.records == {}


@pytest.mark.parametrize("type", [SyncPodType.SYNC, SyncPodType.UPDATE, SyncPodType.CREATE])
@pytest.mark.case("6.24-12 an orphan in the runtime can only be killed")
async def test_runtime_pod_is_ignored_when_not_killed(lab: WorkerLab, type: SyncPodType) -> None:
    async with lab.running():
        lab.pool.update(UpdatePodOptions(type, running=in_runtime(UID)))
        await lab.quiet()
        assert (lab.machine.records, lab.syncs.calls) == ({}, [])


@pytest.mark.parametrize(
    ("deletion", "override", "grace"),
    [(None, None, 30), (5, None, 5), (5, 2, 2), (0, None, 1), (5, 0, 1)],
)
@pytest.mark.case("6.24-13 effective grace")
def test_effective_grace(deletion: int | None, override: int | None, grace: int) -> None:
    known = api_pod() if deletion is None else deleted(api_pod(), deletion)
    kill = None if override is None else KillPodOptions(grace_seconds=override)
    assert effective_grace(0, known, kill) == grace


def synced(lab: WorkerLab) -> list[str]:
    return list(dict.fromkeys(uid for kind, uid, _ in lab.syncs.calls if kind == "sync"))


@pytest.mark.case("6.24-14 static pods of one name: wait in order")
async def test_static_pods_of_one_name_take_turns(lab: WorkerLab) -> None:
    async with lab.running():
        lab.update(api_pod("1", name="web-node-1"))
        for uid in "2", "3", "4":
            lab.update(file_pod(uid))
            await lab.quiet()
        assert synced(lab) == ["1", "2"]
        for uid in "3", "4":
            assert (record(lab, uid).is_started, record(lab, uid).pending) == (
                False,
                UpdatePodOptions(SyncPodType.UPDATE, file_pod(uid)),
            )
        lab.kill(file_pod("3"))
        await lab.quiet()
        assert record(lab, "3").finished
        assert record(lab, "2").state is PodWorkerState.SYNC
        assert ("terminating", "3", 30) not in lab.syncs.calls
        lab.kill(file_pod("2"))
        await lab.quiet()
        assert synced(lab) == ["1", "2", "4"]


@pytest.mark.case("6.24-14 static pods of one name: a stalled one ends, the next starts")
async def test_killed_static_pod_is_skipped_when_its_worker_never_ran(lab: WorkerLab) -> None:
    async with lab.running():
        lab.update(file_pod("4"))
        await lab.quiet()
        lab.update(file_pod("5"))
        lab.update(file_pod("6"))
        # The worker of 5 has not run between its update and its kill.
        lab.kill(file_pod("5"))
        await lab.quiet()
        assert (record(lab, "5").finished, synced(lab)) == (True, ["4"])
        lab.kill(file_pod("4"))
        await lab.quiet()
        assert synced(lab) == ["4", "6"]


@pytest.mark.case("6.24-14 static pods of one name: an event starts nobody out of turn")
async def test_static_pod_is_not_started_out_of_turn_when_it_changes(lab: WorkerLab) -> None:
    async with lab.running():
        lab.update(file_pod("6"))
        await lab.quiet()
        release = lab.syncs.hold("terminating", "6")
        for uid in "7", "8", "9":
            lab.update(file_pod(uid))
        lab.kill(file_pod("6"))
        lab.update(file_pod("8"), SyncPodType.SYNC)
        await lab.quiet()
        assert synced(lab) == ["6"]
        lab.kill(file_pod("7"))
        release.set()
        await lab.quiet()
        assert synced(lab) == ["6", "8"]


@pytest.mark.case("6.24-15 SyncKnownPods")
async def test_known_pods_are_kept_forgotten_or_ended(lab: WorkerLab) -> None:
    async with lab.running():
        for uid in "kept", "gone", "running":
            lab.update(api_pod(uid))
        await lab.quiet()
        lab.kill(api_pod("kept"))
        lab.kill(api_pod("gone"))
        await lab.quiet()
        release = lab.syncs.hold("terminating", "running")
        states = lab.pool.sync_known_pods({PodUid("kept")})
        assert states == {"kept": PodWorkerState.FINISHED, "running": PodWorkerState.TERMINATING}
        release.set()
        await lab.quiet()
        assert lab.pool.sync_known_pods({PodUid("kept")}) == {"kept": PodWorkerState.FINISHED}
        assert lab.pool.sync_known_pods(()) == {}


WORK = UpdatePodOptions(SyncPodType.UPDATE, api_pod())
NEWER = UpdatePodOptions(SyncPodType.SYNC, api_pod(annotations={"version": "2"}))
WAITING = PodSyncStatus(full_name="web_default", pending=WORK)
STARTED = PodSyncStatus(full_name="web_default", started_at=1, active=WORK)
TERMINATING = replace(STARTED, terminating_at=2, grace_seconds=5)
TERMINATED = replace(TERMINATING, terminated_at=3)
FINISHED = replace(TERMINATED, finished=True)


@pytest.mark.parametrize(
    ("before", "is_desired", "after"),
    [
        pytest.param(FINISHED, False, None, id="finished: removed"),
        pytest.param(replace(FINISHED, restart_requested=True), True, None, id="finished, wanted anew: removed"),
        pytest.param(FINISHED, True, FINISHED, id="finished and desired: kept"),
        pytest.param(WAITING, True, WAITING, id="waiting and desired: kept"),
        pytest.param(WAITING, False, None, id="orphan never started: removed"),
        pytest.param(
            STARTED,
            False,
            replace(STARTED, deleted=True, terminating_at=9.0, grace_seconds=30, pending=WORK),
            id="orphan started: terminating",
        ),
        pytest.param(
            TERMINATING, False, replace(TERMINATING, deleted=True, pending=WORK), id="orphan terminating: replayed"
        ),
        pytest.param(
            TERMINATED, False, replace(TERMINATED, deleted=True, pending=WORK), id="orphan terminated: replayed"
        ),
        pytest.param(
            replace(TERMINATING, pending=NEWER),
            False,
            replace(TERMINATING, pending=NEWER, deleted=True),
            id="orphan with newer work: that one kept",
        ),
    ],
)
@pytest.mark.case("6.24-16 worker removal")
def test_worker_removal(before: PodSyncStatus, is_desired: bool, after: PodSyncStatus | None) -> None:
    machine = PodStateMachine()
    machine.records[UID] = before
    machine.sync_known({UID} if is_desired else (), now=9.0)
    assert machine.records.get(UID) == after


@pytest.mark.case("6.24-16 (src) one stuck pod delays nobody")
async def test_stuck_pod_does_not_delay_another(lab: WorkerLab) -> None:
    async with lab.running():
        lab.syncs.hold("sync", "stuck")
        lab.update(api_pod("stuck"))
        lab.update(api_pod("other"))
        await lab.quiet()
        assert synced(lab) == ["stuck", "other"]
        lab.kill(api_pod("other"))
        async with asyncio.timeout(1):
            await lab.pool.until_stopped(PodUid("other"))
        assert record(lab, "stuck").state is PodWorkerState.SYNC
