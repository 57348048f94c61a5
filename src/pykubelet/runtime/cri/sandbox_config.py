"""A sandbox as CRI is asked for it.

Pure. Upstream: generatePodSandboxConfig in pkg/kubelet/kuberuntime/kuberuntime_sandbox.go
"""

from collections.abc import Iterator

from cri_api.v1 import api_pb2 as cri

from pykubelet.api.generated.core import Pod
from pykubelet.runtime.cri.cgroup_names import pod_cgroup
from pykubelet.runtime.cri.dns import Resolver, pod_resolver
from pykubelet.runtime.cri.facts import Machine
from pykubelet.runtime.cri.labels import sandbox_annotations, sandbox_labels
from pykubelet.runtime.cri.resources import sandbox_overhead, sandbox_resources
from pykubelet.runtime.cri.security import sandbox_security
from pykubelet.runtime.protocol import SandboxRequest

_PROTOCOLS = {"UDP": cri.UDP, "SCTP": cri.SCTP}


def sandbox_config(request: SandboxRequest, machine: Machine, resolver: Resolver) -> cri.PodSandboxConfig:
    """The sandbox of a pod; RuntimeFailure if the pod asks for one that this node cannot make."""
    pod = request.pod
    dns = pod_resolver(pod, machine.cluster_dns, resolver)
    metadata = pod.metadata
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(
            name=metadata.name, namespace=metadata.namespace, uid=metadata.uid, attempt=request.attempt
        ),
        hostname="" if pod.spec.host_network else request.hostname,
        log_directory=request.log_directory,
        dns_config=cri.DNSConfig(servers=dns.servers, searches=dns.searches, options=dns.options),
        port_mappings=_port_mappings(pod),
        labels=sandbox_labels(pod),
        annotations=sandbox_annotations(request),
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=pod_cgroup(pod, driver=machine.cgroup_driver, root=machine.cgroup_root),
            security_context=sandbox_security(pod),
            sysctls={one.name: one.value for one in pod.spec.security_context.sysctls}
            if pod.spec.security_context is not None
            else {},
            overhead=sandbox_overhead(pod, machine),
            resources=sandbox_resources(pod, machine),
        ),
    )


def _port_mappings(pod: Pod) -> Iterator[cri.PortMapping]:
    """Ports of the machine, which sidecars may have as well as regular containers."""
    sidecars = (one for one in pod.spec.init_containers if one.restart_policy == "Always")
    for container in (*sidecars, *pod.spec.containers):
        for port in container.ports:
            yield cri.PortMapping(
                protocol=_PROTOCOLS.get(port.protocol, cri.TCP),
                container_port=port.container_port,
                host_port=port.host_port,
                host_ip=port.host_ip,
            )
