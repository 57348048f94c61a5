"""Finds out at which loopback addresses a port is served by a pod's own processes. Blocks.

All pods share the machine's network here. Without this, the right to forward ports of one pod would be the right to reach
everything that trusts loopback.
"""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from pykubelet.runtime.process.listeners import ADDRESSES, Listener, answering, parse_listeners
from pykubelet.runtime.process.usage_sums import Process, members, parse_process

_PROC = Path("/proc")


def own_addresses(port: int, supervisors: Collection[int], proc: Path = _PROC) -> tuple[str, ...]:
    """The loopback addresses where whoever is below these supervisors, and nobody else, answers at a port."""
    found = answering([one for name in ("tcp", "tcp6") for one in _listeners(name, proc)], port)
    if not found:
        return ()
    held = _sockets_below(supervisors, proc)
    return tuple(address for address in ADDRESSES if address in found and found[address] <= held)


def _listeners(name: str, proc: Path) -> list[Listener]:
    with suppress(FileNotFoundError):
        return parse_listeners(name, (proc / "self/net" / name).read_text())
    return []


def _sockets_below(supervisors: Collection[int], proc: Path) -> set[str]:
    processes: dict[int, Process] = {}
    for folder in proc.iterdir():
        if folder.name.isdecimal():
            # It may end at any moment.
            with suppress(OSError):
                processes[int(folder.name)] = parse_process((folder / "stat").read_text(errors="replace"))
    held: set[str] = set()
    for pids in members(processes, supervisors).values():
        for pid in pids:
            with suppress(OSError):
                held |= {_inode(handle) for handle in (proc / str(pid) / "fd").iterdir()}
    return held


def _inode(handle: Path) -> str:
    with suppress(OSError):
        return str(handle.readlink()).removeprefix("socket:[").removesuffix("]")
    return ""
