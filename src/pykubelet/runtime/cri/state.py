"""What the runtime says of itself, looked at every five seconds: whether it is ready, and its network.

Upstream: updateRuntimeUp in pkg/kubelet/kubelet.go, pkg/kubelet/runtime.go
"""

import asyncio

from cri_api.v1 import api_pb2 as cri

from pykubelet.runtime.cri.channel import Channel
from pykubelet.runtime.cri.statuses import complaints
from pykubelet.runtime.protocol import RuntimeFailure

_PERIOD_SECONDS = 5.0
# One that is started anew has so long to come back before the node says that it is down.
_PATIENCE_SECONDS = 30.0


class CriState:
    """The runtime's own word on its state; RuntimeState of the agent."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._runtime_error, self._network_error = "", ""
        self._last_answer: float | None = None

    def runtime_error(self) -> str:
        return self._runtime_error

    def network_error(self) -> str:
        return self._network_error

    async def run(self) -> None:
        """Look again and again."""
        while True:
            await self.look()
            await asyncio.sleep(_PERIOD_SECONDS)

    async def look(self) -> None:
        """Look once. Who does not answer for a while is down."""
        loop = asyncio.get_running_loop()
        try:
            answer = await self._channel.ask(cri.StatusRequest(), cri.StatusResponse)
        except RuntimeFailure:
            if self._last_answer is None or loop.time() - self._last_answer > _PATIENCE_SECONDS:
                self._runtime_error = "container runtime is down"
            return
        self._last_answer = loop.time()
        self._runtime_error, self._network_error = complaints(answer.status)
