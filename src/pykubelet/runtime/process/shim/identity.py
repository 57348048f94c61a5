"""Which process it is: its number, with what tells it from the next one that gets the same.

A process is its number, the moment it was started, and the boot of the machine in which both mean something.
"""

import os
from typing import NamedTuple

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
