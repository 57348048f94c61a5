"""The processes below this one: found without being told, ended without exception.

The supervisor is the parent of all that lost theirs, so whatever a container started ends up as its child.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

from pykubelet.runtime.process.shim.identity import stat_fields


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
