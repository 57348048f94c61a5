"""Images for a runtime that has none: whatever a container names is as good as here."""

from collections.abc import Sequence

from pykubelet.api.generated.core import ObjectReference, Pod
from pykubelet.runtime.events import AnyContainer
from pykubelet.runtime.protocol import Credentials


class NoImages:
    """Nothing is pulled; a ContainerImages."""

    async def ensure(
        self,
        pod: Pod,  # noqa: ARG002
        container: AnyContainer,
        involved: ObjectReference,  # noqa: ARG002
        credentials: Sequence[Credentials] = (),  # noqa: ARG002
    ) -> str:
        return container.image

    async def user_of(self, container: AnyContainer) -> str | None:  # noqa: ARG002
        return None
