"""Bind-mounts sub-paths of volumes safely: no link can lead out of the volume.

A container could replace a directory of its volume by a link just before another container mounts it. Therefore the path
is opened name by name, and the open file is bound through /proc, so that it cannot be replaced.

Upstream: pkg/volume/util/subpath/subpath_linux.go
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pykubelet.kubelet.volumemanager import filesystem
from pykubelet.kubelet.volumemanager.errors import ContainerConfigError
from pykubelet.kubelet.volumemanager.filesystem import Mounter, NoRightToMount
from pykubelet.kubelet.volumemanager.mounts import PlannedMount
from pykubelet.kubelet.volumemanager.pod_dirs import SUB_PATHS, PodDir, make_pod_folders


def bind_sub_path(directory: PodDir, mount: PlannedMount, container: str, mounter: Mounter) -> str:
    """Bind a sub-path of a volume and return the path of the bind mount; raises ContainerConfigError if unsafe.

    A missing sub-path is created as a directory. The message does not disclose paths of the host.
    """
    names = f'volumeMount "{mount.volume}" of container "{container}"'
    try:
        _make_missing(mount.volume_path, mount.sub_path)
    except OSError as error:
        raise ContainerConfigError(f"failed to create subPath directory for {names}") from error
    target = directory.sub_path(mount.volume, container, mount.index)
    try:
        with _opened_part(mount.volume_path, mount.sub_path) as part:
            _bind(part, target, mounter)
    except NoRightToMount as error:
        raise ContainerConfigError(f"failed to prepare subPath for {names}: this node has no right to mount") from error
    except OSError as error:
        raise ContainerConfigError(f"failed to prepare subPath for {names}") from error
    return target


def remove_sub_paths(directory: PodDir, mounter: Mounter) -> None:
    """Remove all sub-path mounts of a pod; raises OSError if one cannot be removed."""
    root = Path(directory.sub_paths)
    # <volume>/<container>/<index>: not deeper, since below are the user's files.
    for path in sorted(root.glob("*/*/*")):
        _unbind(str(path), mounter)
    with suppress(FileNotFoundError), filesystem.opened(directory.path) as pod:
        filesystem.remove_tree(pod, SUB_PATHS, with_files=False)


def _make_missing(volume: str, sub_path: str) -> None:
    """Create the missing directories of a path with the permissions of the volume."""
    mode = stat.S_IMODE(Path(volume).stat().st_mode)
    base = os.path.realpath(volume)
    names = sub_path.split("/")
    existing = len(names)
    while existing and not os.path.lexists("/".join((base, *names[:existing]))):
        existing -= 1
    if existing == len(names):
        return
    with _opened_part(volume, "/".join(names[:existing])) as start:
        handle = os.open(".", filesystem.FOLDER, dir_fd=start)
        try:
            for name in names[existing:]:
                # Another container of the pod may create it concurrently.
                with suppress(FileExistsError):
                    os.mkdir(name, mode, dir_fd=handle)
                with filesystem.opened(name, within=handle) as made:
                    # The umask may have cleared some bits.
                    os.fchmod(made, mode)
                    os.dup2(made, handle, inheritable=False)
        finally:
            os.close(handle)


@contextmanager
def _opened_part(volume: str, sub_path: str) -> Iterator[int]:
    """Open a path of a volume; links are followed as long as they stay inside."""
    base = os.path.realpath(volume, strict=True)
    real = os.path.realpath(f"{base}/{sub_path}" if sub_path else base, strict=True)
    if real != base and not real.startswith(f"{base}/"):
        raise OSError(errno.EXDEV, "leads out of the volume", sub_path)
    # The path is resolved: a link met now was created meanwhile and is not followed.
    relative = real[len(base) + 1 :]
    with filesystem.opened(base) as folder, filesystem.opened_below(folder, relative, filesystem.HANDLE) as part:
        if stat.S_ISLNK(os.fstat(part).st_mode):
            raise OSError(errno.ELOOP, "turned into a link", sub_path)
        yield part


def _bind(part: int, target: str, mounter: Mounter) -> None:
    found = os.fstat(part)
    if os.path.lexists(target) and filesystem.is_mount_point(target):
        if os.path.samestat(found, os.lstat(target)):
            return
        # From an earlier run of the container; its content has been replaced since.
        mounter.unmount(target)
    make_pod_folders(str(Path(target).parent))
    _make_target(target, is_folder=stat.S_ISDIR(found.st_mode))
    try:
        mounter.bind(f"/proc/self/fd/{part}", target)
    except OSError:
        with suppress(OSError):
            _unbind(target, mounter)
        raise


def _make_target(target: str, *, is_folder: bool) -> None:
    """Create a directory for a directory, a file for anything else, replacing an entry of the other type."""
    if os.path.lexists(target) and Path(target).is_dir() != is_folder:
        _remove_empty(target)
    if is_folder:
        Path(target).mkdir(0o750, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640))


def _unbind(target: str, mounter: Mounter) -> None:
    while filesystem.is_mount_point(target):
        mounter.unmount(target)
    _remove_empty(target)


def _remove_empty(path: str) -> None:
    if stat.S_ISDIR(os.lstat(path).st_mode):
        Path(path).rmdir()
    else:
        Path(path).unlink()
