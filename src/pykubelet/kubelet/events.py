"""Whom events of a pod and its containers are about, and in what words a pod is named in them.

Upstream: pkg/kubelet/container/ref.go, pkg/kubelet/util/format/pod.go
"""

from typing import Protocol

from msgspec.structs import replace

from pykubelet.api.generated.core import Container, EphemeralContainer, ObjectReference, Pod

NORMAL = "Normal"
WARNING = "Warning"

AnyContainer = Container | EphemeralContainer


class EventReporter(Protocol):
    """Tells users what happened; an EventRecorder is one."""

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        """Report it as an event on the object; never waits, never raises."""


def pod_reference(pod: Pod) -> ObjectReference:
    """A reference to a pod."""
    metadata = pod.metadata
    return ObjectReference(
        api_version="v1",
        kind="Pod",
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def container_reference(pod: Pod, name: str) -> ObjectReference:
    """A reference to a container of a pod; one that its spec does not list is implicitly required by it."""
    spec = pod.spec
    for field, containers in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        if any(container.name == name for container in containers):
            return replace(pod_reference(pod), field_path=f"spec.{field}{{{name}}}")
    return replace(pod_reference(pod), field_path=f"implicitly required container {name}")


def format_pod(pod: Pod) -> str:
    """`name_namespace(uid)`: a pod as messages name it."""
    metadata = pod.metadata
    return f"{metadata.name}_{metadata.namespace}({metadata.uid})"


def without_id(message: str, container_id: str, name: str) -> str:
    """A message with the container's name for its id: messages that differ by an id only would never be counted together."""
    return message.replace(container_id, name) if container_id else message
