"""The status reporter: combines status manager, start failures, probes and clock."""

from datetime import timedelta

from pykubelet.api.generated.core import ObjectReference, Pod, PodStatus
from pykubelet.api.pods import PodUid
from pykubelet.api.times import format_time
from pykubelet.kubelet.kuberuntime.pod_actions import SyncAction, SyncResult
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.status.container_statuses import ReasonCache
from pykubelet.kubelet.status.generate import StatusReporter
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.runtimes.protocol import RuntimePod
from pykubelet.testing.build import pod
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import EPOCH, ManualClock

UID = PodUid("uid-default-web")
NOTHING = RuntimePod(uid=UID, namespace="default", name="web")
FAILED = SyncResult(action=SyncAction.START_CONTAINER, target="main", reason="ErrImagePull", message="why")


class Told:
    """Records the reasons of events."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def event(self, _involved: ObjectReference, _type: str, reason: str, _message: str) -> None:
        self.reasons.append(reason)


class Safety:
    """No containers run and all resources are reclaimed."""

    def could_have_running_containers(self, _: PodUid, /) -> bool:
        return False

    def pod_resources_are_reclaimed(self, _pod: Pod, _status: PodStatus, /) -> bool:
        return True


class Node:
    """A status reporter with all its dependencies."""

    def __init__(self) -> None:
        self.clock, self.told, self.reasons = ManualClock(), Told(), ReasonCache()
        pods = PodManager()
        manager = StatusManager(client=MemoryApi(self.clock), pods=pods, safety=Safety(), clock=self.clock)
        self.reports = StatusReporter(
            manager=manager,
            reasons=self.reasons,
            probed=lambda _, status: status,
            host_ips=lambda: ("192.0.2.1",),
            recorder=self.told,
            clock=self.clock,
            runtime_name="sim",
        )


async def test_report_holds_why_a_container_did_not_start() -> None:
    node = Node()
    node.reasons.update(UID, [FAILED, SyncResult(action=SyncAction.CREATE_SANDBOX, target="main", reason="other")])
    status = node.reports.generate(pod(), NOTHING, is_terminal=False)
    waiting = status.container_statuses[0].state.waiting
    assert waiting is not None
    assert (waiting.reason, waiting.message, status.host_ip) == ("ErrImagePull", "why", "192.0.2.1")


async def test_report_continues_from_the_kept_status() -> None:
    node, wanted = Node(), pod()
    node.reports.manager.set_pod_status(wanted, PodStatus(phase="Failed", reason="Evicted", message="away"))
    status = node.reports.generate(wanted, NOTHING, is_terminal=False)
    assert (status.phase, status.reason, status.message) == ("Failed", "Evicted", "away")
    node.reports.manager.terminate_pod(wanted)
    kept = node.reports.manager.pod_status(UID)
    assert kept is not None
    assert kept.phase == "Failed"


async def test_deadline_emits_one_event_and_ends_the_pod() -> None:
    node = Node()
    wanted = pod(active_deadline_seconds=60, status=PodStatus(phase="Running", start_time=format_time(EPOCH)))
    assert node.reports.generate(wanted, NOTHING, is_terminal=False).phase == "Pending"
    node.clock.at = EPOCH + timedelta(seconds=60)
    for _ in range(2):
        status = node.reports.generate(wanted, NOTHING, is_terminal=False)
        node.reports.manager.set_pod_status(wanted, status)
    assert (status.phase, status.reason) == ("Failed", "DeadlineExceeded")
    assert node.told.reasons == ["DeadlineExceeded"]


def test_reason_is_forgotten_when_the_start_works() -> None:
    reasons = ReasonCache()
    reasons.update(UID, [FAILED])
    assert reasons.failures_of(pod())["main"].reason == "ErrImagePull"
    reasons.update(UID, [SyncResult(action=SyncAction.START_CONTAINER, target="main")])
    assert reasons.failures_of(pod()) == {}


def test_reason_used_least_recently_goes_when_there_are_too_many() -> None:
    reasons = ReasonCache(max_entries=2)
    for uid in ("uid-default-a", "uid-default-b"):
        reasons.update(PodUid(uid), [FAILED])
    assert reasons.failures_of(pod("a"))
    reasons.update(PodUid("uid-default-c"), [FAILED])
    assert len(reasons) == 2
    assert reasons.failures_of(pod("a"))
    assert not reasons.failures_of(pod("b"))
