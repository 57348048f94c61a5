"""The containers of pods, as the workers of a node see them: bring a pod further, end it, look at it.

Upstream: the interface Runtime of pkg/kubelet/container/runtime.go, as far as SyncPod, KillPod and GetPodStatus
"""

from collections.abc import Awaitable, Callable, Sequence

from pykubelet.api.generated.core import Pod, Secret
from pykubelet.api.keys import PodUid
from pykubelet.runtime.actions import ProbeResults
from pykubelet.runtime.apply import Applier
from pykubelet.runtime.keyring import keyring_of
from pykubelet.runtime.kill import Killer
from pykubelet.runtime.plan import plan
from pykubelet.runtime.protocol import Runtime, RuntimePod
from pykubelet.runtime.results import StepResult
from pykubelet.runtime.start_counts import StartCounts

Verdicts = Callable[[RuntimePod], ProbeResults]
"""What the probes say of a pod's containers."""
Prune = Callable[[RuntimePod], Awaitable[None]]
"""Removes dead containers of which there is a newer one of their name."""


class PodContainers:
    """Plans and does, one step of a pod at a time."""

    def __init__(self, *, runtime: Runtime, applier: Applier, killer: Killer, prune: Prune, verdicts: Verdicts) -> None:
        self._runtime, self._applier, self._killer = runtime, applier, killer
        self._prune, self._verdicts = prune, verdicts
        self.starts = StartCounts()

    async def sync_pod(self, pod: Pod, observed: RuntimePod, secrets: Sequence[Secret]) -> tuple[StepResult, ...]:
        """Go as far as possible towards what the pod should be; what came of each step."""
        actions = plan(pod, observed, self._verdicts(observed))
        if actions.create_sandbox:
            self.starts.sandbox_asked()
        results = await self._applier.apply(pod, observed, actions, keyring_of(secrets))
        self.starts.note(pod, results)
        return results

    async def kill_pod(
        self, pod: Pod | None, observed: RuntimePod, *, grace_seconds: int | None = None
    ) -> tuple[StepResult, ...]:
        """End everything that runs of a pod; None is one that only the runtime knows."""
        return await self._killer.kill_pod(pod, observed, grace_seconds=grace_seconds)

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        """What the runtime has of a pod, as of now."""
        return await self._runtime.inspect(uid)

    async def prune(self, observed: RuntimePod) -> None:
        """Remove ended containers of which there is a newer one of their name.

        Only what was seen and reported goes, so that a container is never gone before anybody heard how it ended.
        """
        await self._prune(observed)
