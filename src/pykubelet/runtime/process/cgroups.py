"""Finds out which control groups this process may make, and makes the folder they go into. Blocks.

Version 2: root uses a folder at the top, as upstream's kubepods; anybody else one beside its own group, where that is
delegated. Version 1: a folder below our own group of each controller.
"""

import os
from contextlib import suppress
from pathlib import Path

from pykubelet.runtime.process.cgroup_plan import CONTROLLERS, NO_CGROUPS, Cgroups

_MOUNT = Path("/sys/fs/cgroup")
_FOLDER = "pykubelet"


def find_cgroups(mount: Path = _MOUNT, own: Path = Path("/proc/self/cgroup")) -> Cgroups:
    """What may be used; nothing if nothing may."""
    try:
        groups = [line.split(":", 2) for line in own.read_text().splitlines()]
        if (mount / "cgroup.controllers").exists():
            return _version_2(mount, next(path for _, names, path in groups if not names))
        return _version_1(mount, {name: path for _, names, path in groups for name in names.split(",")})
    except (OSError, ValueError, StopIteration):
        return NO_CGROUPS


def _version_2(mount: Path, own: str) -> Cgroups:
    above = mount if os.geteuid() == 0 else (mount / own.lstrip("/")).parent
    folder = above / _FOLDER
    folder.mkdir(exist_ok=True)
    for group in (above, folder):
        for controller in CONTROLLERS:
            # It may be so already, or not ours to say.
            with suppress(OSError):
                (group / "cgroup.subtree_control").write_text(f"+{controller}")
    usable = (folder / "cgroup.subtree_control").read_text().split()
    return Cgroups(version=2, folders={name: str(folder) for name in CONTROLLERS if name in usable})


def _version_1(mount: Path, own: dict[str, str]) -> Cgroups:
    folders: dict[str, str] = {}
    for controller in CONTROLLERS:
        folder = mount / controller / own.get(controller, "/").lstrip("/") / _FOLDER
        with suppress(OSError):
            folder.mkdir(exist_ok=True)
            # Owned by root, yet we may be in a container that has no say.
            if os.access(folder, os.W_OK):
                folders[controller] = str(folder)
    return Cgroups(version=1, folders=folders) if folders else NO_CGROUPS
