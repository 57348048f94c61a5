"""Recorders that copy events and statuses to the trails of pods and pass them on."""

from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    ObjectReference,
    Pod,
    PodStatus,
)
from pykubelet.api.pods import PodUid
from pykubelet.client.recorder import LogRecorder
from pykubelet.kubelet.explain.trail import PodTrails, TrailEventRecorder, TrailStatusObserver, status_facts
from pykubelet.testing.build import mirror_pod, pod
from pykubelet.testing.virtual_time import ManualClock

UID = PodUid("uid")


class Heard:
    """A StatusObserver that records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def status_sent(self, _pod: Pod, _waited_seconds: float, /) -> None:
        self.calls.append("sent")

    def status_not_sent(self, _uid: PodUid, why: str, /) -> None:
        self.calls.append(why)

    def pod_forgotten(self, uid: PodUid, /) -> None:
        self.calls.append(uid)

    def status_refused(self, _pod: Pod, why: str, /) -> None:
        self.calls.append(why)


def test_events_of_pods_are_noted_and_those_of_others_are_not() -> None:
    """The entry names the container if the event is about one."""
    trail = PodTrails(clock=ManualClock())
    events = TrailEventRecorder(LogRecorder(), trail)
    about = ObjectReference(kind="Pod", namespace="default", name="web", uid=UID, field_path="spec.containers{main}")
    events.event(about, "Normal", "Started", "Started container main")
    events.event(ObjectReference(kind="Pod", name="web", uid=UID), "Warning", "FailedMount", "no disk")
    events.event(ObjectReference(kind="Node", name="n", uid="n"), "Warning", "Rebooted", "again")
    events.event(ObjectReference(kind="Pod", name="unknown"), "Warning", "Failed", "who")
    assert [(one.what, one.facts) for one in trail.entries(UID)] == [
        ("Started", (("container", "main"), ("said", "Started container main"))),
        ("FailedMount", (("said", "no disk"),)),
    ]
    assert len(trail) == 1


def test_statuses_are_noted_with_the_pod_the_node_knows() -> None:
    """A status sent to a mirror pod is recorded for its static pod; the wrapped observer gets every call."""
    trail, heard = PodTrails(clock=ManualClock()), Heard()
    statuses = TrailStatusObserver(heard, trail, pod_uid=lambda uid: UID if uid == "mirror-1" else PodUid(uid))
    statuses.status_sent(mirror_pod(), 0.1)
    statuses.status_not_sent(UID, "no answer")
    statuses.status_refused(pod(uid=UID), "backwards")
    statuses.pod_forgotten(UID)
    assert heard.calls == ["sent", "no answer", "backwards", UID]
    assert [one.what for one in trail.entries(UID)] == ["sent", "not sent", "not accepted", "done, the pod may go"]


def test_status_facts_are_short() -> None:
    """They name the state of each container."""
    states = (
        ContainerState(),
        ContainerState(waiting=ContainerStateWaiting(reason="ErrImagePull")),
        ContainerState(terminated=ContainerStateTerminated(exit_code=3)),
    )
    listed = tuple(ContainerStatus(name=f"c{number}", state=state) for number, state in enumerate(states))
    assert status_facts(PodStatus(phase="Running", container_statuses=listed)) == {
        "phase": "Running",
        "ready": "",
        "containers": "c0 waits, c1 waits: ErrImagePull, c2 ended with 3",
    }
