"""What a node knows about its pods: which there are, how they are, what was decided."""

from dataclasses import dataclass

from pykubelet.agent.inbox import LoopInbox
from pykubelet.agent.pods import PodManager
from pykubelet.agent.probes import ProbeManager, Prober
from pykubelet.agent.start_times import StartTimes
from pykubelet.agent.status import StatusManager
from pykubelet.agent.trail import PodTrails
from pykubelet.agent.trailed import TrailedStatuses
from pykubelet.agent.workers import Machine, WorkerQueries
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.keys import PodUid
from pykubelet.app.node_ground import Ground
from pykubelet.app.running import Runner, with_event
from pykubelet.runtime.watchdog import Watchdog


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePods:
    """Everything about pods that others ask for."""

    pods: PodManager
    machine: Machine
    queries: WorkerQueries
    statuses: StatusManager
    inbox: LoopInbox
    probes: ProbeManager
    trail: PodTrails
    starts: StartTimes
    runners: dict[str, Runner]


def node_pods(ground: Ground, watchdog: Watchdog) -> NodePods:
    """All of it."""
    pods, machine, inbox, clock = PodManager(), Machine(), LoopInbox(), ground.clock
    queries = WorkerQueries(machine)
    safety, starts = DeletionSafety(queries, watchdog), StartTimes(clock=clock)
    observer = TrailedStatuses(starts, ground.trail, pod_uid=pods.translate_pod_uid)
    statuses = StatusManager(client=ground.client, pods=pods, safety=safety, clock=clock, observer=observer)
    prober = Prober(
        commands=ground.runtime.commands,
        http=ground.runtime.probe_http,
        recorder=ground.recorder,
        sockets=ground.runtime.probe_sockets,
    )
    probes = ProbeManager(statuses=statuses, prober=prober, changed=inbox.probed, clock=clock)
    return NodePods(
        pods=pods,
        machine=machine,
        queries=queries,
        statuses=statuses,
        inbox=inbox,
        probes=probes,
        trail=ground.trail,
        starts=starts,
        runners={"statuses": with_event(statuses.run), "probes": with_event(probes.run)},
    )


class DeletionSafety:
    """What is left of a pod, as its worker knows it: one that has finished has cleared up everything.

    Of one that has no worker, as a pod that was refused, nothing is left if the runtime has nothing of it.
    """

    def __init__(self, queries: WorkerQueries, watchdog: Watchdog) -> None:
        self._queries, self._watchdog = queries, watchdog

    def could_have_running_containers(self, uid: PodUid, /) -> bool:
        if self._queries.state(uid) is None and self._watchdog.has_nothing_of(uid):
            return False
        return self._queries.could_have_running_containers(uid)

    def pod_resources_are_reclaimed(self, pod: Pod, _: PodStatus, /) -> bool:
        uid = PodUid(pod.metadata.uid)
        return not self.could_have_running_containers(uid) and self._queries.should_be_finished(uid)


class ShownProbes:
    """The probes of pods, which begin with what the API shows of each, for a static pod its mirror."""

    def __init__(self, probes: ProbeManager, statuses: StatusManager) -> None:
        self._probes, self._statuses = probes, statuses

    def add_pod(self, pod: Pod) -> None:
        self._probes.add_pod(pod, self._statuses.shown_status(pod))

    def stop_liveness_and_startup(self, pod: Pod) -> None:
        self._probes.stop_liveness_and_startup(pod)

    def remove_pod(self, pod: Pod) -> None:
        self._probes.remove_pod(pod)
