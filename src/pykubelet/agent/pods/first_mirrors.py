"""Shows static pods in the API as soon as the node is known there, instead of at their next sync.

Upstream: fastStaticPodsRegistration in pkg/kubelet/kubelet.go.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from pykubelet.agent.pods.mirror import MirrorKeeper
from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid


class StaticPods(Protocol):
    """The static pods of this node and their mirrors; a PodManager is one."""

    def static_to_mirror(self) -> Mapping[PodUid, Pod | None]:
        """The mirror of each static pod, or None where there is none yet."""

    def pod_by_uid(self, uid: PodUid) -> Pod | None:
        """The regular pod with this UID."""


class FirstMirrors:
    """Does it once."""

    def __init__(self, *, pods: StaticPods, keeper: MirrorKeeper, node_known: asyncio.Event) -> None:
        self._pods, self._keeper, self._node_known = pods, keeper, node_known

    async def run(self, ready: asyncio.Event) -> None:
        """Wait for the node, then see to each static pod's mirror."""
        ready.set()
        await self._node_known.wait()
        for uid, mirror in self._pods.static_to_mirror().items():
            if pod := self._pods.pod_by_uid(uid):
                await self._keeper.reconcile_mirror_pod(pod, mirror)
