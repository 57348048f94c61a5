"""Has containers that could not be made for want of a config map or secret tried again when it comes.

In: which container waits for which objects. Out: a call for its pod as soon as one of them changes. Upstream tries such
a container again at the next sync of its pod, some ten seconds later.
"""

import asyncio
from collections.abc import Callable, Container, Iterable

from pykubelet.agent.volumes.interest import Interest, Named
from pykubelet.agent.volumes.objects import PodObjects
from pykubelet.api.keys import PodUid


class AwaitedObjects:
    """What containers wait for. Owned by one loop."""

    def __init__(self, *, objects: PodObjects, arrived: Callable[[PodUid], None]) -> None:
        """`arrived` is called with the UID of the pod."""
        self._objects, self._arrived = objects, arrived
        self._waiting: Interest[tuple[PodUid, str]] = Interest()

    def expect(self, uid: PodUid, container: str, objects: Iterable[Named]) -> None:
        """A container is about to be made of these objects, or, of none, has been made."""
        self._waiting.set((uid, container), objects)

    async def run(self, ready: asyncio.Event) -> None:
        """Tell of changes until cancelled."""
        await self._objects.follow(self._changed, ready)

    async def remove_orphans(self, keep: Container[PodUid]) -> None:
        """Forget pods that are gone."""
        for uid, container in tuple(self._waiting.as_map()):
            if uid not in keep:
                self._waiting.set((uid, container), ())

    def _changed(self, named: Named | None) -> None:
        for uid in dict.fromkeys(uid for uid, _ in self._waiting.users(named)):
            self._arrived(uid)
