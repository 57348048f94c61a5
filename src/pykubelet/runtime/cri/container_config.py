"""A container as CRI is asked for it.

Pure. Upstream: generateContainerConfig and makeMounts in pkg/kubelet/kuberuntime/kuberuntime_container.go
"""

import posixpath

from cri_api.v1 import api_pb2 as cri

from pykubelet.runtime.cri.facts import Machine
from pykubelet.runtime.cri.labels import container_annotations, container_labels
from pykubelet.runtime.cri.resources import container_resources
from pykubelet.runtime.cri.security import container_security
from pykubelet.runtime.protocol import ContainerRequest, Mount

_PROPAGATIONS = {
    "HostToContainer": cri.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": cri.PROPAGATION_BIDIRECTIONAL,
}


def container_config(
    request: ContainerRequest, machine: Machine, *, log_directory: str, image_user: str
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


def _mount(request: ContainerRequest, mount: Mount, machine: Machine) -> cri.Mount:
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
