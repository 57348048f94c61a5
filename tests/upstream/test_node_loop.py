"""Cases 6.24-01 to -05 and the tables of 6.3, 6.4 and 6.8: the kubelet's sync loop and its handlers.

Departures: a worker requeues its own pod, so there is no tick every second; housekeeping runs while something
may be left to do; a ready source's removals do not wait for other sources.
"""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

import whole_node
from pod_sync_rig import World
from pod_workers_rig import api_pod, deleted, file_pod, in_runtime
from pykubelet.api.generated.core import ContainerPort, ContainerStatus, Pod, PodStatus
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.pleg.pleg import CachedStatus, PodLifecycleChanges, PodLifecycleEvent, PodLifecycleEventType
from pykubelet.kubelet.pod_workers.sync import SyncFailed
from pykubelet.kubelet.types import (
    PodOperation,
    PodSource,
    PodWorkerState,
    ProbeOutcome,
    ProbeResult,
    ProbeType,
    SyncPodType,
    UpdatePodOptions,
)
from pykubelet.runtimes.protocol import RuntimeFailure
from pykubelet.runtimes.sim.runtime import ImageBehaviour
from pykubelet.testing.build import container, mirror_pod, pod, static_pod
from sync_loop_rig import LoopLab

UID = PodUid("uid")


@pytest.fixture
async def lab() -> LoopLab:
    return LoopLab()


def kinds(lab: LoopLab, uid: str = UID) -> list[str]:
    return [kind for kind, synced, _ in lab.syncs.calls if synced == uid]


@pytest.mark.case("6.24-01 closed config channel")
async def test_loop_ends_when_there_are_no_more_updates(lab: LoopLab) -> None:
    lab.updates.put_nowait(None)
    async with asyncio.timeout(1):
        await lab.loop.run(asyncio.Event())
    assert lab.clock.monotonic() < 1


@pytest.mark.case("6.24-02 admission refuses one of two pods")
async def test_refused_pod_has_failed_and_the_other_runs(lab: LoopLab) -> None:
    refused, admitted = pod("a", node_name="node-2"), pod("b")
    async with lab.running():
        lab.send(PodOperation.ADD, refused, admitted)
        await lab.quiet()
        status = lab.statuses.pod_status(refused.metadata.uid)
        assert status is not None
        assert (status.phase, status.reason, status.qos_class) == ("Failed", "NodeName", "BestEffort")
        message = "Predicate NodeName failed: node(s) didn't match the requested node name"
        assert status.message == f"Pod was rejected: {message}"
        assert lab.events.told == [f"Warning NodeName {message}"]
        # The API then sends the same status back, which causes no sync.
        lab.send(PodOperation.RECONCILE, replace(refused, status=status))
        await lab.quiet()
        assert kinds(lab, refused.metadata.uid) == []
        assert kinds(lab, admitted.metadata.uid) == ["sync"]


@pytest.mark.case("6.24-02 the API shows Failed for the one and Pending for the other")
async def test_refused_pod_is_shown_failed_while_the_other_is_pending(tmp_path: Path) -> None:
    slow = {"example/image:1": ImageBehaviour(pull_seconds=20)}
    async with whole_node.world(tmp_path, images=slow) as outside, outside.running_node():
        await outside.create("a", nodeSelector={"disk": "ssd"})
        await outside.create("b")
        refused = await outside.until("a", lambda one: one.status.phase == "Failed")
        assert refused.status.reason == "NodeAffinity"
        assert refused.status.message.startswith("Pod was rejected: Predicate NodeAffinity failed")
        waiting = await outside.until("b", lambda one: bool(one.status.container_statuses))
        assert (waiting.status.phase, waiting.status.reason) == ("Pending", "")
        await outside.until("b", lambda one: one.status.phase == "Running")


def on_port(number: int, uid: str, *, phase: str = "Running", node_name: str = "node-1") -> Pod:
    """A pod that uses a host port of the node."""
    port = ContainerPort(container_port=80, host_port=number)
    made = pod(uid, uid=uid, containers=[container(ports=(port,))], node_name=node_name)
    return replace(made, status=PodStatus(phase=phase))


KINDS_OF_PODS = {
    "failed": (on_port(1, "failed", phase="Failed"), False),
    "succeeded": (on_port(2, "succeeded", phase="Succeeded"), False),
    "deleting but running": (deleted(on_port(3, "deleting but running"), 30), True),
    "pending": (on_port(4, "pending", phase="Pending"), True),
    "running": (on_port(5, "running"), True),
    "running but refused here": (on_port(6, "running but refused here", node_name="node-2"), False),
    "running but known terminated": (on_port(7, "running but known terminated"), False),
    "failed but terminating": (on_port(8, "failed but terminating", phase="Failed"), True),
}


@pytest.mark.case("6.24-03 pods that are not active take no room from a new one")
async def test_admission_counts_only_active_pods(lab: LoopLab) -> None:
    for uid in "failed", "succeeded":
        lab.cache.put(PodUid(uid), CachedStatus(lab.cache.begin(), in_runtime(uid, is_running=False)))
    releases = [lab.syncs.hold("terminating", uid) for uid in ("deleting but running", "failed but terminating")]
    lab.syncs.hold("terminated", "running but known terminated")
    async with lab.running():
        lab.send(PodOperation.ADD, *(known for known, _ in KINDS_OF_PODS.values()))
        await lab.quiet()
        known_terminated, _ = KINDS_OF_PODS["running but known terminated"]
        lab.pool.update(UpdatePodOptions(SyncPodType.KILL, known_terminated))
        await lab.quiet()
        newcomers = {uid: on_port(number, f"new {uid}") for number, uid in enumerate(KINDS_OF_PODS, 1)}
        lab.send(PodOperation.ADD, *newcomers.values())
        await lab.quiet()
        is_in_the_way = {uid: lab.phase(newcomer) == "Failed" for uid, newcomer in newcomers.items()}
        assert is_in_the_way == {uid: is_active for uid, (_, is_active) in KINDS_OF_PODS.items()}
        for release in releases:
            release.set()
        await lab.quiet()
        assert {uid for uid in KINDS_OF_PODS if (PodUid(uid) in lab.admitter.allocated)} == {"pending", "running"}


@pytest.mark.case("6.24-04 network not ready")
async def test_network_error_fails_all_but_host_network_pods() -> None:
    world = World()
    world.errors["network"] = OSError("fake network error")
    with pytest.raises(SyncFailed, match="network is not ready: fake network error"):
        await world.syncs.sync_pod(api_pod(), in_runtime(UID))
    await world.syncs.sync_pod(static_pod(host_network=True), in_runtime("hash-1"))
    assert world.steps[-1] == "containers"


@pytest.mark.case("6.24-05 REMOVE before the sources are ready")
async def test_removed_pod_is_killed_once_all_sources_are_known(lab: LoopLab) -> None:
    lab.outside.unready = {"api"}
    async with lab.running():
        lab.send(PodOperation.ADD, api_pod())
        lab.send(PodOperation.REMOVE, api_pod())
        await asyncio.sleep(10)
        assert kinds(lab) == ["sync"]
        lab.outside.unready = set()
        await asyncio.sleep(2.1)
        assert kinds(lab) == ["sync", "terminating", "terminated"]


@pytest.mark.case("6.24-05 departure: a ready source's removal does not wait for another")
async def test_removed_pod_is_killed_at_once_when_its_own_source_is_ready(lab: LoopLab) -> None:
    lab.outside.unready = {"http"}
    async with lab.running():
        lab.send(PodOperation.ADD, file_pod("one"), source=PodSource.FILE)
        await lab.quiet()
        lab.send(PodOperation.REMOVE, file_pod("one"), source=PodSource.FILE)
        await lab.quiet()
        assert kinds(lab, "one") == ["sync", "terminating", "terminated"]


async def test_additions_are_handled_oldest_first(lab: LoopLab) -> None:
    """The youngest pod thus gets no room."""
    lab.outside.offer(pods="1")
    young = api_pod("young", creation_timestamp="2026-01-01T00:00:02Z")
    old = api_pod("old", creation_timestamp="2026-01-01T00:00:01Z")
    async with lab.running():
        lab.send(PodOperation.ADD, young, old)
        await lab.quiet()
        assert (kinds(lab, "old"), lab.phase(old)) == (["sync"], "")
        assert (kinds(lab, "young"), lab.phase(young)) == ([], "Failed")


async def test_update_delete_and_reconcile_reach_the_worker(lab: LoopLab) -> None:
    """UPDATE and DELETE do so at once, RECONCILE only if it changes the sync; SET has no effect."""
    async with lab.running():
        lab.send(PodOperation.ADD, api_pod())
        await lab.quiet()
        lab.send(PodOperation.SET, api_pod())
        lab.send(PodOperation.RECONCILE, api_pod(phase="Running"))
        await lab.quiet()
        assert kinds(lab) == ["sync"]
        lab.send(PodOperation.UPDATE, api_pod(labels={"a": "b"}))
        await lab.quiet()
        assert kinds(lab) == ["sync"] * 2
        lab.send(PodOperation.DELETE, deleted(api_pod(), 5))
        await lab.quiet()
        assert lab.syncs.calls[-2:] == [("terminating", UID, 5), ("terminated", UID, None)]
        assert [update.op for update in lab.outside.seen][1] is PodOperation.SET


async def test_pod_that_the_api_reports_as_failed_is_stopped(lab: LoopLab) -> None:
    """Upstream finds out up to a minute later."""
    async with lab.running():
        lab.send(PodOperation.ADD, api_pod())
        await lab.quiet()
        dead = api_pod(phase="Failed")
        lab.send(PodOperation.RECONCILE, replace(dead, status=replace(dead.status, reason="Evicted")))
        await lab.quiet()
        assert kinds(lab) == ["sync", "terminating", "terminated"]
        assert lab.outside.pruned == [(UID, "all")]


async def test_mirror_change_syncs_its_static_pod(lab: LoopLab) -> None:
    """An addition, update or removal of the mirror does so; a mirror without a static pod is left alone."""
    async with lab.running():
        lab.send(PodOperation.ADD, mirror_pod("stray", uid="mirror-2"), source=PodSource.API)
        lab.send(PodOperation.ADD, static_pod(), source=PodSource.FILE)
        await lab.quiet()
        for op in PodOperation.ADD, PodOperation.UPDATE, PodOperation.REMOVE:
            lab.send(op, mirror_pod(), source=PodSource.API)
            await lab.quiet()
        assert kinds(lab, "hash-1") == ["sync"] * 4
        assert {uid for _, uid, _ in lab.syncs.calls} == {"hash-1"}


@pytest.mark.parametrize(
    ("changes", "syncs", "pruned"),
    [
        ([PodLifecycleEventType.STARTED], 1, []),
        ([PodLifecycleEventType.DIED], 1, [(UID, "dead")]),
        ([PodLifecycleEventType.REMOVED], 0, []),
        ([PodLifecycleEventType.DIED, PodLifecycleEventType.REMOVED], 1, [(UID, "dead")]),
    ],
)
async def test_runtime_change_syncs_a_known_pod(
    lab: LoopLab, changes: list[PodLifecycleEventType], syncs: int, pruned: list[tuple[str, str]]
) -> None:
    """A removal alone causes no sync; after a death the pod's older dead containers are removed."""
    async with lab.running():
        lab.send(PodOperation.ADD, api_pod())
        await lab.quiet()
        heard = tuple(PodLifecycleEvent(kind, "c1") for kind in changes)
        lab.outside.changes.put_nowait(PodLifecycleChanges(UID, heard))
        await lab.quiet()
        assert (len(kinds(lab)) - 1, lab.outside.pruned) == (syncs, pruned)


@pytest.mark.parametrize(
    ("kind", "verdict", "is_synced", "ready", "started"),
    [
        (ProbeType.LIVENESS, ProbeOutcome.FAILURE, True, False, False),
        (ProbeType.LIVENESS, ProbeOutcome.SUCCESS, False, False, False),
        (ProbeType.READINESS, ProbeOutcome.SUCCESS, True, True, False),
        (ProbeType.READINESS, ProbeOutcome.FAILURE, True, False, False),
        (ProbeType.STARTUP, ProbeOutcome.SUCCESS, True, False, True),
        (ProbeType.STARTUP, ProbeOutcome.UNKNOWN, True, False, False),
    ],
)
async def test_probe_result_changes_the_status_and_syncs_the_pod(
    lab: LoopLab, kind: ProbeType, verdict: ProbeOutcome, is_synced: bool, ready: bool, started: bool
) -> None:
    """A liveness result causes a sync only when it is a failure."""
    async with lab.running():
        lab.send(PodOperation.ADD, api_pod())
        await lab.quiet()
        container = ContainerStatus(name="main", container_id="sim://c1", started=False)
        lab.statuses.set_pod_status(api_pod(), PodStatus(phase="Running", container_statuses=(container,)))
        lab.inbox.probed(ProbeResult(UID, "sim://c1", kind, verdict))
        await lab.quiet()
        status = lab.statuses.pod_status(UID)
        assert status is not None
        assert (status.container_statuses[0].ready, status.container_statuses[0].started) == (ready, started)
        assert kinds(lab) == ["sync"] * (1 + is_synced)


async def test_loop_waits_while_the_runtime_is_down(lab: LoopLab) -> None:
    """It retries after 0.1 s and then with growing delays, and its health check fails after a while."""
    lab.outside.runtime_down = "runtime is down"
    async with lab.running():
        lab.send(PodOperation.ADD, api_pod())
        await asyncio.sleep(30)
        assert lab.syncs.calls == []
        lab.outside.runtime_down = ""
        await asyncio.sleep(5.1)
        assert kinds(lab) == ["sync"]
        assert lab.loop.stuck_error(60) == ""
        lab.outside.runtime_down = "runtime is down"
        await asyncio.sleep(303)
        assert lab.loop.stuck_error(60) == "sync Loop took longer than expected"
        assert lab.loop.stuck_error(600) == ""


async def test_pods_are_refused_while_the_node_is_unknown(lab: LoopLab) -> None:
    """A mirror pod is not refused."""
    lab.outside.shown = None
    async with lab.running():
        lab.send(PodOperation.ADD, api_pod())
        lab.send(PodOperation.RECONCILE, mirror_pod("stray"))
        await lab.quiet()
        assert lab.events.told == ["Warning InvalidNodeInfo Kubelet cannot get node info."]


async def test_housekeeping_rests_when_nothing_is_left_to_do(lab: LoopLab) -> None:
    """It still runs once a minute, and keeps running while the runtime cannot be listed."""
    async with lab.running():
        lab.send(PodOperation.ADD, api_pod())
        await asyncio.sleep(10)
        assert lab.outside.listings == 1
        await asyncio.sleep(60)
        assert lab.outside.listings == 2
        lab.send(PodOperation.UPDATE, api_pod(labels={"a": "b"}))
        lab.outside.listed = RuntimeFailure("no answer")
        await asyncio.sleep(10)
        assert lab.outside.listings >= 6


async def test_runtime_pod_that_no_source_has_is_killed(lab: LoopLab) -> None:
    """Its worker is then forgotten; cleanup gets a predicate that decides per pod whether it is still needed."""
    async with lab.running():
        lab.send(PodOperation.ADD, api_pod())
        lab.outside.listed = [in_runtime("stray"), in_runtime(UID), in_runtime("dead", is_running=False)]
        await asyncio.sleep(2.1)
        assert lab.syncs.calls == [("sync", UID, None), ("runtime", "stray", None)]
        assert lab.pool.state(PodUid("stray")) is None
        assert lab.outside.probed[-1] == {UID}
        needed = {uid: uid in lab.outside.needed[-1] for uid in (UID, "stray", "dead")}
        assert needed == {UID: True, "stray": True, "dead": False}


async def test_refused_pod_comes_to_its_end_when_it_is_deleted(lab: LoopLab) -> None:
    """Housekeeping starts a worker for it, which terminates it."""
    async with lab.running():
        refused = pod("a", uid=UID, node_name="node-2")
        lab.send(PodOperation.ADD, refused)
        await lab.quiet()
        lab.pods.update_pod(replace(deleted(refused, 0), status=PodStatus(phase="Failed")))
        await asyncio.sleep(2.1)
        assert kinds(lab) == ["terminating", "terminated"]


async def test_mirror_is_deleted_when_its_static_pod_has_terminated(lab: LoopLab) -> None:
    """The deletion does not wait for housekeeping."""
    async with lab.running():
        lab.send(PodOperation.ADD, static_pod(), source=PodSource.FILE)
        lab.send(PodOperation.ADD, mirror_pod(), source=PodSource.API)
        await lab.quiet()
        release = lab.syncs.hold("terminating", "hash-1")
        lab.send(PodOperation.REMOVE, static_pod(), source=PodSource.FILE)
        await asyncio.sleep(5)
        assert lab.outside.deleted_mirrors == []
        release.set()
        await lab.quiet()
        assert lab.outside.deleted_mirrors[:1] == ["web-node-1_default"]


async def test_readded_pod_with_the_same_uid_starts_when_the_old_one_has_terminated(lab: LoopLab) -> None:
    """The pod is removed and added again while the first is still terminating."""
    async with lab.running():
        lab.send(PodOperation.ADD, file_pod(UID), source=PodSource.FILE)
        await lab.quiet()
        release = lab.syncs.hold("terminating", UID)
        lab.send(PodOperation.REMOVE, file_pod(UID), source=PodSource.FILE)
        lab.send(PodOperation.ADD, file_pod(UID), source=PodSource.FILE)
        await lab.quiet()
        release.set()
        await lab.quiet()
        assert kinds(lab) == ["sync", "terminating", "terminated", "sync"]
        assert lab.pool.state(UID) is PodWorkerState.SYNC
        assert UID in lab.admitter.allocated
