"""What containers use, from what the kernel tells of single processes and of control groups.

Pure. All processes of a container are below its supervisor, which is the parent of those that lost theirs: so their time
is known even after they have ended. Without a control group memory is an estimate: what the processes have of their own,
and what they share with others once.

Upstream: github.com/google/cadvisor/container/libcontainer/handler.go
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from pykubelet.runtime.usage import Usage


class Process(NamedTuple):
    """One process: its parent, its time and that of children it has waited for, in ticks of the kernel."""

    parent: int
    ticks: int
    ended_children_ticks: int
    start_ticks: int


class Resident(NamedTuple):
    """Memory of one process, in bytes: all of it that is in memory, and what of that others may have too."""

    resident: int
    shared: int


def parse_process(stat: str) -> Process:
    """From /proc/PID/stat."""
    # The name is in parentheses, and may hold some.
    fields = stat.rpartition(")")[2].split()
    user, system, children_user, children_system = map(int, fields[11:15])
    return Process(int(fields[1]), user + system, children_user + children_system, int(fields[19]))


def parse_resident(statm: str, page_bytes: int) -> Resident:
    """From /proc/PID/statm."""
    resident, shared = map(int, statm.split()[1:3])
    return Resident(resident * page_bytes, shared * page_bytes)


def members(processes: Mapping[int, Process], supervisors: Iterable[int]) -> dict[int, list[int]]:
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


def cpu_nanoseconds(supervisor: Process, below: Iterable[Process], ticks_per_second: int) -> int:
    """The time of all processes of a container, those included that have ended; not that of the supervisor itself."""
    ticks = supervisor.ended_children_ticks + sum(one.ticks + one.ended_children_ticks for one in below)
    return ticks * 1_000_000_000 // ticks_per_second


def processes_usage(cpu: int, memory: Iterable[Resident], at: datetime) -> Usage:
    """The usage of a container that has no control group."""
    known = tuple(memory)
    own = sum(max(one.resident - one.shared, 0) for one in known)
    whole = own + max((one.shared for one in known), default=0)
    return Usage(at=at, cpu_nanoseconds=cpu, memory_bytes=whole, working_set_bytes=whole, rss_bytes=own)


def group_usage(files: Mapping[str, str], at: datetime) -> Usage:
    """The usage of a control group, from its files by name, of version 2 or 1; what is not there is not known."""
    memory = _first(files, "memory.current", "memory.usage_in_bytes")
    stat, cpu = _facts(files.get("memory.stat", "")), _facts(files.get("cpu.stat", ""))
    inactive = stat.get("total_inactive_file", stat.get("inactive_file", 0))
    return Usage(
        at=at,
        cpu_nanoseconds=cpu["usage_usec"] * 1000 if "usage_usec" in cpu else _first(files, "cpuacct.usage"),
        memory_bytes=memory,
        working_set_bytes=max(memory - inactive, 0) if memory is not None else None,
        rss_bytes=stat.get("anon", stat.get("total_rss")),
        swap_bytes=_first(files, "memory.swap.current"),
    )


def combined(group: Usage, processes: Usage | None) -> Usage:
    """A control group's own figures, and those of its processes where it has none."""
    if processes is None:
        return group
    has_memory = group.memory_bytes is not None
    memory = group if has_memory else processes
    return Usage(
        at=group.at,
        cpu_nanoseconds=group.cpu_nanoseconds if group.cpu_nanoseconds is not None else processes.cpu_nanoseconds,
        memory_bytes=memory.memory_bytes,
        working_set_bytes=memory.working_set_bytes,
        rss_bytes=memory.rss_bytes,
        swap_bytes=group.swap_bytes,
    )


def is_whole(usage: Usage) -> bool:
    """Whether both processor and memory are known."""
    return usage.cpu_nanoseconds is not None and usage.memory_bytes is not None


def _first(files: Mapping[str, str], *names: str) -> int | None:
    return next((int(files[name]) for name in names if name in files), None)


def _facts(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
