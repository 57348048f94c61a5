"""The processes below this one: found without being told, ended without exception.

The supervisor is the parent of all that lost theirs, so whatever a container started ends up as its child.

The control groups of a container, as far as the supervisor handles them: made, asked, removed.

Which process it is: its number, with what tells it from the next one that gets the same.

A process is its number, the moment it was started, and the boot of the machine in which both mean something.
"""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

# Ended, but its parent has not asked how; in some containers nobody ever asks.
_DEAD = "Z"


class ProcessIdentity(NamedTuple):
    """One process of one boot; it is never confused with another."""

    pid: int
    start_ticks: int
    boot_id: str


def boot_id() -> str:
    """A text that is new each time the machine starts."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def identify(pid: int) -> ProcessIdentity:
    """The process that has this number now; ProcessLookupError if none has."""
    return ProcessIdentity(pid, int(stat_fields(pid)[19]), boot_id())


def stat_fields(pid: int) -> list[str]:
    """What the kernel tells of a process, from its state on; ProcessLookupError if there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError as error:
        raise ProcessLookupError(pid) from error
    # Its name is in parentheses, and may hold some.
    return text.rpartition(")")[2].split()


def open_process(identity: ProcessIdentity) -> int | None:
    """A handle of the process, readable once it has ended; None if it is gone already."""
    if identity.boot_id != boot_id():
        return None
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return None
    # The number is looked at after the handle was taken: if it is the same one now, the handle is of it as well.
    try:
        is_there = identify(identity.pid) == identity and stat_fields(identity.pid)[0] != _DEAD
    except ProcessLookupError:
        is_there = False
    if not is_there:
        os.close(handle)
        return None
    return handle


def children() -> list[int]:
    """The children of this process, those included that have ended and wait to be reaped."""
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children", encoding="ascii") as file:
            return [int(number) for number in file.read().split()]
    except FileNotFoundError:
        # Kernels may be built without it.
        return [pid for pid in _all_processes() if _parent(pid) == me]


def kill_children() -> None:
    """Kill all of them. Only we reap them, so none of the numbers can mean another process."""
    for child in children():
        kill(child)


def kill(pid: int) -> None:
    """Kill one, if it is there and we may."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def signal_group(group: int, number: int) -> None:
    """Send a signal to all processes of a group, if there are any and we may."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def reaped() -> Iterator[tuple[int, int]]:
    """Children that have ended, with their exit codes as a shell tells them; ChildProcessError if there are none left."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        yield pid, code if code >= 0 else 128 - code


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent(pid: int) -> int:
    try:
        return int(stat_fields(pid)[1])
    except ProcessLookupError:
        return 0


def session_members(session: int, leader_start_ticks: int) -> list[int]:
    """Who is left of a session whose leader was started at a time; a later session of this number is another one."""
    with suppress(ProcessLookupError):
        if int(stat_fields(session)[19]) != leader_start_ticks:
            return []
    return [pid for pid in _all_processes() if _session(pid) == session]


def _session(pid: int) -> int:
    try:
        return int(stat_fields(pid)[3])
    except ProcessLookupError:
        return 0


def make_cgroups(groups: Sequence[Mapping[str, Any]]) -> None:
    """Make the groups and set their limits; OSError if one cannot be set."""
    for group in groups:
        os.makedirs(group["path"], exist_ok=True)
        for name, value in group["values"]:
            handle = os.open(f"{group['path']}/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(handle, str(value).encode())
            finally:
                os.close(handle)


def ran_out_of_memory(groups: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the kernel killed something in them for want of memory."""
    for group in groups:
        # The names in version 2 and 1.
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError), open(f"{group['path']}/{name}", encoding="ascii") as file:
                facts = dict(line.split() for line in file)
                if int(facts.get("oom_kill", 0)) > 0:
                    return True
    return False


def remove_cgroups(groups: Sequence[Mapping[str, Any]]) -> None:
    """Remove them; one that is not empty yet stays."""
    for group in groups:
        with suppress(OSError):
            os.rmdir(group["path"])
