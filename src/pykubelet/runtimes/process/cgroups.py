"""Finds the cgroups that this process may create, and computes the limits of a container's cgroups.

In cgroup v2, root uses a top-level directory, as upstream's kubepods. Other users have one beside their own cgroup if they
own the cgroup above, as in a user session of systemd, or in a service with `DelegateSubgroup=`; it is then independent of
the agent's own unit. If they own only their own cgroup, as in a service with `User=` and `Delegate=yes`, it is below that.
In cgroup v1, it is a directory below our own cgroup of each controller. A container without limits and requests has a
cgroup only if its number of processes is limited.

Upstream: pkg/kubelet/cm/helpers_linux.go, pkg/kubelet/kuberuntime/kuberuntime_container_linux.go
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pykubelet.api.generated.core import ResourceRequirements
from pykubelet.api.quantity import QuantityError, parse_quantity
from pykubelet.runtimes.limits import UnenforcedLimits
from pykubelet.runtimes.process.state import ControlGroup
from pykubelet.runtimes.qos import CPU_PERIOD_MICROSECONDS, cpu_quota, cpu_shares, cpu_weight

_MOUNT = Path("/sys/fs/cgroup")
_FOLDER = "pykubelet"
_LEAF = "pykubelet-agent"
"""The cgroup for the processes of a cgroup that gets children with controllers."""
_TRIES = 5
"""How often to look for processes that were started meanwhile."""
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


def _version_2(mount: Path, own_path: str) -> AvailableCgroups:
    own = mount / own_path.lstrip("/")
    found = _create_below(mount if os.geteuid() == 0 else own.parent)
    # The topmost cgroup of a machine has no type, and belongs to the machine.
    if not found and (own / "cgroup.type").exists() and _is_delegated(own) and _vacate(own):
        found = _create_below(own)
    return AvailableCgroups(version=2, folders=found)


def _create_below(above: Path) -> dict[str, str]:
    """Creates our directory in a cgroup; returns the controllers that it has, with its path."""
    folder = above / _FOLDER
    # To move a process, its user needs to own a cgroup above the old and the new one.
    if not _is_delegated(above):
        return {}
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return {}
    for group in (above, folder):
        for controller in CONTROLLERS:
            # It may be enabled already, or not permitted.
            with suppress(OSError):
                (group / "cgroup.subtree_control").write_text(f"+{controller}")
    usable = (folder / "cgroup.subtree_control").read_text().split()
    found = {name: str(folder) for name in CONTROLLERS if name in usable}
    if not found:
        with suppress(OSError):
            folder.rmdir()
    return found


def _is_delegated(cgroup: Path) -> bool:
    """Whether this user may create cgroups in it and move processes between them."""
    return os.access(cgroup, os.W_OK) and os.access(cgroup / "cgroup.procs", os.W_OK)


def _vacate(cgroup: Path) -> bool:
    """Moves all processes of a cgroup to a child, since one with processes gives its children no controllers.

    Returns whether none is left; those of other PID namespaces cannot be moved.
    """
    leaf = cgroup / _LEAF
    try:
        leaf.mkdir(exist_ok=True)
        for _ in range(_TRIES):
            members = (cgroup / "cgroup.procs").read_text().split()
            if not members:
                return True
            for pid in members:
                # It may have ended.
                with suppress(ProcessLookupError):
                    (leaf / "cgroup.procs").write_text(pid)
    except OSError:
        return False
    return False


def unenforced_limits(cgroups: AvailableCgroups, *, max_pids: int) -> UnenforcedLimits:
    """The limits that these cgroups cannot enforce, with the advice for this user."""
    missing = frozenset(CONTROLLERS) - frozenset(cgroups.folders)
    if not missing:
        advice = ""
    elif os.geteuid() == 0:
        advice = f"make the cgroup controllers {', '.join(sorted(missing))} writable for the node"
    elif cgroups.version == 2:
        advice = f"run the node as root, or give its user the cgroup controllers {', '.join(sorted(missing))}"
        advice += ", for example with: systemd-run --user --scope -p Delegate=yes pykubelet ..."
    else:
        advice = "run the node as root: this machine has no cgroups of version 2, which ordinary users could use"
    return UnenforcedLimits(
        resources=missing - {PIDS},
        max_pids=max(max_pids, 0) if PIDS in missing else 0,
        only_of_containers=True,
        advice=advice,
    )


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
