"""Converts CRI statuses of sandboxes, containers and the runtime itself.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/kubelet/kuberuntime/kuberuntime_sandbox.go,
pkg/kubelet/kubelet.go
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from cri_api.v1 import api_pb2 as cri

from pykubelet.api.generated.core import ContainerUser, LinuxContainerUser
from pykubelet.api.pods import PodUid
from pykubelet.api.times import from_nanoseconds
from pykubelet.runtimes.cri.configs import CONTAINER_NAME, HASH, POD_NAME, POD_NAMESPACE, POD_UID
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimePod, Sandbox

_STATES = {
    cri.CONTAINER_CREATED: ContainerState.CREATED,
    cri.CONTAINER_RUNNING: ContainerState.RUNNING,
    cri.CONTAINER_EXITED: ContainerState.EXITED,
}


@dataclass(frozen=True, slots=True)
class PodOwner:
    """The pod that a container or sandbox belongs to."""

    uid: PodUid
    namespace: str
    name: str


def owner_of(listed: cri.PodSandbox | cri.Container) -> PodOwner | None:
    """The pod of a container or sandbox; None if no kubelet created it."""
    labels = listed.labels
    if not labels.get(POD_UID):
        return None
    return PodOwner(PodUid(labels[POD_UID]), labels.get(POD_NAMESPACE, ""), labels.get(POD_NAME, ""))


def runtime_sandbox(status: cri.PodSandboxStatus) -> Sandbox:
    """Converts the status of a sandbox; it has addresses as long as it is ready."""
    return Sandbox(
        id=status.id,
        attempt=status.metadata.attempt,
        is_ready=status.state == cri.SANDBOX_READY,
        created_at=from_nanoseconds(status.created_at),
        ips=tuple(ip for ip in (status.network.ip, *(one.ip for one in status.network.additional_ips)) if ip),
        host_network=status.linux.namespaces.options.network == cri.NODE,
    )


def created_container(listed: cri.Container) -> RuntimeContainer:
    """Converts a container that was not started yet; the list contains all its facts."""
    return RuntimeContainer(
        id=listed.id,
        name=listed.labels.get(CONTAINER_NAME) or listed.metadata.name,
        state=ContainerState.CREATED,
        sandbox_id=listed.pod_sandbox_id,
        attempt=listed.metadata.attempt,
        image=listed.image.image,
        image_id=listed.image_ref or listed.image_id,
        hash=listed.annotations.get(HASH, ""),
        created_at=from_nanoseconds(listed.created_at),
    )


def runtime_container(status: cri.ContainerStatus, sandbox_id: str) -> RuntimeContainer:
    has_ended = status.state == cri.CONTAINER_EXITED
    finished_at = from_nanoseconds(status.finished_at) if has_ended and status.finished_at > 0 else None
    started_at = from_nanoseconds(status.started_at) if status.started_at > 0 else None
    if finished_at is not None and (started_at is None or started_at > finished_at):
        # The start failed, or the container ended before the runtime recorded its start.
        started_at = finished_at
    return RuntimeContainer(
        id=status.id,
        name=status.labels.get(CONTAINER_NAME) or status.metadata.name,
        state=_STATES.get(status.state, ContainerState.UNKNOWN),
        sandbox_id=sandbox_id,
        attempt=status.metadata.attempt,
        image=status.image.image,
        image_id=status.image_ref or status.image_id,
        hash=status.annotations.get(HASH, ""),
        created_at=from_nanoseconds(status.created_at),
        started_at=started_at,
        finished_at=finished_at,
        exit_code=status.exit_code if has_ended else 0,
        reason=status.reason or ("Error" if status.exit_code else "Completed") if has_ended else "",
        message=status.message if has_ended else "",
        user=_user(status),
    )


def group_by_pod(
    sandboxes: Iterable[tuple[PodOwner, Sandbox]], containers: Iterable[tuple[PodOwner, RuntimeContainer]]
) -> list[RuntimePod]:
    """Groups sandboxes and containers by pod, newest first."""
    pods: dict[PodUid, tuple[PodOwner, list[Sandbox], list[RuntimeContainer]]] = {}
    for owner, sandbox in sandboxes:
        pods.setdefault(owner.uid, (owner, [], []))[1].append(sandbox)
    for owner, container in containers:
        pods.setdefault(owner.uid, (owner, [], []))[2].append(container)
    return [
        RuntimePod(
            uid=uid,
            namespace=owner.namespace,
            name=owner.name,
            sandboxes=tuple(sorted(its_sandboxes, key=_age, reverse=True)),
            containers=tuple(sorted(its_containers, key=_age, reverse=True)),
        )
        for uid, (owner, its_sandboxes, its_containers) in pods.items()
    ]


def runtime_condition_errors(status: cri.RuntimeStatus) -> tuple[str, str]:
    """Why the runtime is not ready, and why its network is not; empty if they are."""
    conditions = {condition.type: condition for condition in status.conditions}
    return (
        _condition_error("container runtime not ready", conditions.get("RuntimeReady"), "RuntimeReady"),
        _condition_error("container runtime network not ready", conditions.get("NetworkReady"), "NetworkReady"),
    )


def _condition_error(what: str, condition: cri.RuntimeCondition | None, name: str) -> str:
    if condition is None:
        return f"{what}: the runtime does not report {name}"
    detail = f"{name}=false reason:{condition.reason} message:{condition.message}"
    return "" if condition.status else f"{what}: {detail}"


def _user(status: cri.ContainerStatus) -> ContainerUser | None:
    if not status.HasField("user") or not status.user.HasField("linux"):
        return None
    linux = status.user.linux
    groups = tuple(linux.supplemental_groups)
    return ContainerUser(linux=LinuxContainerUser(uid=linux.uid, gid=linux.gid, supplemental_groups=groups))


def _age(one: Sandbox | RuntimeContainer) -> tuple[datetime, int]:
    return one.created_at, one.attempt
