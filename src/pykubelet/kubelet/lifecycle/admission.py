"""Lets pods in: admits them and hands them to the workers, refuses them, or makes room for them first.

In: pods that are new on this node. Out: work, or a Failed status and an event that say why not. A critical pod for which
others have to go waits here, and holds nobody up meanwhile. Upstream: HandlePodAdditions and rejectPod in
pkg/kubelet/kubelet.go, evictPodsToFreeRequests in pkg/kubelet/preemption/preemption.go.

Admits pods to this node and keeps count of what those on it take.

In: pods, and what is known of the node at that moment. Out: verdicts of `admission.py`. Upstream: the admit handlers and
allocation manager of pkg/kubelet/kubelet.go.
"""

import asyncio
from collections import Counter
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.core import Node, Pod, PodCondition, PodStatus
from pykubelet.api.pod_resources import qos_class
from pykubelet.api.pods import PodUid, is_terminal, pod_label
from pykubelet.api.serializer import to_document
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.kubelet.lifecycle.predicate import AdmissionNodeInfo, AllocatedResources, admit
from pykubelet.kubelet.pod.mirror_client import NodeLookup
from pykubelet.kubelet.sysctl import SysctlAllowlist
from pykubelet.kubelet.types import KillPodOptions, PodAdmitResult, SyncPodType, Trail, UpdatePodOptions, WaitStation

log = get_logger(__name__)

STATION = "admission"
PREEMPTING = "Preempting"
_MESSAGE = "Preempted in order to admit critical pod"


class AdmitHandler(Protocol):
    """Judges pods, and counts those that are on the node."""

    def admit(self, pod: Pod) -> PodAdmitResult:
        """Whether a pod may start."""

    def occupy(self, pod: Pod) -> None:
        """A pod is on the node from now on, or takes something else than before."""

    def is_on_node(self, uid: PodUid) -> bool:
        """Whether a pod counts as being on the node."""

    def release(self, uid: PodUid) -> None:
        """Nothing of a pod counts any more."""


class AdmittedWorkers(Protocol):
    """Where pods are worked on."""

    def update(self, work: UpdatePodOptions) -> None:
        """Have a worker see to a pod."""


class TerminationQueries(Protocol):
    """What the workers know of ends."""

    def is_termination_requested(self, uid: PodUid) -> bool:
        """Whether the pod was asked to end."""

    def could_have_running_containers(self, uid: PodUid) -> bool:
        """Whether a container of the pod may be running."""


class AdmissionStatuses(Protocol):
    """The statuses of pods."""

    def set_pod_status(self, pod: Pod, status: PodStatus) -> None:
        """The pod's status is this now."""


class PreemptionKiller(Protocol):
    """Kills pods and waits for it."""

    async def kill_now(self, pod: Pod, kill: KillPodOptions) -> None:
        """Kill a pod; raises if that takes too long."""


class PodAdmission:
    """The way in for every pod; owned by the loop."""

    def __init__(
        self,
        *,
        admission: AdmitHandler,
        workers: AdmittedWorkers,
        terminations: TerminationQueries,
        statuses: AdmissionStatuses,
        killer: PreemptionKiller,
        recorder: EventRecorder,
        trail: Trail,
    ) -> None:
        self._admission, self._workers, self._terminations = admission, workers, terminations
        self._statuses, self._killer, self._recorder, self._trail = statuses, killer, recorder, trail
        self.refusals: Counter[str] = Counter()
        """How many pods were refused, by reason."""
        self.preemptions = 0
        """How many had to go for others."""
        self._tasks: asyncio.TaskGroup | None = None
        # Pods for which room is being made: as they are now, and who has to go.
        self._held: dict[PodUid, tuple[Pod, tuple[Pod, ...]]] = {}

    async def run(self, ready: asyncio.Event) -> None:
        """Make room for pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for uid in self._held:
                    self._make_room(uid)
                ready.set()
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    def let_in(self, pod: Pod) -> None:
        """A pod is new here. One that has ended, or is about to, is not judged: its worker only clears up."""
        uid = PodUid(pod.metadata.uid)
        if uid in self._held:
            self.change(pod)
            return
        if self._terminations.is_termination_requested(uid) or is_terminal(pod.status.phase):
            self._workers.update(UpdatePodOptions(SyncPodType.CREATE, pod))
            # What the API calls ended may still run, of an agent before this one; until it stops, its room is taken.
            if self._terminations.could_have_running_containers(uid):
                self._admission.occupy(pod)
            return
        verdict = PodAdmitResult() if self._admission.is_on_node(uid) else self._admission.admit(pod)
        if not verdict.admitted:
            self._refuse(pod, verdict)
            return
        if not verdict.victims:
            self._trail.note(uid, STATION, "admitted")
            self.start_anew(pod)
            return
        self._admission.occupy(pod)
        self._held[uid] = (pod, verdict.victims)
        names = ", ".join(pod_label(victim) for victim in verdict.victims)
        self._trail.note(uid, STATION, "admitted once others are gone", victims=names)
        self._trail.waits(uid, WaitStation.ADMISSION, f"end of {names}")
        self._make_room(uid)

    def start_anew(self, pod: Pod) -> None:
        """Give a pod to its worker, without asking whether it may start."""
        self._admission.occupy(pod)
        self._workers.update(UpdatePodOptions(SyncPodType.CREATE, pod))

    def is_held(self, uid: PodUid) -> bool:
        """Whether a pod waits here for room; it has no worker yet."""
        return uid in self._held

    def is_in(self, uid: PodUid) -> bool:
        """Whether a pod is on the node; one that was refused never was."""
        return self._admission.is_on_node(uid)

    def change(self, pod: Pod) -> None:
        """A pod that is held, or on the node, has changed."""
        uid = PodUid(pod.metadata.uid)
        if uid in self._held:
            self._held[uid] = (pod, self._held[uid][1])
        if self._admission.is_on_node(uid):
            self._admission.occupy(pod)

    def forget(self, uid: PodUid) -> None:
        """A pod takes no room any more: it has stopped, or its source does not name it."""
        self._held.pop(uid, None)
        self._admission.release(uid)

    def _refuse(self, pod: Pod, verdict: PodAdmitResult) -> None:
        uid = PodUid(pod.metadata.uid)
        self.refusals[verdict.reason] += 1
        log.warning("pod refused", pod=pod_label(pod), reason=verdict.reason, why=verdict.message)
        self._trail.note(uid, STATION, "refused", reason=verdict.reason, why=verdict.message)
        self._recorder.event(reference_to(pod), WARNING, verdict.reason, verdict.message)
        status = PodStatus(
            phase="Failed",
            reason=verdict.reason,
            message=f"Pod was rejected: {verdict.message}",
            qos_class=pod.status.qos_class or qos_class(to_document(pod.spec)),
        )
        self._statuses.set_pod_status(pod, status)

    def _make_room(self, uid: PodUid) -> None:
        if self._tasks is not None:
            start_supervised(self._tasks, f"room for pod {uid}", lambda: self._preempt(uid))

    async def _preempt(self, uid: PodUid) -> None:
        _, victims = self._held.get(uid, (None, ()))
        async with asyncio.TaskGroup() as kills:
            for victim in victims:
                self.preemptions += 1
                self._recorder.event(reference_to(victim), WARNING, PREEMPTING, _MESSAGE)
                kills.create_task(self._kill(victim), name=f"preempt {pod_label(victim)}")
        held = self._held.pop(uid, None)
        self._trail.waits(uid, WaitStation.ADMISSION, "")
        if held is not None:
            self._workers.update(UpdatePodOptions(SyncPodType.CREATE, held[0]))

    async def _kill(self, victim: Pod) -> None:
        try:
            await self._killer.kill_now(
                victim, KillPodOptions(evict=True, change_status=partial(_preempted, victim.metadata.generation))
            )
        except Exception as error:  # noqa: BLE001  its worker goes on trying; the critical pod starts anyway
            log.warning("pod not preempted in time", pod=pod_label(victim), cause=str(error))


def _preempted(generation: int, status: PodStatus) -> PodStatus:
    """The status of a pod that had to go."""
    others = tuple(one for one in status.conditions if one.type != "DisruptionTarget")
    condition = PodCondition(
        type="DisruptionTarget",
        status="True",
        reason="TerminationByKubelet",
        message="Pod was preempted by Kubelet to accommodate a critical pod.",
        observed_generation=generation,
    )
    return replace(status, phase="Failed", reason=PREEMPTING, message=_MESSAGE, conditions=(*others, condition))


class AdmissionNodeConditions(Protocol):
    """What may keep pods from starting, as of now; answers at once."""

    def pressures(self) -> tuple[str, ...]:
        """The conditions of pressure that hold: MemoryPressure, DiskPressure, PIDPressure."""

    def app_armor_error(self) -> str:
        """Why AppArmor profiles cannot be enforced; empty if they can."""

    def shutdown_message(self) -> str:
        """Why no pod is taken any more; empty while pods are."""


class PodAdmitHandler:
    """The door of the node; owned by one loop."""

    def __init__(
        self, *, node_name: str, nodes: NodeLookup, conditions: AdmissionNodeConditions, sysctls: SysctlAllowlist
    ) -> None:
        self._node_name, self._nodes = node_name, nodes
        self._conditions, self._sysctls = conditions, sysctls
        self._occupancy = AllocatedResources()

    def admit(self, pod: Pod) -> PodAdmitResult:
        """Whether a pod may start. Says nothing of a pod that is on the node already: let go of it before."""
        view = AdmissionNodeInfo(
            node=self._node(),
            occupancy=self._occupancy,
            sysctls=self._sysctls,
            pressures=self._conditions.pressures(),
            app_armor_error=self._conditions.app_armor_error(),
            shutdown=self._conditions.shutdown_message(),
        )
        return admit(pod, view)

    def occupy(self, pod: Pod) -> None:
        """A pod is on the node from now on, or takes something else than before."""
        self._occupancy.put(pod)

    def is_on_node(self, uid: PodUid) -> bool:
        """Whether a pod counts as being on the node."""
        return uid in self._occupancy

    def release(self, uid: PodUid) -> None:
        """Nothing of a pod runs any more; nothing happens if it was not on the node."""
        self._occupancy.drop(uid)

    def _node(self) -> Node | None:
        try:
            return self._nodes.node(self._node_name)
        except ApiError:
            return None
