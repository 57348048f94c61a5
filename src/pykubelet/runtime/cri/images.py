"""The images of a container runtime: Images, ImageFs.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_image.go, PullImage in k8s.io/cri-client/pkg/remote_image.go
"""

import asyncio
from collections.abc import Sequence

from cri_api.v1 import api_pb2 as cri

from pykubelet.runtime.cri.channel import NOT_FOUND, UNKNOWN, Channel, CriFailure
from pykubelet.runtime.file_system import FileSystem, read_file_system
from pykubelet.runtime.protocol import Credentials, Image, RuntimeFailure

_ROOT = "0"


class CriImages:
    """Finds, pulls and removes images, and tells what room there is for them."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._users: dict[str, str] = {}
        """Whom images run as, by their ids: what has the same id is the same."""

    async def find(self, name: str) -> Image | None:
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=name))
        answer = await self._channel.ask(request, cri.ImageStatusResponse)
        if not answer.HasField("image") or not answer.image.id:
            return None
        found = _image(answer.image)
        self._users[found.id] = found.user or _ROOT
        return found

    async def pull(self, name: str, credentials: Sequence[Credentials]) -> Image:
        failures: list[str] = []
        for one in credentials or (None,):
            try:
                return await self._pull(name, one)
            except CriFailure as failure:
                # A code that says nothing only makes the message longer.
                failures.append(failure.details if failure.code == UNKNOWN else failure.message)
        told = tuple(dict.fromkeys(failures))
        raise RuntimeFailure(told[0] if len(told) == 1 else f"[{', '.join(told)}]")

    async def images(self) -> Sequence[Image]:
        answer = await self._channel.ask(cri.ListImagesRequest(), cri.ListImagesResponse)
        found = [_image(image) for image in answer.images]
        # Not filled from here: some runtimes tell users only when asked for one image.
        self._users = {image.id: self._users[image.id] for image in found if image.id in self._users}
        return found

    async def remove_image(self, id: str) -> None:
        request = cri.RemoveImageRequest(image=cri.ImageSpec(image=id))
        await self._channel.ask(request, cri.RemoveImageResponse)

    async def image_file_system(self) -> FileSystem:
        answer = await self._channel.ask(cri.ImageFsInfoRequest(), cri.ImageFsInfoResponse)
        for usage in answer.image_filesystems:
            try:
                return await asyncio.to_thread(read_file_system, usage.fs_id.mountpoint)
            except OSError as error:
                told = f"the file system of images at {usage.fs_id.mountpoint} cannot be read: {error.strerror}"
                raise RuntimeFailure(told) from error
        raise RuntimeFailure("the runtime does not tell where its images are")

    async def user_of(self, id: str) -> str:
        """Whom an image runs as: a number or a name."""
        if id not in self._users:
            await self.find(id)
        return self._users.get(id, _ROOT)

    async def _pull(self, name: str, credentials: Credentials | None) -> Image:
        auth = None
        if credentials is not None:
            auth = cri.AuthConfig(username=credentials.username, password=credentials.password)
        request = cri.PullImageRequest(image=cri.ImageSpec(image=name, user_specified_image=name), auth=auth)
        # As long as it takes: the runtime gives up by itself when nothing comes any more.
        answer = await self._channel.ask(request, cri.PullImageResponse, timeout_seconds=None)
        found = await self.find(answer.image_ref)
        if found is None:
            raise CriFailure(NOT_FOUND, f'image "{answer.image_ref}" was pulled, but is not there')
        return found


def _image(image: cri.Image) -> Image:
    """An image that names no user runs as root, and must not where that is forbidden."""
    user = str(image.uid.value) if image.HasField("uid") else image.username or _ROOT
    names = (*image.repo_tags, *image.repo_digests)
    return Image(id=image.id, names=names, size_bytes=image.size, user=user, is_pinned=image.pinned)
