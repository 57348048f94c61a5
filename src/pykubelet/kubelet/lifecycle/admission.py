"""Admits new pods: starts their workers, rejects them, or preempts other pods first.

A rejected pod gets phase Failed, a reason and an event. A critical pod that preempts others waits until they stopped;
the other pods do not wait for it. A pod that node pressure keeps out waits until the API server shows the pressure:
before that the scheduler would send each replacement here too, and all of them would fail. A restart under pressure ends
no pod.

Upstream: pkg/kubelet/kubelet.go, pkg/kubelet/allocation/allocation_manager.go, pkg/kubelet/preemption/preemption.go
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import Node, Pod, PodCondition, PodStatus
from pykubelet.api.pods import PodUid, is_terminal, pod_label, qos_class_of
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.kubelet.lifecycle.predicate import (
    EVICTED,
    AdmissionNodeInfo,
    AllocatedResources,
    PodAdmitResult,
    SysctlAllowlist,
    admit,
)
from pykubelet.kubelet.nodestatus.node_status import NodeHealth
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.kubelet.types import KillPodOptions, SyncPodType, Trail, UpdatePodOptions, WaitStage

log = get_logger(__name__)

COMPONENT = "admission"
PREEMPTING = "Preempting"
PRESSURE_POLL_SECONDS = 0.5
"""How often a pod that waits for the API server to show a pressure is decided again."""
_PREEMPTING_MESSAGE = "Preempted in order to admit critical pod"


class PodAdmitHandler:
    """Decides whether the node can admit a pod, and holds the resources that its pods have allocated."""

    def __init__(
        self,
        *,
        node: Callable[[], Node | None],
        health: NodeHealth,
        sysctls: SysctlAllowlist,
        app_armor_error: str = "",
    ) -> None:
        """`node` returns the node's object, None while it is unknown."""
        self._node, self._health = node, health
        self._sysctls, self._app_armor_error = sysctls, app_armor_error
        self.allocated = AllocatedResources()

    def is_pressure_shown(self) -> bool:
        """Whether the API server shows all pressure conditions that hold."""
        node = self._node()
        shown = {one.type for one in node.status.conditions if one.status == "True"} if node is not None else set()
        return shown.issuperset(self._health.pressure_conditions())

    def admit(self, pod: Pod, *, is_running: bool = False) -> PodAdmitResult:
        """Decide on a pod that has no resources allocated yet; pressure keeps out only new pods."""
        info = AdmissionNodeInfo(
            node=self._node(),
            allocated=self.allocated,
            sysctls=self._sysctls,
            pressures=() if is_running else self._health.pressure_conditions(),
            app_armor_error=self._app_armor_error,
            shutdown=self._health.shutdown_message(),
        )
        return admit(pod, info)


class AdmissionWorkers(Protocol):
    """The pod workers, which are above admission: they start admitted pods and kill preempted ones."""

    def update(self, work: UpdatePodOptions) -> None:
        """Queue work for the pod's worker."""

    def is_termination_requested(self, uid: PodUid) -> bool:
        """Whether termination of the pod was requested."""

    def could_have_running_containers(self, uid: PodUid) -> bool:
        """Whether a container of the pod may be running."""

    async def kill_now(self, pod: Pod, kill: KillPodOptions) -> None:
        """Kill a pod and wait until it stopped; raises if that takes too long."""


class PodAdmission:
    """Admits every pod of the node; the sync loop calls it."""

    def __init__(
        self,
        *,
        handler: PodAdmitHandler,
        workers: AdmissionWorkers,
        statuses: StatusManager,
        recorder: EventRecorder,
        trail: Trail,
        is_running: Callable[[PodUid], bool] = lambda _: False,
    ) -> None:
        """`is_running` tells whether a new pod has containers already: this kubelet was restarted."""
        self._handler, self._workers, self._is_running = handler, workers, is_running
        self._statuses, self._recorder, self._trail = statuses, recorder, trail
        self.rejections: Counter[str] = Counter()
        """How many pods were rejected, by reason."""
        self.preemptions = 0
        """How many pods were preempted."""
        self._tasks: asyncio.TaskGroup | None = None
        # Pods that wait for their victims to stop, or without victims for the pressure to show: the newest pod, and the victims.
        self._held: dict[PodUid, tuple[Pod, tuple[Pod, ...]]] = {}

    async def run(self, ready: asyncio.Event) -> None:
        """Preempt pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for uid in self._held:
                    self._start_waiting(uid)
                ready.set()
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    def add(self, pod: Pod) -> None:
        """Admit or reject a new pod. A terminal or terminating pod is only passed to its worker, which cleans up."""
        uid = PodUid(pod.metadata.uid)
        if uid in self._held:
            self.update(pod)
            return
        if self._workers.is_termination_requested(uid) or is_terminal(pod.status.phase):
            self._workers.update(UpdatePodOptions(SyncPodType.CREATE, pod))
            # A pod that ended in the API may still run here from before a restart, and uses its resources until it stops.
            if self._workers.could_have_running_containers(uid):
                self._handler.allocated.put(pod)
            return
        is_known = self.is_on_node(uid)
        result = PodAdmitResult() if is_known else self._handler.admit(pod, is_running=self._is_running(uid))
        if not result.admitted:
            if result.reason == EVICTED and not self._handler.is_pressure_shown():
                self._held[uid] = (pod, ())
                self._trail.waits(uid, WaitStage.ADMISSION, "the API server to show the node's pressure")
                self._start_waiting(uid)
            else:
                self._reject(pod, result)
            return
        if not result.victims:
            self._trail.note(uid, COMPONENT, "admitted")
            self.start(pod)
            return
        self._handler.allocated.put(pod)
        self._held[uid] = (pod, result.victims)
        names = ", ".join(pod_label(victim) for victim in result.victims)
        self._trail.note(uid, COMPONENT, "admitted once others are gone", victims=names)
        self._trail.waits(uid, WaitStage.ADMISSION, f"end of {names}")
        self._start_waiting(uid)

    def start(self, pod: Pod) -> None:
        """Start the pod's worker without an admission decision."""
        self._handler.allocated.put(pod)
        self._workers.update(UpdatePodOptions(SyncPodType.CREATE, pod))

    def is_held(self, uid: PodUid) -> bool:
        """Whether a pod waits for its admission and has no worker yet."""
        return uid in self._held

    def is_on_node(self, uid: PodUid) -> bool:
        """Whether a pod has resources allocated; a rejected pod never has."""
        return uid in self._handler.allocated

    def update(self, pod: Pod) -> None:
        """Take the newest version of a held or admitted pod."""
        uid = PodUid(pod.metadata.uid)
        if uid in self._held:
            self._held[uid] = (pod, self._held[uid][1])
        if self.is_on_node(uid):
            self._handler.allocated.put(pod)

    def forget(self, uid: PodUid) -> None:
        """Release the resources of a pod that stopped or was removed from its source."""
        self._held.pop(uid, None)
        self._handler.allocated.drop(uid)

    def _reject(self, pod: Pod, result: PodAdmitResult) -> None:
        uid = PodUid(pod.metadata.uid)
        self.rejections[result.reason] += 1
        log.warning("pod rejected", pod=pod_label(pod), reason=result.reason, why=result.message)
        self._trail.note(uid, COMPONENT, "refused", reason=result.reason, why=result.message)
        self._recorder.event(reference_to(pod), WARNING, result.reason, result.message)
        status = PodStatus(
            phase="Failed",
            reason=result.reason,
            message=f"Pod was rejected: {result.message}",
            qos_class=qos_class_of(pod),
        )
        self._statuses.set_pod_status(pod, status)

    def _start_waiting(self, uid: PodUid) -> None:
        if self._tasks is None:
            return
        if self._held[uid][1]:
            start_supervised(self._tasks, f"preemption for pod {uid}", lambda: self._preempt(uid))
        else:
            start_supervised(self._tasks, f"admission of pod {uid}", lambda: self._decide_later(uid))

    async def _decide_later(self, uid: PodUid) -> None:
        """Decide on a pod again once the API server shows the node's pressure, or there is none any more."""
        while uid in self._held:
            await asyncio.sleep(PRESSURE_POLL_SECONDS)
            pod, _ = self._held.get(uid, (None, ()))
            if pod is None or not (self._handler.is_pressure_shown() or pod.metadata.deletion_timestamp):
                continue
            del self._held[uid]
            self._trail.waits(uid, WaitStage.ADMISSION, "")
            if pod.metadata.deletion_timestamp:
                self._workers.update(UpdatePodOptions(SyncPodType.CREATE, pod))
            else:
                self.add(pod)
            return

    async def _preempt(self, uid: PodUid) -> None:
        _, victims = self._held.get(uid, (None, ()))
        async with asyncio.TaskGroup() as kills:
            for victim in victims:
                self.preemptions += 1
                self._recorder.event(reference_to(victim), WARNING, PREEMPTING, _PREEMPTING_MESSAGE)
                kills.create_task(self._kill(victim), name=f"preempt {pod_label(victim)}")
        held = self._held.pop(uid, None)
        self._trail.waits(uid, WaitStage.ADMISSION, "")
        if held is not None:
            self._workers.update(UpdatePodOptions(SyncPodType.CREATE, held[0]))

    async def _kill(self, victim: Pod) -> None:
        try:
            await self._workers.kill_now(
                victim, KillPodOptions(evict=True, change_status=partial(_preempted, victim.metadata.generation))
            )
        except Exception as error:  # noqa: BLE001  its worker keeps trying; the critical pod starts anyway
            log.warning("pod not preempted in time", pod=pod_label(victim), cause=str(error))


def _preempted(generation: int, status: PodStatus) -> PodStatus:
    others = tuple(one for one in status.conditions if one.type != "DisruptionTarget")
    condition = PodCondition(
        type="DisruptionTarget",
        status="True",
        reason="TerminationByKubelet",
        message="Pod was preempted by Kubelet to accommodate a critical pod.",
        observed_generation=generation,
    )
    return replace(
        status, phase="Failed", reason=PREEMPTING, message=_PREEMPTING_MESSAGE, conditions=(*others, condition)
    )
