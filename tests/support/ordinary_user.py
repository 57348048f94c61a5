"""Switches to an unprivileged user that can read the interpreter and this tree.

As a program, it becomes another one as that user: `ordinary_user.py UID PROGRAM ARGUMENT...`.
"""

import os
import sys
from pathlib import Path

from pykubelet.runtimes.process.shim import kernel

_HOME = Path("/root")
_NEEDED = (Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parent)


def become_ordinary(uid: int) -> None:
    """Switch to another user for good; makes interpreter and tree reachable if they are below root's home."""
    below = {path.relative_to(_HOME).parts[0] for path in _NEEDED if path.is_relative_to(_HOME)}
    if below and not _HOME.stat().st_mode & 0o001:
        kernel.unshare(kernel.NEW_MOUNTS)
        kernel.mount("", "/", flags=kernel.PRIVATE | kernel.RECURSIVE)
        handles = {name: os.open(_HOME / name, os.O_PATH) for name in below}
        kernel.mount("tmpfs", str(_HOME), "tmpfs", 0, "mode=755")
        for name, handle in handles.items():
            (_HOME / name).mkdir()
            kernel.mount(f"/proc/self/fd/{handle}", str(_HOME / name), flags=kernel.BIND | kernel.RECURSIVE)
            os.close(handle)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


if __name__ == "__main__":
    become_ordinary(int(sys.argv[1]))
    os.environ["HOME"] = "/"
    os.execvp(sys.argv[2], sys.argv[2:])
