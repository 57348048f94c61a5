"""What containers use, from what the kernel tells of single processes and of control groups.

Pure. All processes of a container are below its supervisor, which is the parent of those that lost theirs: so their time
is known even after they have ended. Without a control group memory is an estimate: what the processes have of their own,
and what they share with others once.

Upstream: github.com/google/cadvisor/container/libcontainer/handler.go

Reads what containers use: from their control groups, or else from their processes. Blocks.

All processes are looked at once for all containers, and only if there is a container that needs it.
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


class ProcessStat(NamedTuple):
    """One process: its parent, its time and that of children it has waited for, in ticks of the kernel."""

    parent: int
    ticks: int
    ended_children_ticks: int
    start_ticks: int


class ResidentMemory(NamedTuple):
    """Memory of one process, in bytes: all of it that is in memory, and what of that others may have too."""

    resident: int
    shared: int


def parse_process(stat: str) -> ProcessStat:
    """From /proc/PID/stat."""
    # The name is in parentheses, and may hold some.
    fields = stat.rpartition(")")[2].split()
    user, system, children_user, children_system = map(int, fields[11:15])
    return ProcessStat(int(fields[1]), user + system, children_user + children_system, int(fields[19]))


def parse_resident(statm: str, page_bytes: int) -> ResidentMemory:
    """From /proc/PID/statm."""
    resident, shared = map(int, statm.split()[1:3])
    return ResidentMemory(resident * page_bytes, shared * page_bytes)


def members(processes: Mapping[int, ProcessStat], supervisors: Iterable[int]) -> dict[int, list[int]]:
    """The processes below each supervisor, in one pass over all there are."""
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
    """The time of all processes of a container, those included that have ended; not that of the supervisor itself."""
    ticks = supervisor.ended_children_ticks + sum(one.ticks + one.ended_children_ticks for one in below)
    return ticks * 1_000_000_000 // ticks_per_second


def processes_usage(cpu: int, memory: Iterable[ResidentMemory], at: datetime) -> ContainerResourceUsage:
    """The usage of a container that has no control group."""
    known = tuple(memory)
    own = sum(max(one.resident - one.shared, 0) for one in known)
    whole = own + max((one.shared for one in known), default=0)
    return ContainerResourceUsage(
        at=at, cpu_nanoseconds=cpu, memory_bytes=whole, working_set_bytes=whole, rss_bytes=own
    )


def group_usage(files: Mapping[str, str], at: datetime) -> ContainerResourceUsage:
    """The usage of a control group, from its files by name, of version 2 or 1; what is not there is not known."""
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
    """A control group's own figures, and those of its processes where it has none."""
    if processes is None:
        return group
    has_memory = group.memory_bytes is not None
    memory = group if has_memory else processes
    return ContainerResourceUsage(
        at=group.at,
        cpu_nanoseconds=group.cpu_nanoseconds if group.cpu_nanoseconds is not None else processes.cpu_nanoseconds,
        memory_bytes=memory.memory_bytes,
        working_set_bytes=memory.working_set_bytes,
        rss_bytes=memory.rss_bytes,
        swap_bytes=group.swap_bytes,
    )


def is_whole(usage: ContainerResourceUsage) -> bool:
    """Whether both processor and memory are known."""
    return usage.cpu_nanoseconds is not None and usage.memory_bytes is not None


def _first(files: Mapping[str, str], *names: str) -> int | None:
    return next((int(files[name]) for name in names if name in files), None)


def _facts(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


_GROUP_FILES = {
    CPU: ("cpu.stat", "cpuacct.usage"),
    MEMORY: ("memory.current", "memory.usage_in_bytes", "memory.stat", "memory.swap.current"),
}
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class UsageReader:
    """Measures containers; `proc` is where the kernel tells of processes."""

    def __init__(self, *, cgroups: AvailableCgroups, proc: Path = Path("/proc")) -> None:
        self._cgroups, self._proc = cgroups, proc
        # Time that is lost to us, as of a child that nobody waited for, must not make the sum smaller.
        self._before: dict[str, ContainerResourceUsage] = {}

    def read(self, supervisors: Mapping[str, ProcessIdentity], at: datetime) -> dict[str, ContainerResourceUsage]:
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

    def _from_processes(
        self, supervisors: Mapping[str, ProcessIdentity], at: datetime
    ) -> dict[str, ContainerResourceUsage]:
        processes = self._processes()
        alive = {id: one.pid for id, one in supervisors.items() if _is_there(one, processes)}
        below = members(processes, alive.values())
        usages: dict[str, ContainerResourceUsage] = {}
        for id, pid in alive.items():
            used = cpu_nanoseconds(processes[pid], [processes[one] for one in below[pid]], _TICKS_PER_SECOND)
            before = self._before.get(id)
            most = max(used, (before.cpu_nanoseconds or 0) if before is not None else 0)
            usages[id] = processes_usage(most, self._residents(below[pid]), at)
        return usages

    def _processes(self) -> dict[int, ProcessStat]:
        found: dict[int, ProcessStat] = {}
        for folder in self._proc.iterdir():
            if folder.name.isdecimal():
                # It may end at any moment.
                with suppress(OSError):
                    found[int(folder.name)] = parse_process((folder / "stat").read_text(errors="replace"))
        return found

    def _residents(self, pids: Iterable[int]) -> list[ResidentMemory]:
        found: list[ResidentMemory] = []
        for pid in pids:
            with suppress(OSError):
                found.append(parse_resident((self._proc / str(pid) / "statm").read_text(), _PAGE_BYTES))
        return found


def _is_there(identity: ProcessIdentity, processes: Mapping[int, ProcessStat]) -> bool:
    found = processes.get(identity.pid)
    return found is not None and found.start_ticks == identity.start_ticks
