"""Where container runtimes listen. It is looked up without importing gRPC, which is heavy."""

import stat
from pathlib import Path

SOCKETS = ("/run/containerd/containerd.sock", "/run/crio/crio.sock", "/var/run/cri-dockerd.sock")
"""Where runtimes listen unless told otherwise."""


def find_socket(given: str) -> str:
    """The path of the socket that was given, with or without `unix://`, or of the first that is there; empty if none is."""
    if given:
        return given.removeprefix("unix://")
    return next((path for path in SOCKETS if _is_socket(path)), "")


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(Path(path).stat().st_mode)
    except OSError:
        return False
