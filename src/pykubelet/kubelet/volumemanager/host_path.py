"""Checks the paths of hostPath volumes, and creates those whose type says so.

Upstream: pkg/volume/hostpath/host_path.go
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from pykubelet.api.generated.core import HostPathVolumeSource
from pykubelet.kubelet.volumemanager.errors import VolumeError

_CHECKS: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


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
            Path(path).mkdir(0o755, parents=True, exist_ok=True)
        case "FileOrCreate":
            os.close(os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o644))
        case _:
            return False
    return True
