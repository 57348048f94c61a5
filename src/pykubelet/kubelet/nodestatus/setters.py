"""Builds the Node object and its status: addresses, capacity, allocatable, images and conditions.

Pure: takes the node as the API has it and everything known on this side; returns the node and events. Only what the
kubelet owns changes; conditions, resources, labels and annotations of others stay.

Upstream: pkg/kubelet/nodestatus/setters.go, pkg/kubelet/kubelet_node_status.go, pkg/kubelet/cadvisor/util.go,
pkg/kubelet/cm/node_container_manager_linux.go
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from pykubelet import __version__
from pykubelet.api.generated.core import (
    ContainerImage,
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeDaemonEndpoints,
    NodeSpec,
    NodeStatus,
    NodeSwapStatus,
    NodeSystemInfo,
    Taint,
)
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.quantity import Format, Quantity, QuantityOrPercentage, add, parse_quantity, sub
from pykubelet.kubelet.nodestatus.conditions import NodePressures, NodeProblems, node_conditions, readiness_errors
from pykubelet.kubelet.nodestatus.machine import MachineInfo
from pykubelet.runtimes.protocol import Image

Quantities = Mapping[str, str]
HUGE_PAGES = "hugepages-"
_ZERO = "0"


def capacity(machine: MachineInfo, known: Quantities, *, max_pods: int, pods_per_core: int = 0) -> dict[str, str]:
    """The capacity of the machine, with the resources that others added."""
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
    total: Quantities, reserved: Quantities, kept_free: Mapping[str, QuantityOrPercentage]
) -> dict[str, str]:
    """What is reserved for the system, plus the hard eviction thresholds."""
    found = {name: parse_quantity(reserved[name]) for name in total if name in reserved}
    for name, value in total.items():
        if name in kept_free:
            found[name] = add(found.get(name, Quantity()), kept_free[name].of(parse_quantity(value).value()))
    return {name: str(quantity) for name, quantity in found.items() if quantity.sign()}


def allocatable(total: Quantities, reserved: Quantities, known: Quantities) -> dict[str, str]:
    """What pods may use: capacity without the reservation, memory also without huge pages, at least zero."""
    usable = {name: value for name, value in known.items() if name in total or not is_extended(name)}
    for name, value in total.items():
        usable[name] = _left(value, reserved[name]) if name in reserved else value
    for name, value in total.items():
        if name.startswith(HUGE_PAGES):
            usable["memory"] = _left(usable.get("memory", _ZERO), value)
    return usable


def is_extended(name: str) -> bool:
    """Whether a resource is extended, such as `example.com/gpu`."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _left(value: str, taken: str) -> str:
    left = sub(parse_quantity(value), parse_quantity(taken))
    return str(left) if left.sign() >= 0 else _ZERO


def _binary(count: int) -> str:
    return str(Quantity(count, 0, Format.BINARY_SI))


ATTACH_DETACH = "volumes.kubernetes.io/controller-managed-attach-detach"
PROVIDED_IP = "alpha.kubernetes.io/provided-node-ip"
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
MAX_PODS = 110
MAX_IMAGES = 50
MAX_NAMES_PER_IMAGE = 5
# The Kubernetes release whose behaviour this kubelet has, with our name.
VERSION = f"v1.34.11+pykubelet.{__version__}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatusSettings:
    """The configured part of the node status."""

    name: str
    hostname: str
    port: int = 10250
    """The port of the kubelet's API."""
    ips: tuple[str, ...] = ()
    """At most one address of each family; without any the machine decides."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    provider_id: str = ""
    reserved: Mapping[str, str] = field(default_factory=dict)
    """Reserved for other than pods, by resource."""
    kept_free: Mapping[str, QuantityOrPercentage] = field(default_factory=dict)
    """The hard eviction thresholds, by resource."""
    max_pods: int = MAX_PODS
    pods_per_core: int = 0
    pod_cidr: str = ""
    """The range of pods with which a new node registers; empty: the cluster assigns one."""
    external_cloud: bool = False
    """Whether a cloud controller initializes the node and sets its addresses."""
    attach_by_controller: bool = True
    runtime_version: str = "unknown://Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatusInputs:
    """The inputs of the node status at one time. Volumes in use are None while unknown."""

    now: datetime
    machine: MachineInfo
    problems: NodeProblems = field(default_factory=NodeProblems)
    pressures: NodePressures = field(default_factory=NodePressures)
    images: Sequence[Image] = ()
    volumes_in_use: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """An event to record about the node."""

    type: str
    reason: str
    message: str


def initial_node(settings: NodeStatusSettings, situation: NodeStatusInputs) -> tuple[Node, tuple[NodeEvent, ...]]:
    """The Node to register, and its events."""
    machine = situation.machine
    labels = {
        "kubernetes.io/hostname": settings.hostname,
        "kubernetes.io/os": machine.operating_system,
        "kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/os": machine.operating_system,
        "beta.kubernetes.io/arch": machine.architecture,
        **settings.labels,
    }
    cloud = (Taint(key=UNINITIALIZED, value="true", effect="NoSchedule"),) if settings.external_cloud else ()
    node = Node(
        metadata=ObjectMeta(
            name=settings.name,
            labels=labels,
            annotations={ATTACH_DETACH: "true"} if settings.attach_by_controller else {},
        ),
        spec=NodeSpec(
            taints=(*settings.taints, *cloud),
            provider_id=settings.provider_id,
            pod_cidr=settings.pod_cidr,
            pod_cidrs=(settings.pod_cidr,) if settings.pod_cidr else (),
        ),
    )
    return updated_node(node, settings, situation)


def updated_node(
    original: Node, settings: NodeStatusSettings, situation: NodeStatusInputs
) -> tuple[Node, tuple[NodeEvent, ...]]:
    """The Node with its current status, and its events."""
    machine = situation.machine
    required = {"kubernetes.io/os": machine.operating_system, "kubernetes.io/arch": machine.architecture}
    metadata = replace(
        original.metadata,
        labels={**original.metadata.labels, **required},
        annotations=_annotations(original.metadata.annotations, settings),
    )
    status, reasons = _status(original.status, settings, situation)
    events = [NodeEvent("Normal", reason, f"Node {settings.name} status is now: {reason}") for reason in reasons]
    before = original.status.node_info.boot_id
    if before and before != machine.boot_id:
        message = f"Node {settings.name} has been rebooted, boot id: {machine.boot_id}"
        events.insert(0, NodeEvent("Warning", "Rebooted", message))
    return replace(original, metadata=metadata, status=status), tuple(events)


def _status(
    old: NodeStatus, settings: NodeStatusSettings, situation: NodeStatusInputs
) -> tuple[NodeStatus, tuple[str, ...]]:
    machine, problems = situation.machine, situation.problems
    own = capacity(machine, old.capacity, max_pods=settings.max_pods, pods_per_core=settings.pods_per_core)
    reserved = reservation(own, settings.reserved, settings.kept_free)
    errors = readiness_errors(problems, own)
    conditions, reasons = node_conditions(old.conditions, situation.pressures, errors, problems.warning, situation.now)
    volumes = situation.volumes_in_use
    status = replace(
        old,
        addresses=node_addresses(old.addresses, settings, machine.ip),
        capacity=own,
        allocatable=allocatable(own, reserved, old.allocatable),
        conditions=conditions,
        daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=settings.port)),
        images=node_images(situation.images),
        node_info=_node_info(machine, settings.runtime_version),
        volumes_in_use=old.volumes_in_use if volumes is None else volumes,
    )
    return status, reasons


def node_addresses(known: tuple[NodeAddress, ...], settings: NodeStatusSettings, found: str) -> tuple[NodeAddress, ...]:
    """The addresses of the node; the old ones if they are unknown or a cloud controller sets them."""
    host = NodeAddress(type="Hostname", address=settings.hostname)
    if settings.external_cloud and known:
        return known
    if settings.external_cloud and not settings.ips:
        return (host,)
    ips = settings.ips or _own_address(settings.hostname) or ((found,) if found else ())
    return (*(NodeAddress(type="InternalIP", address=ip) for ip in ips), host) if ips else known


def node_images(images: Sequence[Image]) -> tuple[ContainerImage, ...]:
    """The largest images, each with a few of its names."""
    largest = sorted(images, key=lambda image: (-image.size_bytes, image.id))[:MAX_IMAGES]
    return tuple(
        ContainerImage(names=image.names[:MAX_NAMES_PER_IMAGE], size_bytes=image.size_bytes) for image in largest
    )


def _annotations(known: Mapping[str, str], settings: NodeStatusSettings) -> dict[str, str]:
    """The annotation that passes the configured addresses to a cloud controller."""
    kept = {name: value for name, value in known.items() if name != PROVIDED_IP}
    return {**kept, PROVIDED_IP: ",".join(settings.ips)} if settings.external_cloud and settings.ips else kept


def _own_address(hostname: str) -> tuple[str, ...]:
    """The hostname as an address, if it is one."""
    try:
        return (str(ipaddress.ip_address(hostname)),)
    except ValueError:
        return ()


def _node_info(machine: MachineInfo, runtime_version: str) -> NodeSystemInfo:
    return NodeSystemInfo(
        architecture=machine.architecture,
        boot_id=machine.boot_id,
        container_runtime_version=runtime_version,
        kernel_version=machine.kernel_version,
        kubelet_version=VERSION,
        machine_id=machine.machine_id,
        operating_system=machine.operating_system,
        os_image=machine.os_image,
        swap=NodeSwapStatus(capacity=machine.swap_bytes) if machine.swap_bytes else None,
        system_uuid=machine.system_uuid,
    )
