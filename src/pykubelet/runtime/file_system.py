"""How full a file system is, and which one images are on.

Upstream: ImageFsStats in pkg/kubelet/stats/cri_stats_provider.go
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystem:
    """One reading; `device` tells file systems apart. One that makes inodes as it needs them has none to count."""

    device: int
    capacity_bytes: int
    available_bytes: int
    inodes: int = 0
    inodes_free: int = 0


class ImageFs(Protocol):
    """Knows where images are. A runtime that has images to remove offers it."""

    async def image_file_system(self) -> FileSystem:
        """The file system with the images, as it is now; RuntimeFailure if that cannot be told."""


def read_file_system(path: str) -> FileSystem:
    """The file system that a path is on; OSError if there is no such path. Blocks for a moment."""
    found = os.statvfs(path)
    return FileSystem(
        device=Path(path).stat().st_dev,
        capacity_bytes=found.f_blocks * found.f_frsize,
        available_bytes=found.f_bavail * found.f_frsize,
        inodes=found.f_files,
        inodes_free=found.f_ffree,
    )
