"""One task per pod: the newest work wins, termination interrupts, failures retry, and pods do not block each other."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pod_workers_rig import SyncFailed, WorkerLab, api_pod, deleted, file_pod, in_runtime
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.pod_workers.pod_workers import (
    EXCEEDED_GRACE_PERIOD,
    KillTimedOut,
    PodWorkerQueries,
    kill_timeout_seconds,
)
from pykubelet.kubelet.pod_workers.state import PodStateMachine, WorkerDecision
from pykubelet.kubelet.types import KillPodOptions, PodWorkerState, SyncPodType, UpdatePodOptions
from pykubelet.runtimes.protocol import RuntimeFailure
from pykubelet.testing.virtual_time import EPOCH

UID = PodUid("uid")


@pytest.fixture
def lab() -> WorkerLab:
    return WorkerLab()


def version(number: int) -> dict[str, Any]:
    return {"annotations": {"version": str(number)}}


async def test_newest_work_wins_when_a_sync_is_under_way(lab: WorkerLab) -> None:
    """Updates between two syncs are skipped."""
    async with lab.running():
        release = lab.syncs.hold("sync", UID)
        lab.update(api_pod(**version(1)))
        await lab.quiet()
        for number in 2, 3, 4:
            lab.update(api_pod(**version(number)))
        release.set()
        await lab.quiet()
        assert lab.syncs.calls == [("sync", UID, "1"), ("sync", UID, "4")]


async def test_sync_is_interrupted_when_the_pod_is_to_end(lab: WorkerLab) -> None:
    """A pod whose sync is blocked is stopped at once."""
    async with lab.running():
        lab.syncs.hold("sync", UID)
        lab.update(api_pod())
        await lab.quiet()
        lab.update(deleted(api_pod(), 5))
        await lab.quiet()
        assert lab.syncs.interrupted == [("sync", UID)]
        assert lab.syncs.calls == [("sync", UID, None), ("terminating", UID, 5), ("terminated", UID, None)]


async def test_stopping_is_interrupted_when_the_grace_shrinks(lab: WorkerLab) -> None:
    """A second, shorter grace period takes effect at once; a longer one is ignored."""
    async with lab.running():
        lab.syncs.hold("terminating", UID)
        lab.update(api_pod())
        await lab.quiet()
        lab.update(deleted(api_pod(), 30))
        await lab.quiet()
        lab.kill(api_pod(), grace_seconds=60)
        await lab.quiet()
        assert lab.syncs.interrupted == []
        lab.update(deleted(api_pod(), 0))
        await lab.quiet()
        assert lab.syncs.interrupted == [("terminating", UID)]
        assert lab.syncs.calls[-1] == ("terminating", UID, 1)


async def test_interrupts_in_a_row_are_one(lab: WorkerLab) -> None:
    """Several shorter kills arrive before the sync has noticed the first one."""
    async with lab.running():
        lab.syncs.hold("sync", UID)
        lab.syncs.hold("terminating", UID)
        lab.update(api_pod())
        await lab.quiet()
        for grace in 20, 10, 5:
            lab.kill(api_pod(), grace_seconds=grace)
            await asyncio.sleep(0)
        await lab.quiet()
        assert lab.syncs.interrupted[0] == ("sync", UID)
        assert lab.syncs.calls[-1] == ("terminating", UID, 5)


async def test_next_sync_uses_a_newer_pod_status_than_the_last(lab: WorkerLab) -> None:
    """A status that was read before or during a sync is not used for the next one."""
    async with lab.running():
        lab.update(api_pod())
        await lab.quiet()
        during = lab.cache.moment()
        lab.update(api_pod())
        await lab.quiet()
        assert lab.looked_after == [0, during]


@pytest.mark.parametrize(
    ("error", "least", "most"),
    [
        pytest.param(SyncFailed("volume missing"), 10, 15, id="failure"),
        pytest.param(ValueError("a bug"), 10, 15, id="bug"),
        pytest.param(RuntimeFailure("it says no"), 10, 15, id="runtime"),
        pytest.param(RuntimeFailure("nobody answers", retry_at=EPOCH), 1, 1.5, id="runtime that is soon back"),
        pytest.param(SyncFailed("network is not ready: x", is_transient=True), 1, 1.5, id="transient"),
        pytest.param(SyncFailed("back-off 40s", retry_in_seconds=40), 40, 40.01, id="known to pass at a time"),
        pytest.param(SyncFailed("back-off over", retry_in_seconds=-3), 0.1, 0.1, id="has passed"),
    ],
)
async def test_failed_sync_is_tried_again(lab: WorkerLab, error: Exception, least: float, most: float) -> None:
    """The delay is upstream's or that of the error; the trail records the cause."""
    async with lab.running():
        lab.desired[UID] = api_pod(**version(2))
        lab.syncs.failing["sync", UID] = error
        lab.update(api_pod(**version(1)))
        await asyncio.sleep(0)
        while len(lab.syncs.calls) < 2:
            await asyncio.sleep(0.001)
        assert least <= lab.clock.monotonic() <= most + 0.01
        assert lab.syncs.calls[1] == ("sync", UID, "2")
        assert dict(lab.trail.entries(UID)[-1].facts)["why"] == str(error)


async def test_pod_is_synced_again_after_a_minute_or_so(lab: WorkerLab) -> None:
    """It uses the pod as its source shows it then."""
    async with lab.running():
        lab.desired[UID] = api_pod(**version(2))
        lab.update(api_pod(**version(1)))
        await asyncio.sleep(59)
        assert len(lab.syncs.calls) == 1
        await asyncio.sleep(31.5)
        assert lab.syncs.calls == [("sync", UID, "1"), ("sync", UID, "2")]


async def test_orphan_is_stopped_until_that_succeeds(lab: WorkerLab) -> None:
    """The pod has no source any more; its worker retries with the last known pod."""
    async with lab.running():
        lab.update(api_pod())
        await lab.quiet()
        lab.syncs.failing["terminating", UID] = SyncFailed("container does not stop")
        lab.pool.sync_known_pods(())
        await asyncio.sleep(16)
        assert lab.syncs.calls[1:] == [("terminating", UID, 30)] * 2
        del lab.syncs.failing["terminating", UID]
        await asyncio.sleep(16)
        assert (lab.stopped, lab.ended) == ([UID], [UID])


async def test_pod_status_that_cannot_be_read_emits_an_event(lab: WorkerLab) -> None:
    """The event is upstream's, and no sync runs without a status."""
    lab.runtime[UID] = RuntimeFailure("runtime says no")
    async with lab.running():
        lab.update(api_pod())
        await lab.quiet()
        assert lab.events.told == ["Warning FailedSync error determining status: runtime says no"]
        assert lab.syncs.calls == []


async def test_pod_is_inspected_again_soon_when_the_runtime_is_back_soon(lab: WorkerLab) -> None:
    """The retry takes about one second, not ten."""
    lab.desired[UID] = api_pod()
    lab.runtime[UID] = RuntimeFailure("nobody answers", retry_at=EPOCH)
    async with lab.running():
        lab.update(api_pod())
        await lab.quiet()
        assert lab.syncs.calls == []
        lab.runtime[UID] = in_runtime(UID)
        await asyncio.sleep(1.6)
        assert lab.syncs.calls == [("sync", UID, None)]


async def test_pod_that_ended_by_itself_is_stopped_and_cleared_up_at_once(lab: WorkerLab) -> None:
    """SyncPod reports a terminal phase, and no further event is needed."""
    lab.syncs.ended.add(UID)
    async with lab.running():
        lab.update(api_pod())
        await lab.quiet()
        assert [kind for kind, *_ in lab.syncs.calls] == ["sync", "terminating", "terminated"]
        assert lab.pool.state(UID) is PodWorkerState.FINISHED
        assert [entry.what for entry in lab.trail.entries(UID)] == ["sync", "terminating", "terminated", "finished"]


async def test_cancelling_the_pool_leaves_pods_alone(lab: WorkerLab) -> None:
    """A kubelet that stops leaves its pods running, and syncs them after a restart."""
    async with lab.running():
        lab.update(api_pod())
        await lab.quiet()
    assert lab.syncs.calls == [("sync", UID, None)]
    lab.update(api_pod(**version(2)))
    async with lab.running():
        await lab.quiet()
    assert lab.syncs.calls[1:] == [("sync", UID, "2")]


async def test_static_pod_that_waits_names_the_pod_it_waits_for(lab: WorkerLab) -> None:
    """The trail shows the static pod that must end first."""
    async with lab.running():
        lab.update(file_pod("one"))
        lab.update(file_pod("two"))
        await lab.quiet()
        (waiting,) = lab.trail.waiting(PodUid("two"))
        assert waiting.what == "static pod one of the same name ends"
        lab.kill(file_pod("one"))
        await lab.quiet()
        assert lab.trail.waiting(PodUid("two")) == ()


async def test_pod_is_forgotten_and_started_anew_when_its_uid_is_used_again(lab: WorkerLab) -> None:
    """The second pod starts after the first has ended."""
    async with lab.running():
        lab.desired[UID] = api_pod()
        lab.update(api_pod(), SyncPodType.CREATE)
        await lab.quiet()
        lab.kill(api_pod())
        lab.update(api_pod(), SyncPodType.CREATE)
        await lab.quiet()
        assert lab.pool.settle(UID) is False
        lab.update(api_pod(), SyncPodType.CREATE)
        await lab.quiet()
        assert lab.syncs.calls[-1] == ("sync", UID, None)
        assert lab.pool.state(UID) is PodWorkerState.SYNC


async def test_worker_goes_on_when_its_own_code_crashed(lab: WorkerLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug outside a sync does not end the worker."""
    real, crashes = lab.machine.complete, ["once"]

    def crashing(*args: Any, **rest: Any) -> WorkerDecision:
        if crashes:
            raise RuntimeError(crashes.pop())
        return real(*args, **rest)

    monkeypatch.setattr(lab.machine, "complete", crashing)
    async with lab.running():
        lab.desired[UID] = api_pod()
        lab.update(deleted(api_pod(), 1))
        await asyncio.sleep(20)
        assert lab.ended == [UID]


@pytest.mark.parametrize(
    ("grace", "override", "limit"),
    [(30, None, 45), (30, 4, 10), (0, None, 10), (7, 21, 31)],
)
async def test_kill_waits_as_long_as_the_grace_allows(
    lab: WorkerLab, grace: int, override: int | None, limit: float
) -> None:
    """It waits one and a half times the grace period, at least ten seconds; then an event is emitted."""
    known, kill = api_pod(grace=grace), KillPodOptions(evict=True, grace_seconds=override)
    assert kill_timeout_seconds(known, kill) == limit
    async with lab.running():
        lab.syncs.hold("terminating", UID)
        with pytest.raises(KillTimedOut, match="timeout waiting to kill pod"):
            await lab.pool.kill_now(known, kill)
        assert lab.clock.monotonic() == pytest.approx(limit)
        message = "Container runtime did not kill the pod within specified grace period."
        assert lab.events.told == [f"Warning {EXCEEDED_GRACE_PERIOD} {message}"]


async def test_kill_returns_when_the_pod_has_stopped(lab: WorkerLab) -> None:
    """It does not wait for the cleanup, nor for a pod that has already stopped."""
    async with lab.running():
        lab.syncs.hold("terminated", UID)
        lab.update(api_pod())
        await lab.pool.kill_now(api_pod(), KillPodOptions(evict=True))
        assert lab.pool.state(UID) is PodWorkerState.TERMINATED
        await lab.pool.kill_now(api_pod(), KillPodOptions(evict=True))
        assert (lab.clock.monotonic(), lab.events.told) == (0, [])


QUERIES: dict[str, Callable[[PodWorkerQueries], bool]] = {
    "known terminated": lambda ask: ask.is_known_terminated(UID),
    "could have running containers": lambda ask: ask.could_have_running_containers(UID),
    "termination requested": lambda ask: ask.is_termination_requested(UID),
    "containers should be terminating": lambda ask: ask.should_containers_be_terminating(UID),
    "runtime should be removed": lambda ask: ask.should_pod_runtime_be_removed(UID),
    "content should be removed": lambda ask: ask.should_pod_content_be_removed(UID),
    "should be finished": lambda ask: ask.should_be_finished(UID),
}
# Unknown before and after the first sync of known pods, then sync, terminating, the same once the worker has begun it,
# terminated, finished.
ANSWERS = {
    "known terminated": [False, False, False, False, False, True, True],
    "could have running containers": [True, False, True, True, True, False, False],
    "termination requested": [False, False, False, True, True, True, True],
    "containers should be terminating": [False, True, False, False, True, True, True],
    "runtime should be removed": [False, True, False, False, False, True, True],
    "content should be removed": [False, True, False, False, False, True, True],
    "should be finished": [False, True, False, False, False, False, True],
}


@pytest.mark.parametrize("query", QUERIES)
def test_queries_answer_by_the_state(query: str) -> None:
    """Each query in each state of the worker."""
    machine = PodStateMachine()
    ask, answers = QUERIES[query], []

    def note() -> None:
        answers.append(ask(PodWorkerQueries(machine)))

    note()
    machine.sync_known((), 0)
    note()
    machine.update(UpdatePodOptions(SyncPodType.CREATE, api_pod()), 1)
    machine.begin(UID, 1)
    note()
    machine.update(UpdatePodOptions(SyncPodType.UPDATE, deleted(api_pod(), 5)), 2)
    note()
    for _ in range(2):
        job = machine.begin(UID, 3)
        if len(answers) == 4:
            note()
        assert job is not None
        machine.complete(job, 4)
        note()
    assert answers == ANSWERS[query]


def test_evicted_content_goes_before_the_pod_has_stopped() -> None:
    """Its space is what the node is short of."""
    machine = PodStateMachine()
    machine.update(UpdatePodOptions(SyncPodType.KILL, api_pod(), kill=KillPodOptions(evict=True)), 1)
    assert PodWorkerQueries(machine).should_pod_content_be_removed(UID)


def test_mirror_outlives_the_static_pod_that_is_being_stopped() -> None:
    """It is released when termination is complete."""
    machine = PodStateMachine()
    ask = PodWorkerQueries(machine)
    name = "web-node-1_default"
    machine.update(UpdatePodOptions(SyncPodType.CREATE, file_pod("one")), 1)
    machine.begin(PodUid("one"), 1)
    assert not ask.is_static_pod_terminating(name)
    machine.update(UpdatePodOptions(SyncPodType.KILL, file_pod("one")), 2)
    assert ask.is_static_pod_terminating(name)
    job = machine.begin(PodUid("one"), 3)
    assert job is not None
    machine.complete(job, 4)
    assert not ask.is_static_pod_terminating(name)


def test_work_without_a_pod_is_a_mistake() -> None:
    """It could not be assigned to a pod."""
    with pytest.raises(ValueError, match="work needs a pod"):
        PodStateMachine().update(UpdatePodOptions(SyncPodType.KILL), 1)


def test_containers_of_a_waiting_static_pod_are_stopped_when_the_runtime_has_some() -> None:
    """Containers of an earlier run are stopped although the pod itself was never started."""
    machine = PodStateMachine()
    machine.update(UpdatePodOptions(SyncPodType.CREATE, file_pod("one")), 1)
    machine.begin(PodUid("one"), 1)
    machine.update(UpdatePodOptions(SyncPodType.CREATE, file_pod("two")), 2)
    machine.update(
        UpdatePodOptions(SyncPodType.KILL, running=in_runtime("two"), kill=KillPodOptions(grace_seconds=1)), 3
    )
    job = machine.begin(PodUid("two"), 4)
    assert job is not None
    assert (job.state, job.grace_seconds, job.work.pod) == (PodWorkerState.TERMINATING, 1, file_pod("two"))


def test_late_results_of_a_forgotten_pod_are_ignored() -> None:
    """They change nothing and start nothing."""
    machine = PodStateMachine()
    machine.update(UpdatePodOptions(SyncPodType.CREATE, api_pod()), 1)
    job = machine.begin(UID, 1)
    assert job is not None
    del machine.records[UID]
    assert (
        machine.complete(job, 2) == machine.replay(UID) == machine.settle(UID, 2, is_desired=False) == WorkerDecision()
    )
    assert machine.begin(UID, 2) is None


def test_pod_that_ended_by_itself_keeps_the_grace_it_was_given_meanwhile() -> None:
    """It was deleted while the sync that found it terminal was running."""
    machine = PodStateMachine()
    machine.update(UpdatePodOptions(SyncPodType.CREATE, api_pod()), 1)
    job = machine.begin(UID, 1)
    assert job is not None
    machine.update(UpdatePodOptions(SyncPodType.UPDATE, deleted(api_pod(), 3)), 2)
    machine.complete(job, 3, is_terminal=True)
    record = machine.records[UID]
    assert (record.grace_seconds, record.terminating_at, record.acknowledged) == (3, 2, True)


async def test_pod_that_could_not_be_seen_is_stopped_before_it_is_cleared_up(lab: WorkerLab) -> None:
    """That no container runs must be known, not assumed."""
    lab.see(UID, RuntimeFailure("no answer"))
    async with lab.running():
        lab.update(api_pod(phase="Failed"))
        await lab.quiet()
        assert [kind for kind, *_ in lab.syncs.calls] == ["terminating", "terminated"]
