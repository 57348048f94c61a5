"""When the change happened that an update of endpoints answers.

Pure. So it can be measured how long the way from there takes. Of all pods that changed since the last sync, and the
service, the earliest counts. Upstream: k8s.io/endpointslice/util/trigger_time_tracker.go.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pykubelet.api.generated.core import Pod, Service
from pykubelet.api.times import nanoseconds
from pykubelet.controllers.object_index import key_of

ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"


@dataclass(slots=True)
class _Seen:
    service: str = ""
    pods: dict[str, str] = field(default_factory=dict)


class TriggerTimes:
    """What was seen of each service at its last sync."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def of(self, service: Service, pods: Iterable[Pod]) -> str | None:
        """When the first of the changes since the last call happened; None if nothing that has a time changed."""
        key = key_of(service)
        old = self._seen.get(key)
        new = _Seen(
            service.metadata.creation_timestamp or "",
            {pod.metadata.name: time for pod in pods if (time := _ready_time(pod))},
        )
        self._seen[key] = new
        if old is None:
            return new.service or None
        changed = [time for name, time in new.pods.items() if _is_after(time, old.pods.get(name, ""))]
        if _is_after(new.service, old.service):
            changed.append(new.service)
        return min(changed, key=nanoseconds, default=None)

    def forget(self, key: str) -> None:
        """The service is gone."""
        self._seen.pop(key, None)


def _ready_time(pod: Pod) -> str | None:
    return next((one.last_transition_time for one in pod.status.conditions if one.type == "Ready"), None)


def _is_after(time: str, other: str) -> bool:
    return bool(time) and (not other or nanoseconds(time) > nanoseconds(other))
