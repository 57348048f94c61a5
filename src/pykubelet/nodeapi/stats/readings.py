"""One reading of what the machine uses, as a value."""

from dataclasses import dataclass
from datetime import datetime

from pykubelet.runtime.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemUsage:
    """How full a file system is."""

    at: datetime
    capacity_bytes: int
    available_bytes: int
    used_bytes: int
    inodes: int
    inodes_free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineUsage:
    """One reading of the machine."""

    usage: Usage
    cores: int
    memory_bytes: int
    booted_at: datetime | None
    page_faults: int
    major_page_faults: int
    file_system: FileSystemUsage | None
    max_processes: int | None = None
    processes: int | None = None
    """Tasks, threads included, as the limit counts them."""
