"""Paths of the machine that a pod mounts, checked to be what it says they are.

Upstream: pkg/volume/hostpath/host_path.go
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from pykubelet.agent.volumes.problems import VolumeProblem
from pykubelet.api.generated.core import HostPathVolumeSource

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


def check_host_path(source: HostPathVolumeSource) -> None:
    """Check the type that a pod expects, and create what it lets us create; VolumeProblem or OSError if it is not so."""
    path, expected = source.path, source.type or ""
    if ".." in path.split("/"):
        raise VolumeProblem(f"invalid HostPath `{path}`: must not contain '..'")
    if "\0" in path:
        raise VolumeProblem("invalid HostPath: must not contain a NUL byte")
    if not expected:
        return
    if expected not in _CHECKS:
        raise VolumeProblem(f"{expected} is an invalid volume type")
    is_right, words = _CHECKS[expected]
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        if _create(path, expected):
            return
        mode = 0
    if not is_right(mode):
        raise VolumeProblem(f"hostPath type check failed: {path} is not {words}")


def _create(path: str, expected: str) -> bool:
    match expected:
        case "DirectoryOrCreate":
            Path(path).mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)
        case "FileOrCreate":
            os.close(os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, _FILE_MODE))
        case _:
            return False
    return True
