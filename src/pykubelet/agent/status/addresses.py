"""The addresses a pod's status shows: the node's, and its own, one of each family at most.

The node's family comes first. A pod whose sandbox is gone keeps the addresses it had, for whoever reads its end; a pod
in the node's network has the node's, from when it first got them. Pure.
Upstream: sortPodIPs and the end of generateAPIPodStatus in pkg/kubelet/kubelet_pods.go, getPodIPs in pleg/generic.go.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from pykubelet.api.addresses import parse_address
from pykubelet.api.generated.core import HostIP, Pod, PodIP, PodStatus
from pykubelet.runtime.protocol import RuntimePod


def with_addresses(
    pod: Pod, status: PodStatus, *, observed: RuntimePod, old: PodStatus, host_ips: Sequence[str]
) -> PodStatus:
    """The status with its addresses; without `host_ips` the node does not know its own yet."""
    pod_ips = _pod_ips(pod, observed, old, host_ips)
    hosts = tuple(HostIP(ip=ip) for ip in host_ips[:2]) if host_ips else old.host_ips
    return replace(
        status,
        host_ip=hosts[0].ip if hosts else "",
        host_ips=hosts,
        pod_ip=pod_ips[0] if pod_ips else "",
        pod_ips=tuple(PodIP(ip=ip) for ip in pod_ips),
    )


def in_order(ips: Sequence[str], host_ips: Sequence[str]) -> tuple[str, ...]:
    """The first address of the node's own family, then the first of the other; whatever is no address is dropped."""
    first: dict[int, str] = {}
    for ip in ips:
        address = parse_address(ip)
        if address is not None:
            first.setdefault(address.version, str(address))
    primary = _version(host_ips[0]) if host_ips else 4
    return tuple(first[version] for version in sorted(first, key=lambda version: version != primary))


def _pod_ips(pod: Pod, observed: RuntimePod, old: PodStatus, host_ips: Sequence[str]) -> tuple[str, ...]:
    newest = observed.sandboxes[0] if observed.sandboxes else None
    ips = in_order(newest.ips, host_ips) if newest is not None and newest.is_ready else ()
    had = tuple(one.ip for one in old.pod_ips)
    if pod.spec.host_network:
        ips = ips or had or tuple(host_ips[:1])
        # The node may have got its second family since.
        is_lacking = len(ips) == 1 and len(host_ips) > 1 and _version(ips[0]) != _version(host_ips[1])
        return (*ips, host_ips[1]) if is_lacking else ips
    return ips if ips or any(sandbox.is_ready for sandbox in observed.sandboxes) else had


def _version(ip: str) -> int | None:
    address = parse_address(ip)
    return address.version if address is not None else None
