"""What the node's API asks of the rest of the node, as narrow as its use."""

from collections.abc import Callable, Sequence
from typing import Protocol

from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.keys import PodUid
from pykubelet.api.wire import Document
from pykubelet.runtime.log_paths import PodNames
from pykubelet.runtime.protocol import RuntimePod


class Pods(Protocol):
    """The pods this node should run; a PodManager."""

    def pods(self) -> Sequence[Pod]:
        """All of them, static ones included, mirrors not."""

    def pod_by_name(self, namespace: str, name: str) -> Pod | None:
        """The one of this name."""

    def translate_pod_uid(self, uid: str) -> PodUid:
        """The UID the node works with, also for the UID of a mirror."""


class Statuses(Protocol):
    """What the node says about its pods; a StatusManager."""

    def pod_status(self, uid: str) -> PodStatus | None:
        """The newest status of a pod."""


class Explanations(Protocol):
    """Why pods are where they are; a PodExplainer."""

    def explain(self, namespace: str, name: str) -> Document | None:
        """What was decided about a pod and what it waits for; None if there is no such pod."""


class Looks(Protocol):
    """What the runtime has of each pod; a PodCache."""

    def get(self, uid: PodUid) -> RuntimePod:
        """What there is of a pod, an empty one if nothing; RuntimeFailure if that is not known."""

    async def until(self, uid: PodUid, is_so: Callable[[RuntimePod], bool]) -> None:
        """Wait for a look at a pod that shows what is waited for."""


class RunningPods(Protocol):
    """Everything that runs; a Runtime."""

    async def pods(self) -> Sequence[RuntimePod]:
        """All pods it has; RuntimeFailure if it does not answer."""


class LogPaths(Protocol):
    """Where logs are; a LogDirectory."""

    def path(self, pod: PodNames, container: str, attempt: int) -> str:
        """Where the log of one container is."""
