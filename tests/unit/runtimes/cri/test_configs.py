"""Sandbox and container configurations sent over CRI."""

import json

import pytest
from cri_api.v1 import api_pb2 as cri
from msgspec.structs import replace

from pykubelet.api.generated.core import (
    ContainerPort,
    ExecAction,
    HostPathVolumeSource,
    Lifecycle,
    LifecycleHandler,
    Pod,
    PodSecurityContext,
    Sysctl,
    Volume,
    VolumeMount,
)
from pykubelet.runtimes.cri.configs import container_config, sandbox_config
from pykubelet.runtimes.cri.host import CriHost
from pykubelet.runtimes.dns import Resolver
from pykubelet.runtimes.protocol import ContainerRequest, Mount, SandboxRequest
from pykubelet.testing import build

MACHINE = CriHost(has_selinux=True)


def asked(pod: Pod) -> cri.PodSandboxConfig:
    request = SandboxRequest(pod=pod, attempt=2, hostname="host", log_directory="/logs/pod")
    return sandbox_config(request, MACHINE, Resolver(("192.0.2.1",)))


def request_for(pod: Pod, **fields: object) -> ContainerRequest:
    return ContainerRequest(
        pod=pod,
        sandbox_id="box",
        container=pod.spec.containers[0],
        attempt=3,
        hash="abc",
        image_id="sha256:1",
        command=("run",),
        args=("fast",),
        environment=(("NAME", "value"),),
        mounts=fields.get("mounts", ()),  # type: ignore[arg-type]  # one field is enough here
        log_path="/logs/pod/main/3.log",
    )


def test_sandbox_config_has_the_metadata_and_settings_of_its_pod() -> None:
    """Names, logs, resolver and sysctls; labels as crictl and other kubelets expect them."""
    context = PodSecurityContext(sysctls=(Sysctl(name="kernel.shm_rmid_forced", value="1"),))
    pod = build.pod("web", labels={"app": "web"}, annotations={"note": "x"}, security_context=context)
    found = asked(pod)
    assert (found.metadata.name, found.metadata.namespace, found.metadata.attempt) == ("web", "default", 2)
    assert (found.hostname, found.log_directory) == ("host", "/logs/pod")
    assert list(found.dns_config.servers) == ["192.0.2.1"]
    assert dict(found.labels) == {
        "app": "web",
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": pod.metadata.uid,
    }
    assert found.annotations["note"] == "x"
    assert dict(found.linux.sysctls) == {"kernel.shm_rmid_forced": "1"}
    assert found.linux.cgroup_parent == f"/kubepods/besteffort/pod{pod.metadata.uid}"


def test_sandbox_in_the_machines_network_has_its_name() -> None:
    """The hostname in its configuration is empty."""
    assert asked(build.pod(host_network=True)).hostname == ""


def test_sandbox_maps_ports_of_sidecars_and_containers() -> None:
    """Ports of plain init containers are not mapped."""
    ports = (
        ContainerPort(container_port=80, host_port=8080, host_ip="192.0.2.1", protocol="UDP"),
        ContainerPort(container_port=81, protocol="SCTP"),
    )
    sidecar = build.container("side", restart_policy="Always", ports=(ContainerPort(container_port=82),))
    init = build.container("init", ports=(ContainerPort(container_port=83),))
    found = asked(build.pod(containers=(build.container(ports=ports),), init_containers=(init, sidecar)))
    assert [(one.protocol, one.container_port, one.host_port, one.host_ip) for one in found.port_mappings] == [
        (cri.TCP, 82, 0, ""),
        (cri.UDP, 80, 8080, "192.0.2.1"),
        (cri.SCTP, 81, 0, ""),
    ]


def test_container_has_everything_that_was_resolved() -> None:
    """The image is given by its id, the log by its path relative to the pod's log directory."""
    pod = build.pod(containers=(build.container(working_dir="/srv", tty=True, stdin=True, stdin_once=True),))
    found = container_config(request_for(pod), MACHINE, log_directory="/logs/pod", image_user="0")
    assert (found.metadata.name, found.metadata.attempt, found.log_path) == ("main", 3, "main/3.log")
    assert (found.image.image, found.image.user_specified_image) == ("sha256:1", "example/image:1")
    assert (list(found.command), list(found.args), found.working_dir) == (["run"], ["fast"], "/srv")
    assert [(one.key, one.value) for one in found.envs] == [("NAME", "value")]
    assert (found.tty, found.stdin, found.stdin_once) == (True, True, True)
    assert found.labels["io.kubernetes.container.name"] == "main"
    assert found.stop_signal == cri.RUNTIME_DEFAULT


def test_container_has_annotations_for_its_later_termination() -> None:
    """Hook and ports are JSON, as the Go kubelet writes and reads them."""
    hook = LifecycleHandler(exec=ExecAction(command=("bye",)))
    main = build.container(
        lifecycle=Lifecycle(pre_stop=hook, stop_signal="SIGUSR1"),
        ports=(ContainerPort(container_port=80, name="web"),),
        termination_message_path="/dev/log",
        termination_message_policy="File",
    )
    pod = build.pod(containers=(main,), termination_grace_period_seconds=7)
    pod = replace(pod, metadata=replace(pod.metadata, deletion_grace_period_seconds=5))
    found = container_config(request_for(pod), MACHINE, log_directory="/logs/pod", image_user="0")
    told = dict(found.annotations)
    assert json.loads(told.pop("io.kubernetes.container.preStopHandler")) == {"exec": {"command": ["bye"]}}
    assert json.loads(told.pop("io.kubernetes.container.ports")) == [{"containerPort": 80, "name": "web"}]
    assert told == {
        "io.kubernetes.container.hash": "abc",
        "io.kubernetes.container.restartCount": "3",
        "io.kubernetes.container.terminationMessagePath": "/dev/log",
        "io.kubernetes.container.terminationMessagePolicy": "File",
        "io.kubernetes.pod.deletionGracePeriod": "5",
        "io.kubernetes.pod.terminationGracePeriod": "7",
    }
    assert found.stop_signal == cri.SIGUSR1


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        (Mount(host_path="/a", container_path="/one"), (False, cri.PROPAGATION_PRIVATE, True)),
        (Mount(host_path="/a", container_path="/host/", read_only=True), (True, cri.PROPAGATION_PRIVATE, False)),
        (
            Mount(host_path="/a", container_path="/two", propagation="HostToContainer"),
            (False, cri.PROPAGATION_HOST_TO_CONTAINER, True),
        ),
        (
            Mount(host_path="/a", container_path="/two", propagation="Bidirectional"),
            (False, cri.PROPAGATION_BIDIRECTIONAL, True),
        ),
    ],
    ids=["plain", "path of the machine", "from the machine", "both ways"],
)
def test_mounts_are_handed_on(mount: Mount, expected: tuple[object, ...]) -> None:
    """Host paths keep their SELinux labels."""
    main = build.container(volume_mounts=(VolumeMount(name="machine", mount_path="/host"),))
    volume = Volume(name="machine", host_path=HostPathVolumeSource(path="/a"))
    pod = build.pod(containers=(main,), volumes=(volume,))
    config = container_config(request_for(pod, mounts=(mount,)), MACHINE, log_directory="/logs", image_user="0")
    (found,) = config.mounts
    assert (found.host_path, found.container_path) == (mount.host_path, mount.container_path)
    assert (found.readonly, found.propagation, found.selinux_relabel) == expected
