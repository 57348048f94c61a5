"""The images of a machine that has none: every name is one, and it is here already.

A container runs a command of the machine, whatever its image is called.
"""

import hashlib
from collections.abc import Sequence

from pykubelet.runtime.protocol import Credentials, Image


class ProcessImages:
    """Says yes to every image. `uid` is who runs containers that name no user, for pods that must not run as root."""

    def __init__(self, uid: int) -> None:
        self._uid = uid

    async def find(self, name: str) -> Image | None:
        return self._image(name)

    async def pull(self, name: str, credentials: Sequence[Credentials]) -> Image:  # noqa: ARG002  nobody is asked
        return self._image(name)

    async def images(self) -> Sequence[Image]:
        return ()

    async def remove_image(self, id: str) -> None:
        """Nothing is kept, so there is nothing to remove."""

    def _image(self, name: str) -> Image:
        digest = hashlib.sha256(name.encode()).hexdigest()
        return Image(id=f"sha256:{digest}", names=(name,), user=str(self._uid))
