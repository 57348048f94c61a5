"""Takes back what pods were told about their end, if it does not come.

A pod that is to be disrupted says so in a condition. If it is not deleted within two minutes, whoever announced it has
given up. In: changes of pods. Out: the condition, set to False.
Upstream: syncStalePodDisruption in pkg/controller/disruption/disruption.go.
"""

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Pod
from pykubelet.api.typed import PODS
from pykubelet.controllers.disruption.stale import seconds_until_stale, withdrawal
from pykubelet.controllers.informers import Informers
from pykubelet.controllers.object_index import key_of
from pykubelet.controllers.owner_access import OwnerClient
from pykubelet.controllers.pod_index import PodIndex
from pykubelet.controllers.work_queue import WorkQueue


class StaleDisruptions:
    """Syncs pods by key."""

    def __init__(self, *, client: OwnerClient, pods: PodIndex, clock: Clock) -> None:
        self._client, self._pods, self._clock = client, pods, clock
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        """Hear of every change of pods."""
        informers.tell(PODS, added=self.pod_put, updated=lambda _old, new: self.pod_put(new), deleted=lambda _pod: None)

    def pod_put(self, pod: Pod) -> None:
        """A pod is new or has changed."""
        seconds = seconds_until_stale(pod, self._clock.now())
        if seconds is not None:
            self.queue.add_after(key_of(pod), seconds)

    async def process_next(self) -> None:
        """Sync the next pod of the queue; a failure puts it back, later."""
        await self.queue.process_next(self.sync)

    async def sync(self, key: str) -> None:
        """Take a pod's condition back if its time is over."""
        pod = self._pods.get(key)
        now = self._clock.now()
        seconds = seconds_until_stale(pod, now) if pod is not None else None
        if pod is None or seconds is None:
            return
        if seconds > 0:
            self.queue.add_after(key, seconds)
            return
        meta = pod.metadata
        await self._client.patch(PODS, meta.name, withdrawal(pod, now), namespace=meta.namespace, subresource="status")
