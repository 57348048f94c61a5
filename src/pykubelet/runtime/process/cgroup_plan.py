"""The control groups of a container: its limits in the words of the kernel.

A container without limits and requests has a group only for the number of its processes, if that is limited.

Upstream: pkg/kubelet/cm/helpers_linux.go, calculateLinuxResources in pkg/kubelet/kuberuntime
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pykubelet.api.generated.core import ResourceRequirements
from pykubelet.api.quantity import QuantityError, parse_quantity
from pykubelet.runtime.process.records import ControlGroup

_PERIOD_MICROSECONDS = 100_000
_MIN_QUOTA = 1000
_MIN_SHARES, _MAX_SHARES = 2, 262_144
MEMORY, CPU, PIDS = "memory", "cpu", "pids"
CONTROLLERS = (MEMORY, CPU, PIDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroups:
    """The controllers that may be used, and the folder of each to make groups in; in version 2 all have one."""

    version: int = 0
    folders: Mapping[str, str] = field(default_factory=dict)


NO_CGROUPS = Cgroups()


def plan_cgroups(
    cgroups: Cgroups, name: str, resources: ResourceRequirements, *, max_pids: int = 0
) -> tuple[ControlGroup, ...]:
    """The groups to make for a container, as far as they may be made; `max_pids` less than 1 is no limit."""
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
        shares = min(max(request * 1024 // 1000, _MIN_SHARES), _MAX_SHARES)
        settings.append(("cpu.weight", _weight(shares)) if version == 2 else ("cpu.shares", shares))
    if limit:
        quota = max(limit * _PERIOD_MICROSECONDS // 1000, _MIN_QUOTA)
        if version == 2:
            settings.append(("cpu.max", f"{quota} {_PERIOD_MICROSECONDS}"))
        else:
            settings += [("cpu.cfs_period_us", _PERIOD_MICROSECONDS), ("cpu.cfs_quota_us", quota)]
    return settings


def _weight(shares: int) -> int:
    """The range of version 1, 2 to 262144, on that of version 2, 1 to 10000."""
    return 1 + (shares - _MIN_SHARES) * 9999 // (_MAX_SHARES - _MIN_SHARES)


def _amount(quantities: Mapping[str, str], name: str, scale: int) -> int:
    try:
        quantity = parse_quantity(quantities[name])
    except (KeyError, QuantityError):
        return 0
    return max(quantity.value() if scale == 1 else quantity.milli_value(), 0)
