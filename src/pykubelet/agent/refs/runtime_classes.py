"""The runtime classes of the cluster: which way of running containers a pod means by a name.

Few pods name one, and only when their sandbox is made, so each is asked for then instead of being watched.
Upstream: pkg/kubelet/runtimeclass/runtimeclass_manager.go
"""

from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.typed import RUNTIME_CLASSES
from pykubelet.kube.client import Reader
from pykubelet.runtime.protocol import RuntimeFailure


class RuntimeClasses:
    """Finds the handler of a runtime class. Without a client, on a node of its own, there are none."""

    def __init__(self, *, client: Reader | None) -> None:
        self._client = client

    async def handler(self, class_name: str) -> str:
        """What the container runtime calls this class; RuntimeFailure if there is none."""
        missing = RuntimeFailure(f'runtimeclass.node.k8s.io "{class_name}" not found')
        if self._client is None:
            raise missing
        try:
            return (await self._client.get(RUNTIME_CLASSES, class_name)).handler
        except NotFound as error:
            raise missing from error
        except ApiError as error:
            raise RuntimeFailure(f"failed to lookup RuntimeClass {class_name}: {error.message}") from error
