"""Builds the CRI configuration of sandboxes and containers, with labels and annotations.

The labels are the kubelet's, so that any kubelet and crictl can identify the pod.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/kubelet/kuberuntime/kuberuntime_sandbox.go,
pkg/kubelet/kuberuntime/labels.go, staging/src/k8s.io/kubelet/pkg/types/labels.go
"""

import posixpath
from collections.abc import Iterator

from cri_api.v1 import api_pb2 as cri

from pykubelet.api.generated.core import Pod
from pykubelet.api.serializer import encode
from pykubelet.runtimes.cri.host import CriHost, pod_cgroup
from pykubelet.runtimes.cri.resources import container_resources, sandbox_overhead, sandbox_resources
from pykubelet.runtimes.cri.security_context import container_security, sandbox_security
from pykubelet.runtimes.dns import Resolver, pod_resolver
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

# What CRI does not report back, but a restarted kubelet must know.
HOSTNAME = "pykubelet.io/hostname"
TTY = "pykubelet.io/tty"

_PROTOCOLS = {"UDP": cri.UDP, "SCTP": cri.SCTP}

_PROPAGATIONS = {"HostToContainer": cri.PROPAGATION_HOST_TO_CONTAINER, "Bidirectional": cri.PROPAGATION_BIDIRECTIONAL}


def container_config(
    request: ContainerRequest, host: CriHost, *, log_directory: str, image_user: str
) -> cri.ContainerConfig:
    """The configuration of a container; RuntimeFailure if this node does not support it."""
    pod, container = request.pod, request.container
    signal = container.lifecycle.stop_signal if container.lifecycle is not None else None
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=container.name, attempt=request.attempt),
        # By id: the name may point to another image by now.
        image=cri.ImageSpec(image=request.image_id, user_specified_image=container.image),
        command=request.command,
        args=request.args,
        working_dir=container.working_dir,
        envs=[cri.KeyValue(key=name, value=value) for name, value in request.environment],
        mounts=[_mount(request, mount, host) for mount in request.mounts],
        labels={**_pod_labels(pod), CONTAINER_NAME: container.name},
        annotations=_container_annotations(request),
        log_path=posixpath.relpath(request.log_path, log_directory),
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        linux=cri.LinuxContainerConfig(
            resources=container_resources(pod, container, host),
            security_context=container_security(
                pod, container, host, image_user=image_user, target_id=request.target_id
            ),
        ),
        stop_signal=cri.Signal.Value(signal) if signal in cri.Signal.keys() else cri.RUNTIME_DEFAULT,  # noqa: SIM118
    )


def _mount(request: ContainerRequest, mount: Mount, host: CriHost) -> cri.Mount:
    return cri.Mount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        readonly=mount.read_only,
        propagation=_PROPAGATIONS.get(mount.propagation, cri.PROPAGATION_PRIVATE),
        selinux_relabel=host.has_selinux and not _is_host_path(request, mount),
    )


def _is_host_path(request: ContainerRequest, mount: Mount) -> bool:
    """Whether it is a hostPath volume, which keeps its SELinux labels."""
    host_paths = {volume.name for volume in request.pod.spec.volumes if volume.host_path is not None}
    return any(
        one.name in host_paths and posixpath.normpath(one.mount_path) == posixpath.normpath(mount.container_path)
        for one in request.container.volume_mounts
    )


def sandbox_config(request: SandboxRequest, host: CriHost, resolver: Resolver) -> cri.PodSandboxConfig:
    """The configuration of a pod's sandbox; RuntimeFailure if this node does not support it."""
    pod, metadata = request.pod, request.pod.metadata
    dns = pod_resolver(pod, host.cluster_dns, resolver)
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(
            name=metadata.name, namespace=metadata.namespace, uid=metadata.uid, attempt=request.attempt
        ),
        hostname="" if pod.spec.host_network else request.hostname,
        log_directory=request.log_directory,
        dns_config=cri.DNSConfig(servers=dns.servers, searches=dns.searches, options=dns.options),
        port_mappings=_port_mappings(pod),
        labels={**metadata.labels, **_pod_labels(pod)},
        annotations={**metadata.annotations, HOSTNAME: request.hostname},
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=pod_cgroup(pod, driver=host.cgroup_driver, root=host.cgroup_root),
            security_context=sandbox_security(pod),
            sysctls={one.name: one.value for one in pod.spec.security_context.sysctls}
            if pod.spec.security_context is not None
            else {},
            overhead=sandbox_overhead(pod, host),
            resources=sandbox_resources(pod, host),
        ),
    )


def _port_mappings(pod: Pod) -> Iterator[cri.PortMapping]:
    """The ports of regular containers and sidecars."""
    sidecars = (one for one in pod.spec.init_containers if one.restart_policy == "Always")
    for container in (*sidecars, *pod.spec.containers):
        for port in container.ports:
            yield cri.PortMapping(
                protocol=_PROTOCOLS.get(port.protocol, cri.TCP),
                container_port=port.container_port,
                host_port=port.host_port,
                host_ip=port.host_ip,
            )


def _container_annotations(request: ContainerRequest) -> dict[str, str]:
    """What is needed to kill a container and to report its end after its pod spec is gone."""
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


def _pod_labels(pod: Pod) -> dict[str, str]:
    return {POD_NAME: pod.metadata.name, POD_NAMESPACE: pod.metadata.namespace, POD_UID: pod.metadata.uid}
