"""Runs a command as if it were alone on a machine: a network of nothing but loopback, and no process or container runtime.

`python isolated_machine.py UID COMMAND...` is what runs inside. Whatever the command leaves running ends with it, and every port is
free, so that a document's commands can be typed as they stand.
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

import pytest

from ordinary_user import become_ordinary

_SET_FLAGS, _UP = 0x8914, 0x1
_SPACES = ("--net", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child")
_RUNTIMES = Path("/run/containerd")


def run_alone(
    command: list[str], *, folder: Path, environment: Mapping[str, str], seconds: float, uid: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run it in a folder with this environment and no more, as this user; what it says is in `stdout`."""
    spaces = _SPACES if os.geteuid() == 0 else ("--user", "--map-root-user", *_SPACES)
    require_spaces(spaces)
    return subprocess.run(
        ["unshare", *spaces, sys.executable, __file__, str(uid), *command],
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
    """Fails the tests in CI and skips them elsewhere if the machine has no namespaces for us."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", *spaces, "true"], check=False).returncode:
        missing = pytest.fail if os.environ.get("CI") else pytest.skip
        missing("this user may not make namespaces")


def inside(uid: int, command: list[str]) -> None:
    """Loopback is up, nobody's containerd is there; then the command."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh", b"lo", _UP))
    if _RUNTIMES.exists():
        subprocess.run(["mount", "-t", "tmpfs", "none", _RUNTIMES], check=True)
    if uid:
        become_ordinary(uid)
    # As process 1 a shell would have to look after orphans; as a child of one that does nothing else it need not.
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    inside(int(sys.argv[1]), sys.argv[2:])
