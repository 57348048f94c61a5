"""What the syncs of a pod ask of the rest of the node.

Each Protocol is as narrow as its use; `app` passes the real ones. What may take time is async and may be interrupted;
what cannot be done raises, and the sync is tried again. Upstream: the fields of Kubelet that SyncPod and its kind use.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pykubelet.api.generated.core import Pod, PodStatus, Secret
from pykubelet.api.keys import PodUid
from pykubelet.runtime.protocol import RuntimePod
from pykubelet.runtime.results import StepResult


class StatusReports(Protocol):
    """Makes the API's status of what the runtime has, and keeps it."""

    def generate(self, pod: Pod, observed: RuntimePod, *, is_terminal: bool) -> PodStatus:
        """The status of a pod; `is_terminal` says that none of its containers will ever be started again."""

    def set_pod_status(self, pod: Pod, status: PodStatus) -> None:
        """The pod's status is this now."""

    def pod_status(self, uid: PodUid) -> PodStatus | None:
        """The status as it was kept."""

    def terminate_pod(self, pod: Pod) -> None:
        """Nothing of the pod is left on this node: its status is final."""


class Network(Protocol):
    """Whether pods can get a network."""

    def network_error(self) -> str:
        """Why not; empty if they can."""


class References(Protocol):
    """Keeps the secrets and config maps that a pod refers to at hand. Both are idempotent."""

    def register_pod(self, pod: Pod) -> None:
        """The pod needs them now."""

    def unregister_pod(self, pod: Pod) -> None:
        """The pod needs them no more."""


class Cgroups(Protocol):
    """The control groups of pods; OSError if something cannot be done."""

    def exists(self, pod: Pod) -> bool:
        """Whether the pod has one."""

    async def ensure(self, pod: Pod) -> None:
        """Make it, with the pod's limits."""

    async def remove(self, pod: Pod) -> None:
        """Remove it with everything below; nothing happens if there is none."""


class Mirrors(Protocol):
    """The mirrors of static pods in the API."""

    async def reconcile(self, pod: Pod) -> None:
        """Have the API show a static pod as it is; other pods have no mirror. Never raises."""


class Storage(Protocol):
    """A pod's folders and volumes."""

    async def make_directories(self, pod: Pod) -> None:
        """The folders every pod has; OSError if they cannot be made."""

    async def mount(self, pod: Pod) -> None:
        """Returns when every volume is there; raises with a message for people if one does not come."""

    def leave(self, pod: Pod) -> None:
        """Have the volumes stay as they are: the pod ends, and what it was made from may go before it."""

    async def unmount(self, pod: Pod) -> None:
        """Returns when no volume is left, and no path of one."""


class LastWords(Protocol):
    """What ended containers said last."""

    async def heard(self, pod: Pod, observed: RuntimePod) -> RuntimePod:
        """What the runtime has of a pod, with the termination messages of its containers. Never raises."""


class PullSecrets(Protocol):
    """The secrets that image pulls need."""

    async def pull_secrets(self, pod: Pod) -> tuple[Sequence[Secret], Sequence[str]]:
        """Those a pod names that could be had, and the names of those that could not."""


class Probes(Protocol):
    """Probes the containers of pods."""

    def add_pod(self, pod: Pod) -> None:
        """Probe this pod; nothing happens if it is probed already."""

    def stop_liveness_and_startup(self, pod: Pod) -> None:
        """Probe only whether it is ready from now on."""

    def remove_pod(self, pod: Pod) -> None:
        """Probe it no more."""


class Containers(Protocol):
    """The containers of pods."""

    async def sync_pod(self, pod: Pod, observed: RuntimePod, secrets: Sequence[Secret]) -> Sequence[StepResult]:
        """Go as far as possible towards what the pod should be; what came of each step."""

    async def kill_pod(
        self, pod: Pod | None, observed: RuntimePod, *, grace_seconds: int | None = None
    ) -> Sequence[StepResult]:
        """End everything that runs of a pod; None is one that only the runtime knows."""

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        """What the runtime has of a pod, as of now."""

    async def prune(self, observed: RuntimePod) -> None:
        """Remove ended containers of which there is a newer one of their name; call it once they were reported."""


class Reasons(Protocol):
    """Why containers did not start, for their statuses."""

    def update(self, uid: PodUid, results: Sequence[StepResult]) -> None:
        """What came of the last attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a pod needs around it before its containers can start. Without `cgroups` there are none to see to."""

    network: Network
    references: References
    mirrors: Mirrors
    storage: Storage
    pull_secrets: PullSecrets
    last_words: LastWords
    cgroups: Cgroups | None = None
