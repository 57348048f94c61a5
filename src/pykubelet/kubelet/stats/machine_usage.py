"""Measures the whole machine from /proc. Upstream reads the root cgroup through cAdvisor.

Upstream: pkg/kubelet/cadvisor/cadvisor_linux.go
"""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.runtimes.protocol import ContainerResourceUsage

_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemUsage:
    capacity_bytes: int
    available_bytes: int
    used_bytes: int
    inodes: int
    inodes_free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineUsage:
    """One measurement of the machine."""

    usage: ContainerResourceUsage
    cores: int
    memory_bytes: int
    booted_at: datetime | None
    page_faults: int
    major_page_faults: int
    file_system: FileSystemUsage | None
    max_processes: int | None = None
    processes: int | None = None


class ProcFiles:
    """Reads /proc below `root`; an unreadable file counts as empty."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def text(self, name: str) -> str:
        """The content of /proc/<name>."""
        try:
            return (self._root / "proc" / name).read_text()
        except OSError:
            return ""

    def numbers(self, name: str) -> dict[str, int]:
        """The lines of /proc/<name> that have the form `name: number` or `name number`."""
        return {key: int(number) for key, number in re.findall(r"^([\w()]+):?\s+(\d+)", self.text(name), re.MULTILINE)}

    def max_processes(self) -> int | None:
        """The smaller one of the kernel's limits on tasks."""
        texts = [self.text(f"sys/kernel/{name}").strip() for name in ("pid_max", "threads-max")]
        return min((int(text) for text in texts if text.isdecimal()), default=None)

    def processes(self) -> int | None:
        """The number of tasks, threads included, as the PID limit counts them."""
        tasks = re.search(r" \d+/(\d+) ", self.text("loadavg"))
        return int(tasks[1]) if tasks else None


class MachineReader:
    """Measures the machine below `root`; the file system is that of `data_dir`."""

    def __init__(self, *, data_dir: Path, clock: Clock, root: Path = Path("/")) -> None:
        self._data_dir, self._clock, self._proc = data_dir, clock, ProcFiles(root)

    def read(self) -> MachineUsage:
        """Measure now; unreadable values are None or zero."""
        stat, memory, faults = self._proc.text("stat"), self._proc.numbers("meminfo"), self._proc.numbers("vmstat")
        total = memory.get("MemTotal", 0) * 1024
        used = total - memory.get("MemFree", 0) * 1024
        booted = re.search(r"^btime (\d+)$", stat, re.MULTILINE)
        return MachineUsage(
            usage=ContainerResourceUsage(
                at=self._clock.now(),
                cpu_nanoseconds=_busy_nanoseconds(stat),
                memory_bytes=used,
                working_set_bytes=max(used - memory.get("Inactive(file)", 0) * 1024, 0),
                rss_bytes=memory.get("AnonPages", 0) * 1024,
                swap_bytes=(memory.get("SwapTotal", 0) - memory.get("SwapFree", 0)) * 1024,
            ),
            cores=os.cpu_count() or 0,
            memory_bytes=total,
            booted_at=datetime.fromtimestamp(int(booted[1]), UTC) if booted else None,
            page_faults=faults.get("pgfault", 0),
            major_page_faults=faults.get("pgmajfault", 0),
            file_system=file_system_usage(self._data_dir),
            max_processes=self._proc.max_processes(),
            processes=self._proc.processes(),
        )


def _busy_nanoseconds(stat: str) -> int | None:
    match = re.search(r"^cpu +([\d ]+)$", stat, re.MULTILINE)
    if match is None:
        return None
    ticks = [*map(int, match[1].split()), *[0] * 8]
    busy = sum(ticks[kind] for kind in (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ, _STEAL))
    return busy * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def file_system_usage(path: Path) -> FileSystemUsage | None:
    """The usage of the file system of a path; None if it is unreadable."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return FileSystemUsage(
        capacity_bytes=found.f_blocks * found.f_frsize,
        available_bytes=found.f_bavail * found.f_frsize,
        used_bytes=(found.f_blocks - found.f_bfree) * found.f_frsize,
        inodes=found.f_files,
        inodes_free=found.f_ffree,
    )
