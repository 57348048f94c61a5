"""The API server source: pods that are bound to this node.

Watches pods with `spec.nodeName` of this node once the API server has the node. Sends one SET with the first list, then
ADD and REMOVE of just the changed pods; upstream sends a SET of all pods for each change. Changes that arrive faster
than PodConfig takes them are merged to the newest state of each pod.

Upstream: pkg/kubelet/config/apiserver.go
"""

import asyncio

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod
from pykubelet.api.scheme import PODS
from pykubelet.client.interface import Selection
from pykubelet.client.reflector import ListerWatcher, Reflector
from pykubelet.kubelet.config.config import SourceChannel
from pykubelet.kubelet.config.merge import Pods
from pykubelet.kubelet.types import PodOperation

log = get_logger(__name__)


class ApiPodBuffer:
    """Merges watched changes until PodConfig takes them: the newest object of each UID. A reflector Sink."""

    def __init__(self) -> None:
        self._present: dict[str, Pod] = {}
        self._gone: dict[str, Pod] = {}
        self._is_first = True
        self._is_complete = False
        self._changed = asyncio.Event()

    def added(self, pod: Pod, /) -> None:
        self._present[pod.metadata.uid] = pod
        self._note()

    def modified(self, pod: Pod, /) -> None:
        self.added(pod)

    def deleted(self, pod: Pod, /) -> None:
        self._present.pop(pod.metadata.uid, None)
        self._gone[pod.metadata.uid] = pod
        self._note()

    def synced(self) -> None:
        self._is_complete = True
        self._note()

    async def take(self) -> tuple[tuple[PodOperation, Pods], ...]:
        """Wait for a change, at first for the complete list, and return the messages to send, in order."""
        await self._changed.wait()
        self._changed.clear()
        present, self._present = tuple(self._present.values()), {}
        gone, self._gone = tuple(self._gone.values()), {}
        if self._is_first:
            self._is_first = False
            return ((PodOperation.SET, present),)
        # For a recreated pod the old one is removed before the new one is added.
        messages = ((PodOperation.REMOVE, gone), (PodOperation.ADD, present))
        return tuple((op, pods) for op, pods in messages if pods)

    def _note(self) -> None:
        if self._is_complete:
            self._changed.set()


class ApiServerSource:
    """Follows the pods of one node."""

    def __init__(
        self, *, client: ListerWatcher, node_name: str, node_known: asyncio.Event, channel: SourceChannel, clock: Clock
    ) -> None:
        """`node_known` is set once the API server has the node; before that, pods could not be admitted."""
        self._node_name, self._node_known, self._channel = node_name, node_known, channel
        self._pending = ApiPodBuffer()
        self._reflector = Reflector(
            client=client,
            kind=PODS,
            sink=self._pending,
            clock=clock,
            selection=Selection(fields=f"spec.nodeName={node_name}"),
        )

    async def run(self, ready: asyncio.Event) -> None:
        """Follow the pods until cancelled; `ready` is set after the first list."""
        await self._node_known.wait()
        log.info("watching pods", node=self._node_name)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._send_all(), name="send pods of the API server")
            await self._reflector.run(ready)

    async def _send_all(self) -> None:
        while True:
            for op, pods in await self._pending.take():
                await self._channel.send(op, pods)
