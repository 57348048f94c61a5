"""Identifies, reaps, kills and limits the processes of a container.

A process is identified by its PID, its start time and the boot id, so that a reused PID is never confused. The shim adopts
orphans, so every process of the container ends up as its child.
"""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

# A zombie: ended, but not reaped by its parent.
_DEAD = "Z"


class ProcessIdentity(NamedTuple):
    """Identifies a process beyond the reuse of its PID."""

    pid: int
    start_ticks: int
    boot_id: str


def boot_id() -> str:
    """The id of the current boot of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def identify(pid: int) -> ProcessIdentity:
    """The identity of the process that has this PID now; ProcessLookupError if there is none."""
    return ProcessIdentity(pid, int(stat_fields(pid)[19]), boot_id())


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; ProcessLookupError if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError as error:
        raise ProcessLookupError(pid) from error
    # The name is in parentheses and may contain parentheses.
    return text.rpartition(")")[2].split()


def open_process(identity: ProcessIdentity) -> int | None:
    """A pidfd of the process, readable when it has ended; None if it is gone already."""
    if identity.boot_id != boot_id():
        return None
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return None
    # Checked after the pidfd was opened: if the identity matches now, the pidfd belongs to it.
    try:
        is_there = identify(identity.pid) == identity and stat_fields(identity.pid)[0] != _DEAD
    except ProcessLookupError:
        is_there = False
    if not is_there:
        os.close(handle)
        return None
    return handle


def children() -> list[int]:
    """The children of this process, including those that wait to be reaped."""
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children", encoding="ascii") as file:
            return [int(number) for number in file.read().split()]
    except FileNotFoundError:
        # Some kernels are built without this file.
        return [pid for pid in _all_processes() if _stat_number(pid, 1) == me]


def kill_children() -> None:
    """Kills all children. Only this process reaps them, so no PID can belong to another process."""
    for child in children():
        kill(child)


def kill(pid: int) -> None:
    """Kills a process, if it exists and we may."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def signal_group(group: int, number: int) -> None:
    """Signals all processes of a group, if there are any and we may."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def reaped() -> Iterator[tuple[int, int]]:
    """Reaps ended children; their exit codes in a shell's notation. ChildProcessError if there are no children."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        yield pid, code if code >= 0 else 128 - code


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat_number(pid: int, index: int) -> int:
    """A field of `stat_fields`; 0 if the process is gone."""
    try:
        return int(stat_fields(pid)[index])
    except ProcessLookupError:
        return 0


def session_members(session: int, leader_start_ticks: int) -> list[int]:
    """The processes of a session whose leader has this start time; none if the number was reused."""
    with suppress(ProcessLookupError):
        if int(stat_fields(session)[19]) != leader_start_ticks:
            return []
    return [pid for pid in _all_processes() if _stat_number(pid, 3) == session]


def make_cgroups(groups: Sequence[Mapping[str, Any]]) -> None:
    """Creates cgroups and sets their limits; OSError if that fails."""
    for group in groups:
        os.makedirs(group["path"], exist_ok=True)
        for name, value in group["values"]:
            handle = os.open(f"{group['path']}/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(handle, str(value).encode())
            finally:
                os.close(handle)


def ran_out_of_memory(groups: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the OOM killer has killed a process of these cgroups."""
    for group in groups:
        # The names in cgroup v2 and v1.
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError), open(f"{group['path']}/{name}", encoding="ascii") as file:
                facts = dict(line.split() for line in file)
                if int(facts.get("oom_kill", 0)) > 0:
                    return True
    return False


def remove_cgroups(groups: Sequence[Mapping[str, Any]]) -> None:
    """Removes cgroups; one that is not empty stays."""
    for group in groups:
        with suppress(OSError):
            os.rmdir(group["path"])
