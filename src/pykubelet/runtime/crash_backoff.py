"""How long a container that ended must wait before it starts again: the crash loop's back-off.

The first restart is immediate. Later ones wait 10, 20, 40, 80, 160, then 300 seconds, counted from the exit; one that
ran ten minutes begins at once again. The answer says until when, so that nobody has to ask every few seconds.
Time is passed in. Upstream: doBackOff in pkg/kubelet/kuberuntime/kuberuntime_manager.go, GetBackoffKey in helpers.go.
"""

from datetime import datetime
from typing import TypeAlias

from pykubelet.api.durations import format_duration
from pykubelet.api.generated.core import Pod
from pykubelet.runtime.events import AnyContainer, pod_text
from pykubelet.runtime.keyed_backoff import KeyedBackoff
from pykubelet.runtime.protocol import ContainerState, RuntimeFailure, RuntimePod

CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
FIRST_SECONDS, LIMIT_SECONDS, FORGOTTEN_AFTER_SECONDS = 10.0, 300.0, 600.0

_Items: TypeAlias = frozenset[tuple[str, str]]
_Key: TypeAlias = tuple[str, str, str, str, str, _Items, _Items]


class CrashBackoff:
    """The back-off of all containers of a node."""

    def __init__(
        self,
        *,
        first_seconds: float = FIRST_SECONDS,
        limit_seconds: float = LIMIT_SECONDS,
        forgotten_after_seconds: float = FORGOTTEN_AFTER_SECONDS,
    ) -> None:
        self._delays: KeyedBackoff[_Key] = KeyedBackoff(
            first_seconds=first_seconds,
            limit_seconds=limit_seconds,
            forgotten_after_seconds=forgotten_after_seconds,
        )
        self._told: dict[_Key, datetime] = {}

    def hold_back(
        self, pod: Pod, container: AnyContainer, observed: RuntimePod, now: datetime
    ) -> RuntimeFailure | None:
        """Why a start has to wait, and until when; None if it may go ahead."""
        exited_at = _last_exit(container.name, observed)
        if exited_at is None:
            return None
        key = _key(pod, container)
        until = self._delays.waits_until(key, event_at=exited_at, now=now)
        if until is None:
            return None
        delay = format_duration(self._delays.delay_seconds(key))
        message = f"back-off {delay} restarting failed container={container.name} pod={pod_text(pod)}"
        return RuntimeFailure(message, reason=CRASH_LOOP_BACK_OFF, retry_at=until)

    def is_news(self, pod: Pod, container: AnyContainer, refusal: RuntimeFailure) -> bool:
        """Whether users have not been told of this wait yet; afterwards they have."""
        key, until = _key(pod, container), refusal.retry_at
        assert until is not None
        is_news = self._told.get(key) != until
        self._told[key] = until
        return is_news

    def note_start(self, pod: Pod, container: AnyContainer, observed: RuntimePod, now: datetime) -> None:
        """The start went ahead: the next wait is longer."""
        exited_at = _last_exit(container.name, observed)
        if exited_at is not None:
            self._delays.advance(_key(pod, container), event_at=exited_at, now=now)

    def prune(self, now: datetime) -> None:
        """Drop what no longer matters; for housekeeping."""
        self._delays.prune(now)
        self._told = {key: until for key, until in self._told.items() if key in self._delays}


def back_off_event(pod: Pod, container: AnyContainer) -> str:
    """What the Warning `BackOff` says of a start that is put off."""
    return f"Back-off restarting failed container {container.name} in pod {pod_text(pod)}"


def _last_exit(name: str, observed: RuntimePod) -> datetime | None:
    """When the newest exited container of this name ended; one whose end has no time ended when it was made."""
    for container in observed.containers:
        if container.name == name and container.state == ContainerState.EXITED:
            return container.finished_at or container.created_at
    return None


def _key(pod: Pod, container: AnyContainer) -> _Key:
    # Another image or other resources may well mend the container, so they begin anew.
    meta, resources = pod.metadata, container.resources
    limits, requests = frozenset(resources.limits.items()), frozenset(resources.requests.items())
    return meta.name, meta.namespace, meta.uid, container.name, container.image, limits, requests
