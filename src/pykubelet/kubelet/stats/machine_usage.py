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
    at: datetime
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
    """The number of tasks, threads included, as the PID limit counts them."""


class MachineReader:
    """Measures the machine below `root`; the file system is that of `data_dir`."""

    def __init__(self, *, data_dir: Path, clock: Clock, root: Path = Path("/")) -> None:
        self._data_dir, self._clock, self._root = data_dir, clock, root

    def read(self) -> MachineUsage:
        """Measure now; unreadable values are None or zero."""
        stat, memory = self._text("proc/stat"), _numbers(self._text("proc/meminfo"))
        faults = _numbers(self._text("proc/vmstat"))
        total, now = memory.get("MemTotal", 0) * 1024, self._clock.now()
        used = total - memory.get("MemFree", 0) * 1024
        texts = [self._text(f"proc/sys/kernel/{name}").strip() for name in ("pid_max", "threads-max")]
        limits = [int(text) for text in texts if text.isdecimal()]
        tasks = re.search(r" \d+/(\d+) ", self._text("proc/loadavg"))
        booted = re.search(r"^btime (\d+)$", stat, re.MULTILINE)
        return MachineUsage(
            usage=ContainerResourceUsage(
                at=now,
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
            file_system=_file_system(self._data_dir, now),
            max_processes=min(limits) if limits else None,
            processes=int(tasks[1]) if tasks else None,
        )

    def _text(self, path: str) -> str:
        try:
            return (self._root / path).read_text()
        except OSError:
            return ""


def _busy_nanoseconds(stat: str) -> int | None:
    match = re.search(r"^cpu +([\d ]+)$", stat, re.MULTILINE)
    if match is None:
        return None
    ticks = [*map(int, match[1].split()), *[0] * 8]
    busy = sum(ticks[kind] for kind in (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ, _STEAL))
    return busy * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def _numbers(text: str) -> dict[str, int]:
    return {name: int(number) for name, number in re.findall(r"^([\w()]+):?\s+(\d+)", text, re.MULTILINE)}


def _file_system(path: Path, at: datetime) -> FileSystemUsage | None:
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return FileSystemUsage(
        at=at,
        capacity_bytes=found.f_blocks * found.f_frsize,
        available_bytes=found.f_bavail * found.f_frsize,
        used_bytes=(found.f_blocks - found.f_bfree) * found.f_frsize,
        inodes=found.f_files,
        inodes_free=found.f_ffree,
    )
