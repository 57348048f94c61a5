"""What a pod takes of its node: amounts of resources and ports of the machine.

Pure. Amounts are whole numbers, as messages show them: CPU in thousandths, everything else in its unit. Upstream:
k8s.io/component-helpers/resource/helpers.go (PodRequests), GetHostPorts in pkg/scheduler/util/utils.go, HostPortInfo in
k8s.io/kube-scheduler/framework.
"""

from collections.abc import Mapping

from msgspec import Struct

from pykubelet.api.defaults.pod_resources import container_sums, is_native, is_pod_level
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import is_restartable_init_container
from pykubelet.api.quantity import Quantity, add, parse_quantity
from pykubelet.api.wire import to_document

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  nothing is bound here, this is how a pod asks for all addresses


class HostPort(Struct, frozen=True):
    """A port of the machine that a pod takes, on one address or on all."""

    protocol: str
    port: int
    address: str


def amount(resource: str, quantity: Quantity) -> int:
    """A quantity as the whole number that is compared and shown."""
    return quantity.milli_value() if resource == CPU else quantity.value()


def amounts(quantities: Mapping[str, str]) -> Mapping[str, int]:
    """The same for the quantities of an object, such as what a node can give."""
    return {name: amount(name, parse_quantity(text)) for name, text in quantities.items()}


def pod_requests(pod: Pod) -> Mapping[str, int]:
    """What a pod asks for, by resource: what its containers need at once, or the pod as a whole says, and overhead."""
    total = dict(container_sums(to_document(pod.spec), "requests"))
    if pod.spec.resources is not None:
        total |= {
            name: parse_quantity(text) for name, text in pod.spec.resources.requests.items() if is_pod_level(name)
        }
    for name, text in pod.spec.overhead.items():
        overhead = parse_quantity(text)
        total[name] = add(total[name], overhead) if name in total else overhead
    return {name: amount(name, quantity) for name, quantity in total.items()}


def is_extended(resource: str) -> bool:
    """Whether a resource is not one of Kubernetes' own."""
    return not is_native(resource) and not resource.startswith("requests.")


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The ports of the machine that a pod takes for as long as it runs."""
    sidecars = (container for container in pod.spec.init_containers if is_restartable_init_container(container))
    return tuple(
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or EVERY_ADDRESS)
        for container in (*sidecars, *pod.spec.containers)
        for port in container.ports
        if port.host_port > 0
    )
