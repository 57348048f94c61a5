"""Finds the cgroups that this process may create, and computes the limits of a container's cgroups.

In cgroup v2, root uses a top-level directory, as upstream's kubepods; other users one beside their own cgroup if that is
delegated. In cgroup v1, it is a directory below our own cgroup of each controller. A container without limits and requests
has a cgroup only if its number of processes is limited.

Upstream: pkg/kubelet/cm/helpers_linux.go, pkg/kubelet/kuberuntime/kuberuntime_container_linux.go
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pykubelet.api.generated.core import ResourceRequirements
from pykubelet.api.quantity import QuantityError, parse_quantity
from pykubelet.runtimes.process.state import ControlGroup
from pykubelet.runtimes.qos import CPU_PERIOD_MICROSECONDS, cpu_quota, cpu_shares, cpu_weight

_MOUNT = Path("/sys/fs/cgroup")
_FOLDER = "pykubelet"
MEMORY, CPU, PIDS = "memory", "cpu", "pids"
CONTROLLERS = (MEMORY, CPU, PIDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableCgroups:
    """The usable controllers, each with the directory to create cgroups in; in cgroup v2 it is the same for all."""

    version: int = 0
    folders: Mapping[str, str] = field(default_factory=dict)


NO_CGROUPS = AvailableCgroups()


def plan_cgroups(
    cgroups: AvailableCgroups, name: str, resources: ResourceRequirements, *, max_pids: int = 0
) -> tuple[ControlGroup, ...]:
    """The cgroups of a container that may be created; `max_pids` less than 1 means no limit."""
    settings: dict[str, list[tuple[str, int | str]]] = {
        MEMORY: _memory(cgroups.version, resources),
        CPU: _cpu(cgroups.version, resources),
        PIDS: [("pids.max", max_pids)] if max_pids > 0 else [],
    }
    values: dict[str, list[tuple[str, int | str]]] = {}
    for controller, folder in cgroups.folders.items():
        if settings[controller]:
            values.setdefault(f"{folder}/{name}", []).extend(settings[controller])
    return tuple(ControlGroup(path=path, values=tuple(found)) for path, found in values.items())


def _memory(version: int, resources: ResourceRequirements) -> list[tuple[str, int | str]]:
    limit = _amount(resources.limits, MEMORY, 1)
    if not limit:
        return []
    return [("memory.max" if version == 2 else "memory.limit_in_bytes", limit)]


def _cpu(version: int, resources: ResourceRequirements) -> list[tuple[str, int | str]]:
    settings: list[tuple[str, int | str]] = []
    limit = _amount(resources.limits, CPU, 1000)
    if request := _amount(resources.requests, CPU, 1000) or limit:
        shares = cpu_shares(request)
        settings.append(("cpu.weight", cpu_weight(shares)) if version == 2 else ("cpu.shares", shares))
    if limit and version == 2:
        settings.append(("cpu.max", f"{cpu_quota(limit)} {CPU_PERIOD_MICROSECONDS}"))
    elif limit:
        settings += [("cpu.cfs_period_us", CPU_PERIOD_MICROSECONDS), ("cpu.cfs_quota_us", cpu_quota(limit))]
    return settings


def _amount(quantities: Mapping[str, str], name: str, scale: int) -> int:
    try:
        quantity = parse_quantity(quantities[name])
    except (KeyError, QuantityError):
        return 0
    return max(quantity.value() if scale == 1 else quantity.milli_value(), 0)


def find_cgroups(mount: Path = _MOUNT, own: Path = Path("/proc/self/cgroup")) -> AvailableCgroups:
    """The cgroups that this process may use; NO_CGROUPS if there are none. Blocks."""
    try:
        groups = [line.split(":", 2) for line in own.read_text().splitlines()]
        if (mount / "cgroup.controllers").exists():
            return _version_2(mount, next(path for _, names, path in groups if not names))
        return _version_1(mount, {name: path for _, names, path in groups for name in names.split(",")})
    except (OSError, ValueError, StopIteration):
        return NO_CGROUPS


def _version_2(mount: Path, own: str) -> AvailableCgroups:
    above = mount if os.geteuid() == 0 else (mount / own.lstrip("/")).parent
    folder = above / _FOLDER
    folder.mkdir(exist_ok=True)
    for group in (above, folder):
        for controller in CONTROLLERS:
            # It may be enabled already, or not permitted.
            with suppress(OSError):
                (group / "cgroup.subtree_control").write_text(f"+{controller}")
    usable = (folder / "cgroup.subtree_control").read_text().split()
    return AvailableCgroups(version=2, folders={name: str(folder) for name in CONTROLLERS if name in usable})


def _version_1(mount: Path, own: dict[str, str]) -> AvailableCgroups:
    folders: dict[str, str] = {}
    for controller in CONTROLLERS:
        folder = mount / controller / own.get(controller, "/").lstrip("/") / _FOLDER
        with suppress(OSError):
            folder.mkdir(exist_ok=True)
            # We may be root in a container without permission.
            if os.access(folder, os.W_OK):
                folders[controller] = str(folder)
    return AvailableCgroups(version=1, folders=folders) if folders else NO_CGROUPS
