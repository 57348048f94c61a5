"""Creates, links and removes the log directories of pods.

Logs are at `<root>/<namespace>_<name>_<uid>/<container>/<attempt>.log`; for log collectors that do not know pods there is
a link `<name>_<namespace>_<container>-<id>.log`. Disk access runs in threads because this disk may be full and slow.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/kubelet/kuberuntime/kuberuntime_gc.go,
pkg/kubelet/kuberuntime/legacy.go, pkg/kubelet/kuberuntime/helpers.go
"""

import asyncio
import shutil
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.protocol import RuntimeContainer, RuntimePod

log = get_logger(__name__)

# The maximum length of a file name.
_LONGEST_NAME = 255
_LINK_SUFFIX = ".log"


class PodNames(NamedTuple):
    """Namespace, name and UID of a pod."""

    namespace: str
    name: str
    uid: str


def pod_names(pod: Pod | RuntimePod) -> PodNames:
    """The names of a pod from its spec or from the runtime."""
    if isinstance(pod, RuntimePod):
        return PodNames(pod.namespace, pod.name, pod.uid)
    return PodNames(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def pod_uid_from_directory(name: str) -> PodUid:
    """The UID in the name of a pod's log directory; old kubelets used the UID alone."""
    return PodUid(name.rpartition("_")[2])


def log_link_name(pod: PodNames, container: str, container_id: str) -> str:
    """The name of the link to a container's log."""
    name = f"{pod.name}_{pod.namespace}_{container}-{container_id}"
    return name[: _LONGEST_NAME - len(_LINK_SUFFIX)] + _LINK_SUFFIX


def container_id_from_link(name: str) -> str:
    """The container id in the name of a link; empty if it has none."""
    container_id = name.removesuffix(_LINK_SUFFIX).rpartition("-")[2]
    has_id = name.endswith(_LINK_SUFFIX) and len(container_id) >= 6
    return container_id if has_id else ""


class LogDirectory:
    """The logs of a node below `root`, with a directory of links to them if `links` is set."""

    def __init__(self, root: Path, *, links: Path | None = None) -> None:
        self._root, self._links = root, links

    def of_pod(self, pod: PodNames) -> str:
        return f"{self._root}/{pod.namespace}_{pod.name}_{pod.uid}"

    def path(self, pod: PodNames, container: str, attempt: int) -> str:
        return f"{self.of_pod(pod)}/{container}/{attempt}.log"

    def container_path(self, pod: Pod, container: RuntimeContainer) -> str:
        """The log file of a container that the runtime reports."""
        return self.path(pod_names(pod), container.name, container.attempt)

    async def prepare(self, pod: PodNames, container: str) -> list[str]:
        """Create the directory for a container's logs; the files in it. OSError if that fails."""
        return await asyncio.to_thread(self._prepare, Path(self.of_pod(pod)) / container)

    def _prepare(self, directory: Path) -> list[str]:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        return [entry.name for entry in directory.iterdir() if not entry.is_dir()]

    async def link(self, pod: PodNames, container: str, container_id: str, log_path: str) -> None:
        """Create the link for log collectors, if the log exists."""
        if self._links is not None:
            link = self._links / log_link_name(pod, container, container_id)
            await asyncio.to_thread(_make_link, link, Path(log_path))

    async def remove(self, pod: PodNames, container: str, attempt: int, container_id: str) -> None:
        """Remove the logs of one container, including rotated ones, and the link. OSError if that fails."""
        link = self._links / log_link_name(pod, container, container_id) if self._links is not None else None
        await asyncio.to_thread(_remove_logs, Path(self.path(pod, container, attempt)), link)

    async def remove_pods(self, is_gone: Callable[[PodUid], bool]) -> None:
        """Remove the logs of pods that are gone."""
        names = await asyncio.to_thread(_names_in, self._root)
        for name in [name for name in names if is_gone(pod_uid_from_directory(name))]:
            await asyncio.to_thread(shutil.rmtree, self._root / name, ignore_errors=True)

    async def remove_dead_links(self, alive: Collection[str]) -> None:
        """Remove dangling links, except those of containers `alive`, whose logs may just be rotated."""
        if self._links is not None:
            await asyncio.to_thread(_remove_dead_links, self._links, alive)


def _names_in(directory: Path) -> list[str]:
    try:
        return [entry.name for entry in directory.iterdir()]
    except FileNotFoundError:
        return []


def _make_link(link: Path, target: Path) -> None:
    if target.exists():
        try:
            link.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                link.symlink_to(target)
        except OSError as error:
            log.warning("link to container log not created", link=link, cause=error.strerror)


def _remove_logs(path: Path, link: Path | None) -> None:
    for name in _names_in(path.parent):
        if name == path.name or name.startswith(f"{path.name}."):
            (path.parent / name).unlink(missing_ok=True)
    if link is not None:
        link.unlink(missing_ok=True)


def _remove_dead_links(directory: Path, alive: Collection[str]) -> None:
    for name in _names_in(directory):
        link = directory / name
        if name.endswith(".log") and not link.exists() and container_id_from_link(name) not in alive:
            link.unlink(missing_ok=True)
