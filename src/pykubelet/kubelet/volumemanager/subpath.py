"""Parts of volumes that are mounted alone, without ever being led out of the volume.

A container could replace a folder of its volume by a link to anywhere just before another one mounts it. So the part is
opened name by name, and what is bound is the open file itself, by way of /proc: nobody can swap it any more.

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

_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def bind_sub_path(directory: PodDir, mount: PlannedMount, container: str, mounter: Mounter) -> str:
    """Where the part of a volume that a container mounts can be found; ConfigProblem if it cannot be had safely.

    A part that is not there becomes a folder. Details of the machine are kept out of the message.
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
    """Take away whatever was bound for a pod; OSError if something stays."""
    root = Path(directory.sub_paths)
    # <volume>/<container>/<index>: never deeper, for below that are the user's own files.
    for path in sorted(root.glob("*/*/*")):
        _unbind(str(path), mounter)
    with suppress(FileNotFoundError), filesystem.opened(directory.path) as pod:
        filesystem.remove_tree(pod, SUB_PATHS, with_files=False)


def _make_missing(volume: str, sub_path: str) -> None:
    """Make the folders of a path that are not there, with the rights of the volume itself."""
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
                # Another container of the pod may be making it just now.
                with suppress(FileExistsError):
                    os.mkdir(name, mode, dir_fd=handle)
                with filesystem.opened(name, within=handle) as made:
                    # The process' umask may have taken some.
                    os.fchmod(made, mode)
                    os.dup2(made, handle, inheritable=False)
        finally:
            os.close(handle)


@contextmanager
def _opened_part(volume: str, sub_path: str) -> Iterator[int]:
    """The file or folder at a path of a volume; a link is fine as long as it stays inside."""
    base = os.path.realpath(volume, strict=True)
    real = os.path.realpath(f"{base}/{sub_path}" if sub_path else base, strict=True)
    if real != base and not real.startswith(f"{base}/"):
        raise OSError(errno.EXDEV, "leads out of the volume", sub_path)
    # Resolved, it has no link any more: one that we meet now was put there meanwhile, and is not followed.
    with filesystem.opened(base) as folder, filesystem.opened_below(folder, real[len(base) + 1 :], _HANDLE) as part:
        if stat.S_ISLNK(os.fstat(part).st_mode):
            raise OSError(errno.ELOOP, "turned into a link", sub_path)
        yield part


def _bind(part: int, target: str, mounter: Mounter) -> None:
    found = os.fstat(part)
    if os.path.lexists(target) and filesystem.is_mount_point(target):
        if os.path.samestat(found, os.lstat(target)):
            return
        # Of an earlier run of the container; what is there has been replaced since.
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
    """A folder for a folder, a file for anything else; something of the other kind has to go first."""
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
