"""What a node has to give: capacity, and what of it pods may use.

In: the machine, what is reserved, the quantities that the node has in the API so far (others may have added some). Out:
quantities by name. Pure.

Upstream: pkg/kubelet/nodestatus/setters.go (MachineInfo), pkg/kubelet/cadvisor/util.go,
pkg/kubelet/cm/node_container_manager_linux.go (GetNodeAllocatableReservation)
"""

from collections.abc import Mapping

from pykubelet.agent.heartbeat.facts import Machine
from pykubelet.api.quantity import Format, Quantity, add, parse_quantity, sub
from pykubelet.api.quantity_or_share import QuantityOrShare

Quantities = Mapping[str, str]
HUGE_PAGES = "hugepages-"
_ZERO = "0"


def capacity(machine: Machine, known: Quantities, *, max_pods: int, pods_per_core: int = 0) -> dict[str, str]:
    """All that the machine has, beside what others say it has."""
    by_cores = machine.cores * pods_per_core
    found = {
        "cpu": str(Quantity(machine.cores, 0, Format.DECIMAL_SI)),
        "memory": _binary(machine.memory_bytes),
        "pods": str(Quantity(min(by_cores, max_pods) if pods_per_core else max_pods, 0, Format.DECIMAL_SI)),
    }
    if machine.storage_bytes:
        found["ephemeral-storage"] = _binary(machine.storage_bytes)
    huge = {f"{HUGE_PAGES}{_binary(size)}": _binary(total) for size, total in machine.huge_pages.items()}
    return {**known, **found, **huge}


def reservation(
    all_there_is: Quantities, reserved: Quantities, kept_free: Mapping[str, QuantityOrShare]
) -> dict[str, str]:
    """What pods are not promised: what is reserved, and what must be left for the node not to evict them at once."""
    found = {name: parse_quantity(reserved[name]) for name in all_there_is if name in reserved}
    for name, value in all_there_is.items():
        if name in kept_free:
            found[name] = add(found.get(name, Quantity()), kept_free[name].of(parse_quantity(value).value()))
    return {name: str(quantity) for name, quantity in found.items() if quantity.sign()}


def allocatable(all_there_is: Quantities, reserved: Quantities, known: Quantities) -> dict[str, str]:
    """What pods may use: all but what is reserved, memory also without huge pages; never less than nothing."""
    usable = {name: value for name, value in known.items() if name in all_there_is or not is_extended(name)}
    for name, value in all_there_is.items():
        usable[name] = _left(value, reserved[name]) if name in reserved else value
    for name, value in all_there_is.items():
        if name.startswith(HUGE_PAGES):
            usable["memory"] = _left(usable.get("memory", _ZERO), value)
    return usable


def is_extended(name: str) -> bool:
    """Whether a resource is one that others have invented: `example.com/gpu`."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _left(value: str, taken: str) -> str:
    left = sub(parse_quantity(value), parse_quantity(taken))
    return str(left) if left.sign() >= 0 else _ZERO


def _binary(count: int) -> str:
    return str(Quantity(count, 0, Format.BINARY_SI))
