"""Makes room on a disk that is full: removes dead containers, then images that nobody uses.

Upstream: buildSignalToNodeReclaimFuncs in pkg/kubelet/eviction/helpers.go
"""

from pykubelet.aio.log import get_logger
from pykubelet.runtime.gc import ContainerGc
from pykubelet.runtime.image_gc import ImageGc
from pykubelet.runtime.protocol import RuntimeFailure

log = get_logger(__name__)


class DiskReclaimer:
    """Both garbage collectors, in a hurry. A runtime without images has only the first."""

    def __init__(self, *, containers: ContainerGc, images: ImageGc | None) -> None:
        self._containers, self._images = containers, images

    async def reclaim(self) -> None:
        """Remove what nobody uses; what cannot be removed is only told."""
        try:
            await self._containers.collect(is_urgent=True)
        except (RuntimeFailure, OSError) as error:
            log.warning("dead containers not removed from a full disk", cause=str(error))
        if self._images is None:
            return
        try:
            await self._images.remove_unused()
        except RuntimeFailure as failure:
            log.warning("unused images not removed from a full disk", cause=failure.message)
