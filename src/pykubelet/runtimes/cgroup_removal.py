"""Kills what is left in cgroups and removes them, for pods and containers that are gone."""

import errno
import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

# A killed process takes some milliseconds to leave its cgroup; a caller tries again later if it needs longer than 0.4 s.
_TRIES, _PAUSE_SECONDS = 20, 0.02


def destroy_cgroups(cgroups: Collection[Path]) -> int:
    """Kill all processes in cgroups and below, and remove them; the number of processes killed. Blocks.

    OSError if one cannot be removed. Cgroups that do not exist are ignored.
    """
    killed: set[int] = set()
    for _ in range(_TRIES):
        for cgroup in cgroups:
            for folder, _, _ in os.walk(cgroup, topdown=False):
                killed |= _kill_members(Path(folder))
                with suppress(OSError):
                    Path(folder).rmdir()
        left = [cgroup for cgroup in cgroups if cgroup.exists()]
        if not left:
            return len(killed)
        time.sleep(_PAUSE_SECONDS)  # noqa: TID251  callers run this in a thread
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(left[0]))


def _kill_members(cgroup: Path) -> set[int]:
    """Kills the processes of a cgroup, not those of its children; their PIDs."""
    try:
        listed = {int(pid) for pid in (cgroup / "cgroup.procs").read_text().split()}
    except OSError:
        return set()
    # 0 is a process of another PID namespace; signalling it would signal our own process group.
    members = listed - {0}
    for pid in members:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return members
