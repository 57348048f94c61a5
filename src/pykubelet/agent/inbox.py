"""What stations have to tell the loop: ends of pods, verdicts of probes, what pods waited for.

In: calls from any station, which never wait. Out: the same, one at a time, in order, for the loop. What is told twice
before it was taken is told once, in its newest form, so that this never grows beyond the pods there are.
"""

from msgspec import Struct

from pykubelet.agent.flow import ProbeResult
from pykubelet.aio.keyed_queue import KeyedQueue
from pykubelet.api.keys import PodUid


class PodStopped(Struct, frozen=True):
    """No container of this pod can run any more."""

    uid: PodUid


class PodEnded(Struct, frozen=True):
    """The worker of this pod has nothing left to do."""

    uid: PodUid


class ObjectsArrived(Struct, frozen=True):
    """Something this pod was waiting for may be there."""

    uid: PodUid


News = ObjectsArrived | PodStopped | PodEnded | ProbeResult


class LoopInbox:
    """A letter box; a listener of workers and of probes."""

    def __init__(self) -> None:
        self._news: KeyedQueue[tuple[object, ...], News] = KeyedQueue()

    def pod_stopped(self, uid: PodUid) -> None:
        """No container of this pod can run any more."""
        self._news.put((PodStopped, uid), PodStopped(uid))

    def pod_ended(self, uid: PodUid) -> None:
        """The worker of this pod has nothing left to do."""
        self._news.put((PodEnded, uid), PodEnded(uid))

    def objects_arrived(self, uid: PodUid) -> None:
        """Something this pod was waiting for may be there."""
        self._news.put((ObjectsArrived, uid), ObjectsArrived(uid))

    def probed(self, result: ProbeResult) -> None:
        """A probe's verdict changed."""
        self._news.put((ProbeResult, result.container_id, result.kind), result)

    async def next(self) -> News:
        """What was told longest ago; waits for something."""
        key, news = await self._news.get()
        self._news.done(key)
        return news
