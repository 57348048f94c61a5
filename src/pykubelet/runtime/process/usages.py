"""Reads what containers use: from their control groups, or else from their processes. Blocks.

All processes are looked at once for all containers, and only if there is a container that needs it.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from pykubelet.runtime.process.cgroup_plan import CPU, MEMORY, Cgroups
from pykubelet.runtime.process.shim.identity import ProcessIdentity
from pykubelet.runtime.process.usage_sums import (
    Process,
    Resident,
    combined,
    cpu_nanoseconds,
    group_usage,
    is_whole,
    members,
    parse_process,
    parse_resident,
    processes_usage,
)
from pykubelet.runtime.usage import Usage

_GROUP_FILES = {
    CPU: ("cpu.stat", "cpuacct.usage"),
    MEMORY: ("memory.current", "memory.usage_in_bytes", "memory.stat", "memory.swap.current"),
}
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class UsageReader:
    """Measures containers; `proc` is where the kernel tells of processes."""

    def __init__(self, *, cgroups: Cgroups, proc: Path = Path("/proc")) -> None:
        self._cgroups, self._proc = cgroups, proc
        # Time that is lost to us, as of a child that nobody waited for, must not make the sum smaller.
        self._before: dict[str, Usage] = {}

    def read(self, supervisors: Mapping[str, ProcessIdentity], at: datetime) -> dict[str, Usage]:
        """The usage of each container, by its id, who supervises it being known; one that has ended is missing."""
        groups = {id: group_usage(self._group_files(id), at) for id in supervisors}
        partly = {id: supervisors[id] for id, usage in groups.items() if not is_whole(usage)}
        from_processes = self._from_processes(partly, at) if partly else {}
        found = {
            id: combined(usage, from_processes.get(id))
            for id, usage in groups.items()
            if id not in partly or id in from_processes
        }
        self._before = found
        return found

    def _group_files(self, id: str) -> dict[str, str]:
        files: dict[str, str] = {}
        for controller, folder in self._cgroups.folders.items():
            for name in _GROUP_FILES.get(controller, ()):
                # Only containers with limits have a group, and each version has its own files.
                with suppress(OSError):
                    files[name] = Path(folder, id, name).read_text()
        return files

    def _from_processes(self, supervisors: Mapping[str, ProcessIdentity], at: datetime) -> dict[str, Usage]:
        processes = self._processes()
        alive = {id: one.pid for id, one in supervisors.items() if _is_there(one, processes)}
        below = members(processes, alive.values())
        usages: dict[str, Usage] = {}
        for id, pid in alive.items():
            used = cpu_nanoseconds(processes[pid], [processes[one] for one in below[pid]], _TICKS_PER_SECOND)
            before = self._before.get(id)
            most = max(used, (before.cpu_nanoseconds or 0) if before is not None else 0)
            usages[id] = processes_usage(most, self._residents(below[pid]), at)
        return usages

    def _processes(self) -> dict[int, Process]:
        found: dict[int, Process] = {}
        for folder in self._proc.iterdir():
            if folder.name.isdecimal():
                # It may end at any moment.
                with suppress(OSError):
                    found[int(folder.name)] = parse_process((folder / "stat").read_text(errors="replace"))
        return found

    def _residents(self, pids: Iterable[int]) -> list[Resident]:
        found: list[Resident] = []
        for pid in pids:
            with suppress(OSError):
                found.append(parse_resident((self._proc / str(pid) / "statm").read_text(), _PAGE_BYTES))
        return found


def _is_there(identity: ProcessIdentity, processes: Mapping[int, Process]) -> bool:
    found = processes.get(identity.pid)
    return found is not None and found.start_ticks == identity.start_ticks
