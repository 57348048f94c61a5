"""How much of the disk pods take: logs, volumes, their own files. Blocks; called in a thread.

Upstream: DiskUsage in pkg/volume/util/fs/fs.go, pkg/kubelet/stats/host_stats_provider.go
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pykubelet.agent.pressure.pod_use import DiskUse

_BLOCK_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPaths:
    """Where the things of a pod are: logs by container, volumes by name, single files."""

    logs: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    own_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSizes:
    """How large they are; what is not there takes nothing."""

    logs: Mapping[str, DiskUse] = field(default_factory=dict)
    volumes: Mapping[str, DiskUse] = field(default_factory=dict)
    own_files: DiskUse = field(default_factory=DiskUse)


def pod_sizes(paths: PodPaths) -> PodSizes:
    """The sizes of everything of one pod."""
    return PodSizes(
        logs={name: size_of(path) for name, path in paths.logs.items()},
        volumes={name: size_of(path) for name, path in paths.volumes.items()},
        own_files=sum(map(size_of, paths.own_files), start=DiskUse()),
    )


def size_of(path: str) -> DiskUse:
    """What a file or folder takes, all in it included; other devices below it are not, and hard links count once."""
    try:
        top = os.lstat(path)
    except OSError:
        return DiskUse()
    blocks, inodes, seen = top.st_blocks, 1, set[int]()
    folders = [path] if stat.S_ISDIR(top.st_mode) else []
    while folders:
        for entry in _entries(folders.pop()):
            # It may have gone since.
            with suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if found.st_dev != top.st_dev or found.st_ino in seen:
                    continue
                if found.st_nlink > 1:
                    seen.add(found.st_ino)
                blocks, inodes = blocks + found.st_blocks, inodes + 1
                if stat.S_ISDIR(found.st_mode):
                    folders.append(entry.path)
    return DiskUse(blocks * _BLOCK_BYTES, inodes)


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
