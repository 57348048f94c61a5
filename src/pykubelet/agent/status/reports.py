"""Makes a pod's status from everything the node knows, and keeps it: what the workers ask for.

Gathers what `generate.py` needs and hands on to the status manager; decides nothing itself.
Upstream: the callers of generateAPIPodStatus in pkg/kubelet/kubelet.go.
"""

from collections.abc import Callable

from pykubelet.agent.status.container_statuses import Sightings
from pykubelet.agent.status.deadline import deadline_exceeded
from pykubelet.agent.status.generate import Known, Probed, generate_status
from pykubelet.agent.status.manager import StatusManager
from pykubelet.agent.status.reason_cache import ReasonCache
from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.keys import PodUid
from pykubelet.api.pods import is_terminal as is_terminal_phase
from pykubelet.kube.recorder import NORMAL, EventRecorder, reference_to
from pykubelet.runtime.protocol import RuntimePod


class Reports:
    """The statuses of all pods of a node.

    `host_ips` gives the node's one or two addresses, that of its own family first, none while nobody knows them;
    `runtime_name` is what container ids begin with.
    """

    def __init__(
        self,
        *,
        manager: StatusManager,
        reasons: ReasonCache,
        probed: Probed,
        host_ips: Callable[[], tuple[str, ...]],
        recorder: EventRecorder,
        clock: Clock,
        runtime_name: str,
    ) -> None:
        self._manager, self._reasons, self._probed, self._host_ips = manager, reasons, probed, host_ips
        self._recorder, self._clock, self._runtime_name = recorder, clock, runtime_name

    def generate(self, pod: Pod, observed: RuntimePod, *, is_terminal: bool) -> PodStatus:
        """The status of a pod; `is_terminal` says that none of its containers will ever be started again."""
        uid = PodUid(pod.metadata.uid)
        reported = self._manager.pod_status(uid) or self._manager.shown_status(pod)
        end = deadline_exceeded(pod, reported, self._clock.now())
        if end is not None and not is_terminal_phase(reported.phase):
            self._recorder.event(reference_to(pod), NORMAL, end.reason, end.message)
        seen = Sightings(
            runtime=observed, runtime_name=self._runtime_name, start_failures=self._reasons.failures_of(pod)
        )
        known = Known(
            seen=seen,
            reported=reported,
            host_ips=self._host_ips(),
            resize=self._manager.resize.of(uid),
            is_ending=is_terminal,
            end=end,
        )
        return generate_status(pod, known, self._probed)

    def set_pod_status(self, pod: Pod, status: PodStatus) -> None:
        """The pod's status is this now."""
        self._manager.set_pod_status(pod, status)

    def pod_status(self, uid: PodUid) -> PodStatus | None:
        """The status as it was kept."""
        return self._manager.pod_status(uid)

    def terminate_pod(self, pod: Pod) -> None:
        """Nothing of the pod is left on this node: its status is final."""
        self._manager.terminate_pod(pod)
