"""Images that only pretend: present, slow to pull or broken, as scripted by their name."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence

from pykubelet.runtime.file_system import FileSystem
from pykubelet.runtime.protocol import Credentials, Image, RuntimeFailure
from pykubelet.runtime.sim.behaviour import ImageBehaviour


class SimImages:
    """The images of a simulated machine, on a disk of their own; one of no script is pulled at once. Also an ImageFs."""

    def __init__(
        self, scripts: Mapping[str, ImageBehaviour] | None = None, *, disk_bytes: int = 1_000_000_000_000
    ) -> None:
        self._scripts, self._disk_bytes = dict(scripts or {}), disk_bytes
        self._present: dict[str, Image] = {}
        for name, script in self._scripts.items():
            if script.is_present:
                self._present[name] = _image(name, script)

    async def find(self, name: str) -> Image | None:
        error = self._script(name).find_error
        if error:
            raise RuntimeFailure(error)
        return self._present.get(name)

    async def pull(self, name: str, credentials: Sequence[Credentials]) -> Image:
        script = self._script(name)
        await asyncio.sleep(script.pull_seconds)
        if script.pull_error:
            raise RuntimeFailure(script.pull_error)
        if script.needs_user and script.needs_user not in {one.username for one in credentials}:
            raise RuntimeFailure(f"{name}: pull access denied")
        return self._present.setdefault(name, _image(name, script))

    async def images(self) -> Sequence[Image]:
        return list(self._present.values())

    async def remove_image(self, id: str) -> None:
        error = next((self._script(name).remove_error for name, one in self._present.items() if one.id == id), "")
        if error:
            raise RuntimeFailure(error)
        self._present = {name: image for name, image in self._present.items() if image.id != id}

    async def image_file_system(self) -> FileSystem:
        used = sum(image.size_bytes for image in self._present.values())
        return FileSystem(device=0, capacity_bytes=self._disk_bytes, available_bytes=max(self._disk_bytes - used, 0))

    def script(self, name: str, behaviour: ImageBehaviour) -> None:
        """Have the image behave like this from now on."""
        self._scripts[name] = behaviour

    def _script(self, name: str) -> ImageBehaviour:
        return self._scripts.get(name) or ImageBehaviour()


def _image(name: str, script: ImageBehaviour) -> Image:
    digest = hashlib.sha256(name.encode()).hexdigest()
    return Image(
        id=f"sha256:{digest}",
        names=(name,),
        size_bytes=script.size_bytes,
        user=script.user,
        is_pinned=script.is_pinned,
    )
