"""A container as CRI is asked for it.

Pure. Upstream: generateContainerConfig and makeMounts in pkg/kubelet/kuberuntime/kuberuntime_container.go

A sandbox as CRI is asked for it.

Pure. Upstream: generatePodSandboxConfig in pkg/kubelet/kuberuntime/kuberuntime_sandbox.go

Labels and annotations of sandboxes and containers: any kubelet and crictl can tell whose they are.

Upstream: pkg/kubelet/kuberuntime/labels.go, staging/src/k8s.io/kubelet/pkg/types/labels.go
"""

import posixpath
from collections.abc import Iterator

from cri_api.v1 import api_pb2 as cri

from pykubelet.api.generated.core import Pod
from pykubelet.api.serializer import encode
from pykubelet.runtimes.cri.dns import Resolver, pod_resolver
from pykubelet.runtimes.cri.host import CriHost, pod_cgroup
from pykubelet.runtimes.cri.resources import container_resources, sandbox_overhead, sandbox_resources
from pykubelet.runtimes.cri.security_context import container_security, sandbox_security
from pykubelet.runtimes.protocol import ContainerRequest, Mount, SandboxRequest

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"

HASH = "io.kubernetes.container.hash"
RESTART_COUNT = "io.kubernetes.container.restartCount"
MESSAGE_PATH = "io.kubernetes.container.terminationMessagePath"
MESSAGE_POLICY = "io.kubernetes.container.terminationMessagePolicy"
PRE_STOP = "io.kubernetes.container.preStopHandler"
PORTS = "io.kubernetes.container.ports"
DELETION_GRACE = "io.kubernetes.pod.deletionGracePeriod"
TERMINATION_GRACE = "io.kubernetes.pod.terminationGracePeriod"

# What CRI does not tell of what it was told, and a node that was started anew must know.
HOSTNAME = "pykubelet.io/hostname"
TTY = "pykubelet.io/tty"


def sandbox_labels(pod: Pod) -> dict[str, str]:
    """The pod's own labels and whose sandbox it is."""
    return {**pod.metadata.labels, **_whose(pod)}


def sandbox_annotations(request: SandboxRequest) -> dict[str, str]:
    """The pod's own annotations, and the name of its host."""
    return {**request.pod.metadata.annotations, HOSTNAME: request.hostname}


def container_labels(request: ContainerRequest) -> dict[str, str]:
    """Whose container it is."""
    return {**_whose(request.pod), CONTAINER_NAME: request.container.name}


def container_annotations(request: ContainerRequest) -> dict[str, str]:
    """All that is needed to end a container, and to tell how it ended, when its pod is known no more."""
    pod, container = request.pod, request.container
    found = {
        HASH: request.hash,
        RESTART_COUNT: str(request.attempt),
        MESSAGE_PATH: container.termination_message_path,
        MESSAGE_POLICY: container.termination_message_policy,
    }
    if container.tty:
        found[TTY] = "true"
    if pod.metadata.deletion_grace_period_seconds is not None:
        found[DELETION_GRACE] = str(pod.metadata.deletion_grace_period_seconds)
    if pod.spec.termination_grace_period_seconds is not None:
        found[TERMINATION_GRACE] = str(pod.spec.termination_grace_period_seconds)
    if container.lifecycle is not None and container.lifecycle.pre_stop is not None:
        found[PRE_STOP] = encode(container.lifecycle.pre_stop).decode()
    if container.ports:
        found[PORTS] = encode(container.ports).decode()
    return found


def _whose(pod: Pod) -> dict[str, str]:
    return {POD_NAME: pod.metadata.name, POD_NAMESPACE: pod.metadata.namespace, POD_UID: pod.metadata.uid}


_PROPAGATIONS = {
    "HostToContainer": cri.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": cri.PROPAGATION_BIDIRECTIONAL,
}


def container_config(
    request: ContainerRequest, machine: CriHost, *, log_directory: str, image_user: str
) -> cri.ContainerConfig:
    """The container of a pod; RuntimeFailure if it asks for what this node cannot give."""
    pod, container = request.pod, request.container
    signal = container.lifecycle.stop_signal if container.lifecycle is not None else None
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=container.name, attempt=request.attempt),
        # By its id: a name may have come to mean another image since it was looked up.
        image=cri.ImageSpec(image=request.image_id, user_specified_image=container.image),
        command=request.command,
        args=request.args,
        working_dir=container.working_dir,
        envs=[cri.KeyValue(key=name, value=value) for name, value in request.environment],
        mounts=[_mount(request, mount, machine) for mount in request.mounts],
        labels=container_labels(request),
        annotations=container_annotations(request),
        log_path=posixpath.relpath(request.log_path, log_directory),
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        linux=cri.LinuxContainerConfig(
            resources=container_resources(pod, container, machine),
            security_context=container_security(
                pod, container, machine, image_user=image_user, target_id=request.target_id
            ),
        ),
        stop_signal=cri.Signal.Value(signal) if signal in cri.Signal.keys() else cri.RUNTIME_DEFAULT,  # noqa: SIM118
    )


def _mount(request: ContainerRequest, mount: Mount, machine: CriHost) -> cri.Mount:
    return cri.Mount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        readonly=mount.read_only,
        propagation=_PROPAGATIONS.get(mount.propagation, cri.PROPAGATION_PRIVATE),
        selinux_relabel=machine.has_selinux and not _is_host_path(request, mount),
    )


def _is_host_path(request: ContainerRequest, mount: Mount) -> bool:
    """Whether it is a path of the machine as such, which keeps the labels it has."""
    of_machine = {volume.name for volume in request.pod.spec.volumes if volume.host_path is not None}
    return any(
        one.name in of_machine and posixpath.normpath(one.mount_path) == posixpath.normpath(mount.container_path)
        for one in request.container.volume_mounts
    )


_PROTOCOLS = {"UDP": cri.UDP, "SCTP": cri.SCTP}


def sandbox_config(request: SandboxRequest, machine: CriHost, resolver: Resolver) -> cri.PodSandboxConfig:
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
