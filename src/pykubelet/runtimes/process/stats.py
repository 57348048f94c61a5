"""Measures the resource usage of containers from their cgroups, or from their processes.

All processes of a container are descendants of its shim, which adopts orphans, so the CPU time of ended processes is
included. Without a cgroup, memory is an estimate: private memory of all processes plus the largest shared part. The process
table is read once for all containers, and only if one needs it. Reading blocks.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from pykubelet.runtimes.process.cgroups import CPU, MEMORY, AvailableCgroups
from pykubelet.runtimes.process.shim.processes import ProcessIdentity
from pykubelet.runtimes.protocol import ContainerResourceUsage

_GROUP_FILES = {
    CPU: ("cpu.stat", "cpuacct.usage"),
    MEMORY: ("memory.current", "memory.usage_in_bytes", "memory.stat", "memory.swap.current"),
}
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcessStat(NamedTuple):
    """A process: its parent, its CPU time and that of the children it has waited for, in clock ticks."""

    parent: int
    ticks: int
    ended_children_ticks: int
    start_ticks: int


class ResidentMemory(NamedTuple):
    """The resident memory of a process in bytes, and the part that may be shared with others."""

    resident: int
    shared: int


def parse_process(stat: str) -> ProcessStat:
    # The name is in parentheses and may contain parentheses.
    fields = stat.rpartition(")")[2].split()
    user, system, children_user, children_system = map(int, fields[11:15])
    return ProcessStat(int(fields[1]), user + system, children_user + children_system, int(fields[19]))


def read_processes(proc: Path) -> dict[int, ProcessStat]:
    """All processes of the machine by PID. Blocks."""
    found: dict[int, ProcessStat] = {}
    for folder in proc.iterdir():
        if folder.name.isdecimal():
            # The process may have ended.
            with suppress(OSError):
                found[int(folder.name)] = parse_process((folder / "stat").read_text(errors="replace"))
    return found


def parse_resident(statm: str, page_bytes: int) -> ResidentMemory:
    resident, shared = map(int, statm.split()[1:3])
    return ResidentMemory(resident * page_bytes, shared * page_bytes)


def members(processes: Mapping[int, ProcessStat], supervisors: Iterable[int]) -> dict[int, list[int]]:
    """The descendants of each shim, in one pass over all processes."""
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    found: dict[int, list[int]] = {}
    for supervisor in supervisors:
        below = list(children.get(supervisor, ()))
        for pid in below:
            below += children.get(pid, ())
        found[supervisor] = below
    return found


def cpu_nanoseconds(supervisor: ProcessStat, below: Iterable[ProcessStat], ticks_per_second: int) -> int:
    """The CPU time of all processes of a container, including ended ones, without its shim."""
    ticks = supervisor.ended_children_ticks + sum(one.ticks + one.ended_children_ticks for one in below)
    return ticks * 1_000_000_000 // ticks_per_second


def processes_usage(cpu: int, memory: Iterable[ResidentMemory], at: datetime) -> ContainerResourceUsage:
    """The usage of a container without a cgroup."""
    known = tuple(memory)
    own = sum(max(one.resident - one.shared, 0) for one in known)
    whole = own + max((one.shared for one in known), default=0)
    return ContainerResourceUsage(
        at=at, cpu_nanoseconds=cpu, memory_bytes=whole, working_set_bytes=whole, rss_bytes=own
    )


def group_usage(files: Mapping[str, str], at: datetime) -> ContainerResourceUsage:
    """The usage of a cgroup from its files, of version 2 or 1; missing files leave values unknown."""
    memory = _first(files, "memory.current", "memory.usage_in_bytes")
    stat, cpu = _facts(files.get("memory.stat", "")), _facts(files.get("cpu.stat", ""))
    inactive = stat.get("total_inactive_file", stat.get("inactive_file", 0))
    return ContainerResourceUsage(
        at=at,
        cpu_nanoseconds=cpu["usage_usec"] * 1000 if "usage_usec" in cpu else _first(files, "cpuacct.usage"),
        memory_bytes=memory,
        working_set_bytes=max(memory - inactive, 0) if memory is not None else None,
        rss_bytes=stat.get("anon", stat.get("total_rss")),
        swap_bytes=_first(files, "memory.swap.current"),
    )


def combined(group: ContainerResourceUsage, processes: ContainerResourceUsage | None) -> ContainerResourceUsage:
    """The values of the cgroup, completed with those of its processes."""
    if processes is None:
        return group
    memory = group if group.memory_bytes is not None else processes
    return ContainerResourceUsage(
        at=group.at,
        cpu_nanoseconds=group.cpu_nanoseconds if group.cpu_nanoseconds is not None else processes.cpu_nanoseconds,
        memory_bytes=memory.memory_bytes,
        working_set_bytes=memory.working_set_bytes,
        rss_bytes=memory.rss_bytes,
        swap_bytes=group.swap_bytes,
    )


def is_whole(usage: ContainerResourceUsage) -> bool:
    return usage.cpu_nanoseconds is not None and usage.memory_bytes is not None


def _first(files: Mapping[str, str], *names: str) -> int | None:
    return next((int(files[name]) for name in names if name in files), None)


def _facts(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


class UsageReader:
    """Measures containers; `proc` is the process file system."""

    def __init__(self, *, cgroups: AvailableCgroups, proc: Path = Path("/proc")) -> None:
        self._cgroups, self._proc = cgroups, proc
        # The kernel loses the CPU time of children that are not waited for; the sum must not decrease.
        self._before: dict[str, ContainerResourceUsage] = {}

    def read(self, supervisors: Mapping[str, ProcessIdentity], at: datetime) -> dict[str, ContainerResourceUsage]:
        """The usage of each container by id, given its shim; omits containers that have ended."""
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
                # Only containers with limits have a cgroup, and each version has its own files.
                with suppress(OSError):
                    files[name] = Path(folder, id, name).read_text()
        return files

    def _from_processes(
        self, supervisors: Mapping[str, ProcessIdentity], at: datetime
    ) -> dict[str, ContainerResourceUsage]:
        processes = read_processes(self._proc)
        alive = {id: one.pid for id, one in supervisors.items() if _is_alive(one, processes)}
        below = members(processes, alive.values())
        usages: dict[str, ContainerResourceUsage] = {}
        for id, pid in alive.items():
            used = cpu_nanoseconds(processes[pid], [processes[one] for one in below[pid]], _TICKS_PER_SECOND)
            before = self._before.get(id)
            most = max(used, (before.cpu_nanoseconds or 0) if before is not None else 0)
            usages[id] = processes_usage(most, self._residents(below[pid]), at)
        return usages

    def _residents(self, pids: Iterable[int]) -> list[ResidentMemory]:
        found: list[ResidentMemory] = []
        for pid in pids:
            with suppress(OSError):
                found.append(parse_resident((self._proc / str(pid) / "statm").read_text(), _PAGE_BYTES))
        return found


def _is_alive(identity: ProcessIdentity, processes: Mapping[int, ProcessStat]) -> bool:
    found = processes.get(identity.pid)
    return found is not None and found.start_ticks == identity.start_ticks
