"""Runs a command as if alone on a machine: only a loopback network, no other processes, no container runtime.

`python isolated_machine.py UID ADDRESS COMMAND...` runs inside the new namespaces. Processes that the command leaves running
end with it, and every port is free, so that the commands of a document can be run unchanged.
"""

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from ordinary_user import become_ordinary
from requirements import missing

_SET_FLAGS, _UP, _SET_ADDRESS = 0x8914, 0x1, 0x8916
_SPACES = ("--net", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child")
_RUNTIMES = Path("/run/containerd")


def run_alone(
    command: list[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
    uid: int = 0,
    address: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, as this user, with only this environment; `stdout` has all its output.

    The machine has this IPv4 address besides loopback, if one is given.
    """
    spaces = _SPACES if os.geteuid() == 0 else ("--user", "--map-root-user", *_SPACES)
    require_spaces(spaces)
    return subprocess.run(
        ["unshare", *spaces, sys.executable, __file__, str(uid), address, *command],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )


def require_spaces(spaces: tuple[str, ...]) -> None:
    """Fails the tests in CI and skips them elsewhere if this user cannot create namespaces."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", *spaces, "true"], check=False).returncode:
        missing("this user may not make namespaces")


def inside(uid: int, address: str, command: list[str]) -> None:
    """Enable the network, hide the machine's containerd, then run the command."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh", b"lo", _UP))
        if address:
            packed = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(any_socket, _SET_ADDRESS, packed)
    if _RUNTIMES.exists():
        subprocess.run(["mount", "-t", "tmpfs", "none", _RUNTIMES], check=True)
    if uid:
        become_ordinary(uid)
    # As process 1 a shell would have to reap orphans; as a child of this process it need not.
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    inside(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
