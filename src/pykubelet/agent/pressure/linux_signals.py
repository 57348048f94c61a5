"""Measures how much is left of memory, disk and process ids, from where Linux keeps it.

Out: observations by signal. What cannot be read is missing. The file system of images is the runtime's to tell; containers
that are plain processes have none.

Upstream: makeSignalObservations in pkg/kubelet/eviction/helpers.go, pkg/kubelet/stats/pidlimit/pidlimit_linux.go
"""

import os
import re
from pathlib import Path

from pykubelet.agent.pressure.thresholds import Observation


class LinuxSignals:
    """Reads /proc below `root`; the disk is the file system with `data_dir`. SignalReader."""

    def __init__(self, *, data_dir: Path, root: Path = Path("/")) -> None:
        self._data_dir, self._root = data_dir, root

    def read(self) -> dict[str, Observation]:
        """As it is now. May block for a moment; called in a thread."""
        found = {"memory.available": self._memory(), "pid.available": self._pids(), **self._disk()}
        return {signal: observation for signal, observation in found.items() if observation is not None}

    def _memory(self) -> Observation | None:
        numbers = dict(re.findall(r"^(\w+):\s+(\d+) kB$", self._text("proc/meminfo"), re.MULTILINE))
        if "MemAvailable" not in numbers or "MemTotal" not in numbers:
            return None
        return Observation(int(numbers["MemAvailable"]) * 1024, int(numbers["MemTotal"]) * 1024)

    def _disk(self) -> dict[str, Observation]:
        try:
            found = os.statvfs(self._data_dir)
        except OSError:
            return {}
        observations = {
            "nodefs.available": Observation(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)
        }
        # Some file systems make inodes as they need them, and say there are none.
        if found.f_files:
            observations["nodefs.inodesFree"] = Observation(found.f_ffree, found.f_files)
        return observations

    def _pids(self) -> Observation | None:
        limits = [self._text(f"proc/sys/kernel/{name}").strip() for name in ("pid_max", "threads-max")]
        known = [int(limit) for limit in limits if limit.isdecimal()]
        tasks = re.search(r" \d+/(\d+) ", self._text("proc/loadavg"))
        if not known or tasks is None:
            return None
        return Observation(min(known) - int(tasks[1]), min(known))

    def _text(self, path: str) -> str:
        try:
            return (self._root / path).read_text()
        except OSError:
            return ""
