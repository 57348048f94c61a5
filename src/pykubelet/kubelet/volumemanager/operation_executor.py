"""Sets up volumes on disk by plugin, and tears down what pods left there. Blocks; runs in a thread.

Tear-down works from what is on disk, not from memory, so it is the same after a restart. Volumes of our plugins are
unmounted and emptied; of other plugins only empty directories are removed. The directory of all volumes is never deleted
with its content.

Upstream: pkg/volume/util/operationexecutor/operation_executor.go, pkg/volume/hostpath/host_path.go,
pkg/kubelet/kubelet_volumes.go
"""

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pykubelet.api.generated.core import HostPathVolumeSource
from pykubelet.kubelet.volumemanager import filesystem
from pykubelet.kubelet.volumemanager.atomic_writer import has_version, write_payload
from pykubelet.kubelet.volumemanager.desired_state_of_world import PAYLOAD_PLUGINS, PlannedVolume, Plugin
from pykubelet.kubelet.volumemanager.errors import VolumeError, VolumesNotRemoved
from pykubelet.kubelet.volumemanager.filesystem import Mounter
from pykubelet.kubelet.volumemanager.mounts import ReadyVolume
from pykubelet.kubelet.volumemanager.pod_dirs import VOLUMES, PodDir, make_mount_points, make_volume_folder, pods_dir
from pykubelet.kubelet.volumemanager.projected import Payload, fingerprint
from pykubelet.kubelet.volumemanager.subpath import remove_sub_paths

_DIRECTORY_MODE = 0o755
_FILE_MODE = 0o644

_CHECKS: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}

_OURS = frozenset(plugin.replace("/", "~") for plugin in Plugin)


def check_host_path(source: HostPathVolumeSource) -> None:
    """Check the type of a hostPath and create it if its type says so; raises VolumeError or OSError."""
    path, expected = source.path, source.type or ""
    if ".." in path.split("/"):
        raise VolumeError(f"invalid HostPath `{path}`: must not contain '..'")
    if "\0" in path:
        raise VolumeError("invalid HostPath: must not contain a NUL byte")
    if not expected:
        return
    if expected not in _CHECKS:
        raise VolumeError(f"{expected} is an invalid volume type")
    is_right, words = _CHECKS[expected]
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        if _create(path, expected):
            return
        mode = 0
    if not is_right(mode):
        raise VolumeError(f"hostPath type check failed: {path} is not {words}")


def _create(path: str, expected: str) -> bool:
    match expected:
        case "DirectoryOrCreate":
            Path(path).mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)
        case "FileOrCreate":
            os.close(os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, _FILE_MODE))
        case _:
            return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VolumeJob:
    """A volume to set up; `payload` has its files, or the error if they are not available."""

    planned: PlannedVolume
    payload: Payload | VolumeError | None = None


def fingerprints(jobs: Iterable[VolumeJob]) -> tuple[tuple[str, bytes], ...] | None:
    """A value that is equal for jobs with equal results; None if the files of one are not available."""
    found: list[tuple[str, bytes]] = []
    for job in jobs:
        if isinstance(job.payload, VolumeError):
            return None
        found.append((job.planned.name, fingerprint(job.payload or {})))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeOutcome:
    """The result for a volume: whether it is ready, and a message for its user."""

    volume: ReadyVolume | None
    problem: str = ""
    is_on_disk_instead: bool = False
    """The volume should be in memory, but the kubelet may not mount; reported once, when it is created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSetUp:
    """Sets up the volumes of one pod."""

    directory: PodDir
    group: int | None
    now: datetime
    mounter: Mounter

    def make_all(self, jobs: Iterable[VolumeJob]) -> dict[str, VolumeOutcome]:
        """Set up every volume that is possible; return the outcomes by name."""
        return {job.planned.name: self._outcome(job) for job in jobs}

    def _outcome(self, job: VolumeJob) -> VolumeOutcome:
        ready = ready_volume(self.directory, job.planned)
        try:
            is_on_disk_instead = self._make(ready.path, job)
        except (OSError, VolumeError) as problem:
            # Containers continue with the previous version of the files.
            is_usable = job.planned.plugin in PAYLOAD_PLUGINS and has_version(ready.path)
            return VolumeOutcome(volume=ready if is_usable else None, problem=str(problem))
        is_empty_dir = job.planned.plugin is Plugin.EMPTY_DIR
        return VolumeOutcome(volume=ready, is_on_disk_instead=is_on_disk_instead and is_empty_dir)

    def _make(self, path: str, job: VolumeJob) -> bool:
        planned = job.planned
        if planned.volume.host_path:
            check_host_path(planned.volume.host_path)
            return False
        if isinstance(job.payload, VolumeError):
            raise job.payload
        is_on_disk_instead = make_volume_folder(path, planned, group=self.group, mounter=self.mounter)
        if job.payload is not None:
            make_mount_points(path, planned.mount_points)
            write_payload(path, job.payload, now=self.now, group=self.group)
        return is_on_disk_instead


def ready_volume(directory: PodDir, planned: PlannedVolume) -> ReadyVolume:
    """The path of a volume once it is ready."""
    if planned.volume.host_path:
        return ReadyVolume(planned.volume.host_path.path)
    return ReadyVolume(directory.volume(planned.plugin, planned.name), planned.plugin in PAYLOAD_PLUGINS)


def pods_on_disk(root: str) -> list[str]:
    """The UIDs of all pods that have a directory."""
    with suppress(FileNotFoundError), os.scandir(pods_dir(root)) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    return []


def volume_paths(directory: PodDir) -> list[str]:
    """The paths of the volumes that a pod has on disk."""
    return [f"{directory.volumes}/{plugin}/{name}" for plugin, name in _volumes(directory)]


def tear_down_volumes(directory: PodDir, mounter: Mounter) -> None:
    """Remove all volumes of a pod; tries each before it raises VolumesNotRemoved."""
    left: list[str] = []
    causes: list[str] = []
    try:
        remove_sub_paths(directory, mounter)
    except OSError as error:
        # First, because bind mounts of sub-paths keep volumes busy.
        raise VolumesNotRemoved(f"mounted volumes=[]: sub-paths: {error}") from error
    for plugin, name in _volumes(directory):
        try:
            _tear_down(f"{directory.volumes}/{plugin}", name, mounter, is_ours=plugin in _OURS)
        except OSError as error:
            left.append(name)
            causes.append(str(error))
    if left:
        raise VolumesNotRemoved(f"mounted volumes=[{' '.join(sorted(left))}]: {'; '.join(causes)}")


def remove_pod_folder(directory: PodDir, mounter: Mounter) -> None:
    """Remove a pod's directory with its content; raises VolumesNotRemoved or OSError if something is left."""
    tear_down_volumes(directory, mounter)
    with filesystem.opened(str(Path(directory.path).parent)) as pods:
        name = Path(directory.path).name
        with filesystem.opened(name, within=pods) as pod:
            filesystem.remove_tree(pod, VOLUMES, with_files=False)
            for other in filesystem.names_in(pod):
                filesystem.remove_tree(pod, other)
        os.rmdir(name, dir_fd=pods)


def _volumes(directory: PodDir) -> list[tuple[str, str]]:
    """Plugin and name of each volume on disk, from the directory names."""
    found: list[tuple[str, str]] = []
    with suppress(FileNotFoundError), filesystem.opened(directory.volumes) as volumes:
        for plugin in filesystem.names_in(volumes):
            with suppress(NotADirectoryError), filesystem.opened(plugin, within=volumes) as folder:
                found += [(plugin, name) for name in filesystem.names_in(folder)]
    return found


def _tear_down(parent: str, name: str, mounter: Mounter, *, is_ours: bool) -> None:
    path = f"{parent}/{name}"
    while is_ours and filesystem.is_mount_point(path):
        mounter.unmount(path)
    with filesystem.opened(parent) as above:
        filesystem.remove_tree(above, name, with_files=is_ours)
