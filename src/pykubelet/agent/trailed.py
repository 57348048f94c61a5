"""Writes on the trails of pods what passes by: events about them, hooks of theirs, statuses sent.

Each stands where something goes on anyway, so that those who do it need not know of trails.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pykubelet.agent.flow import Trail, WaitAt
from pykubelet.agent.trail import DONE, EVENTS, NOT_SENT, SENT, STATUS, event_facts
from pykubelet.api.generated.core import ContainerState, LifecycleHandler, ObjectReference, Pod, PodStatus
from pykubelet.api.keys import PodUid
from pykubelet.kube.recorder import AnnotatingRecorder
from pykubelet.runtime.events import AnyContainer
from pykubelet.runtime.hooks import Hooks


class TrailedEvents:
    """Tells of events as another recorder does; those about pods are on their trails. An AnnotatingRecorder."""

    def __init__(self, recorder: AnnotatingRecorder, trail: Trail) -> None:
        self._recorder, self._trail = recorder, trail

    def event(
        self,
        involved: ObjectReference,
        event_type: str,
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        if involved.kind == "Pod" and involved.uid:
            self._trail.note(PodUid(involved.uid), EVENTS, reason, **event_facts(involved, message))
        self._recorder.event(involved, event_type, reason, message, annotations)


class TrailedHooks(Hooks):
    """Runs hooks; while one runs, its pod waits for it."""

    def __init__(self, trail: Trail, **parts: Any) -> None:
        super().__init__(**parts)
        self._trail = trail

    async def run(self, container_id: str, pod: Pod, container: AnyContainer, hook: LifecycleHandler) -> None:
        is_last = container.lifecycle is not None and hook is container.lifecycle.pre_stop
        uid, station = PodUid(pod.metadata.uid), f"{WaitAt.HOOKS}/{container.name}"
        self._trail.waits(uid, station, f"{'preStop' if is_last else 'postStart'} hook of container {container.name}")
        try:
            await super().run(container_id, pod, container, hook)
        finally:
            self._trail.waits(uid, station, "")


class StatusObserver(Protocol):
    """Hears what becomes of statuses."""

    def status_sent(self, pod: Pod, waited_seconds: float, /) -> None:
        """The API took a status."""

    def status_not_sent(self, uid: PodUid, why: str, /) -> None:
        """The API did not take a status."""

    def pod_forgotten(self, uid: PodUid, /) -> None:
        """The status of this pod is no longer kept."""

    def status_refused(self, pod: Pod, why: str, /) -> None:
        """A status was not accepted."""


class TrailedStatuses:
    """Notes what becomes of statuses, and has another StatusObserver hear it too."""

    def __init__(self, observer: StatusObserver, trail: Trail, *, pod_uid: Callable[[str], PodUid]) -> None:
        """`pod_uid` tells the UID that the node knows, also for the UID of a mirror."""
        self._observer, self._trail, self._pod_uid = observer, trail, pod_uid

    def status_sent(self, pod: Pod, waited_seconds: float) -> None:
        self._trail.note(self._pod_uid(pod.metadata.uid), STATUS, SENT, **status_facts(pod.status))
        self._observer.status_sent(pod, waited_seconds)

    def status_not_sent(self, uid: PodUid, why: str) -> None:
        self._trail.note(uid, STATUS, NOT_SENT, why=why)
        self._observer.status_not_sent(uid, why)

    def pod_forgotten(self, uid: PodUid) -> None:
        self._trail.note(uid, STATUS, DONE)
        self._observer.pod_forgotten(uid)

    def status_refused(self, pod: Pod, why: str) -> None:
        self._trail.note(PodUid(pod.metadata.uid), STATUS, "not accepted", why=why)
        self._observer.status_refused(pod, why)


def status_facts(status: PodStatus) -> dict[str, str]:
    """A status in a few words: phase, readiness, and what each container does."""
    ready = next((one.status for one in status.conditions if one.type == "Ready"), "")
    containers = (*status.init_container_statuses, *status.container_statuses)
    states = ", ".join(f"{one.name} {_word(one.state)}" for one in containers)
    return {"phase": status.phase, "ready": ready, "containers": states}


def _word(state: ContainerState) -> str:
    if state.running is not None:
        return "runs"
    if state.terminated is not None:
        return f"ended with {state.terminated.exit_code}"
    return f"waits: {state.waiting.reason}" if state.waiting is not None else "waits"
