"""References and names of pods and containers for events and messages.

Upstream: pkg/kubelet/container/ref.go, pkg/kubelet/util/format/pod.go
"""

from msgspec.structs import replace

from pykubelet.api.generated.core import ObjectReference, Pod


def pod_reference(pod: Pod) -> ObjectReference:
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
    """A pod in messages: `name_namespace(uid)`."""
    metadata = pod.metadata
    return f"{metadata.name}_{metadata.namespace}({metadata.uid})"


def without_id(message: str, container_id: str, name: str) -> str:
    """A message with the container's name in place of its id, so that repeated events are aggregated."""
    return message.replace(container_id, name) if container_id else message
