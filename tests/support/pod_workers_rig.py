"""Pod workers with scripted syncs, on virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from msgspec.structs import replace

from pykubelet.api.generated.core import ObjectReference, Pod
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.explain.trail import PodTrails
from pykubelet.kubelet.pleg.pleg import CachedStatus, Moment, PodCache
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.pod_workers.pod_workers import PodWorkers
from pykubelet.kubelet.pod_workers.sync import (
    PodWorkerDurations,
    SyncFailed,
    SyncRunner,
    WorkerDelays,
    WorkerResult,
)
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import KillPodOptions, PodStatusFunc, SyncPodType, UpdatePodOptions
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimeFailure, RuntimePod, Sandbox
from pykubelet.testing.build import pod, static_pod
from pykubelet.testing.virtual_time import EPOCH, VirtualClock


class Events:
    """An event recorder that keeps the events as text."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        self.told.append(f"{event_type} {reason} {message}")


class ScriptedSyncs:
    """Syncs that are recorded, and that block, fail or end as a test wants."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.held: dict[tuple[str, str], asyncio.Event] = {}
        self.failing: dict[tuple[str, str], Exception] = {}
        self.ended: set[str] = set()
        self.running: set[str] = set()
        self.interrupted: list[tuple[str, str]] = []

    def hold(self, kind: str, uid: str) -> asyncio.Event:
        """Block a kind of sync of a pod until the event is set."""
        return self.held.setdefault((kind, uid), asyncio.Event())

    async def sync_pod(self, pod: Pod, observed: RuntimePod) -> WorkerResult:
        await self._play("sync", pod.metadata.uid, pod.metadata.annotations.get("version"))
        return WorkerResult(is_terminal=pod.metadata.uid in self.ended)

    async def sync_terminating_pod(
        self, pod: Pod, observed: RuntimePod, grace_seconds: int, change_status: PodStatusFunc | None
    ) -> None:
        await self._play("terminating", pod.metadata.uid, grace_seconds)

    async def sync_terminating_runtime_pod(self, running: RuntimePod) -> None:
        await self._play("runtime", running.uid, None)

    async def sync_terminated_pod(self, pod: Pod, observed: RuntimePod) -> None:
        await self._play("terminated", pod.metadata.uid, None)

    async def _play(self, kind: str, uid: str, fact: Any) -> None:
        assert uid not in self.running, "two syncs of one pod at once"
        self.calls.append((kind, uid, fact))
        self.running.add(uid)
        try:
            if (kind, uid) in self.held:
                await self.held[kind, uid].wait()
            if (kind, uid) in self.failing:
                raise self.failing[kind, uid]
        except asyncio.CancelledError:
            self.interrupted.append((kind, uid))
            raise
        finally:
            self.running.discard(uid)


class WorkerLab:
    """A pool of workers, the runtime it sees and the pods that are desired."""

    def __init__(self, delays: WorkerDelays | None = None) -> None:
        self.clock, self.events, self.syncs = VirtualClock(), Events(), ScriptedSyncs()
        self.trail = PodTrails(clock=self.clock)
        self.cache = PodCache()
        self.runtime: dict[str, RuntimePod | RuntimeFailure] = {}
        self.desired: dict[str, Pod] = {}
        self.looked_after: list[Moment] = []
        self.stopped: list[str] = []
        self.ended: list[str] = []
        played, syncer = cast("Any", self), cast("Any", self.syncs)
        runner = SyncRunner(
            syncer=syncer,
            pleg=played,
            recorder=self.events,
            durations=PodWorkerDurations(clock=VirtualClock()),
            delays=delays,
        )
        self.pool = PodWorkers(
            runner=runner,
            pods=played,
            statuses=StatusManager(client=None, pods=PodManager(), safety=played, clock=self.clock),
            listener=self,
            recorder=self.events,
            clock=self.clock,
            trail=self.trail,
        )
        self.machine = self.pool._machine

    async def newer_than(self, uid: PodUid, moment: Moment) -> RuntimePod:
        self.looked_after.append(moment)
        self.see(uid, self.runtime.get(uid))
        return self.cache.get(uid)

    def namesakes(self, pod: Pod) -> tuple[RuntimePod, ...]:
        """What the runtime has of other pods with the pod's name."""
        seen = [one for one in self.runtime.values() if isinstance(one, RuntimePod)]
        return tuple(one for one in seen if one.name == pod.metadata.name and one.uid != pod.metadata.uid)

    def see(self, uid: str, what: RuntimePod | RuntimeFailure | None) -> None:
        """Put the runtime's state of a pod, or its failure, into the cache."""
        self.cache.put(PodUid(uid), CachedStatus(self.cache.begin(), what))

    def pod_by_uid(self, uid: PodUid) -> Pod | None:
        return self.desired.get(uid)

    def pod_stopped(self, uid: PodUid) -> None:
        self.stopped.append(uid)

    def pod_ended(self, uid: PodUid) -> None:
        self.ended.append(uid)

    def update(self, pod: Pod, type: SyncPodType = SyncPodType.UPDATE, kill: KillPodOptions | None = None) -> None:
        self.pool.update(UpdatePodOptions(type, pod, kill=kill))

    def kill(self, pod: Pod, **kill: Any) -> None:
        self.update(pod, SyncPodType.KILL, KillPodOptions(**kill))

    @asynccontextmanager
    async def running(self) -> AsyncIterator["WorkerLab"]:
        """Runs the pool of workers."""
        ready = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.pool.run(ready))
            await ready.wait()
            yield self
            task.cancel()

    async def quiet(self) -> None:
        """Return when everything that is due now has happened."""
        await asyncio.sleep(0.001)


def api_pod(uid: str = "uid", *, grace: int = 30, phase: str = "Pending", **metadata: Any) -> Pod:
    """A pod from the API."""
    made = pod(uid=uid, termination_grace_period_seconds=grace)
    status = replace(made.status, phase=phase)
    return replace(made, metadata=replace(made.metadata, **metadata), status=status)


def deleted(known: Pod, grace: int) -> Pod:
    """The same pod, being deleted."""
    metadata = replace(known.metadata, deletion_timestamp="2026-01-01T00:00:00Z", deletion_grace_period_seconds=grace)
    return replace(known, metadata=metadata)


def file_pod(uid: str, name: str = "web-node-1") -> Pod:
    """A static pod with this UID."""
    return static_pod(name, uid=uid, content_hash=uid)


def in_runtime(uid: str, *, is_running: bool = True) -> RuntimePod:
    """A pod with one container and a sandbox, as the runtime knows it."""
    state = ContainerState.RUNNING if is_running else ContainerState.EXITED
    return RuntimePod(
        uid=PodUid(uid),
        namespace="default",
        name="web",
        sandboxes=(Sandbox(id=f"sandbox-{uid}", is_ready=is_running, created_at=EPOCH, ips=("10.0.0.1",)),),
        containers=(RuntimeContainer(id=f"container-{uid}", name="main", state=state, created_at=EPOCH),),
    )


__all__ = ["Events", "ScriptedSyncs", "SyncFailed", "WorkerLab", "api_pod", "deleted", "file_pod", "in_runtime"]
