"""What containers use, as the runtime measures it.

Upstream: pkg/kubelet/stats/cri_stats_provider.go
"""

from collections.abc import Mapping

from cri_api.v1 import api_pb2 as cri

from pykubelet.runtime.cri.channel import Channel
from pykubelet.runtime.cri.readings import usage_of
from pykubelet.runtime.usage import Usage


class CriUsages:
    """Measures all containers with one call."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def usages(self) -> Mapping[str, Usage]:
        # As long as it takes: the runtime may have to sum up the files of every container.
        answer = await self._channel.ask(
            cri.ListContainerStatsRequest(), cri.ListContainerStatsResponse, timeout_seconds=None
        )
        readings = ((one.attributes.id, usage_of(one)) for one in answer.stats)
        return {id: usage for id, usage in readings if usage is not None}
