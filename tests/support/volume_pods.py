"""Pods with volumes, written as manifests have them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pykubelet.api.generated.core import Container, Pod, Service
from pykubelet.api.serializer import from_document
from pykubelet.kubelet.volumemanager.pod_dirs import PodDir

UID = "12345678-1234-1234-1234-123456789012"


def pod_with(*volumes: Mapping[str, Any], containers: Sequence[Mapping[str, Any]] | None = None, **spec: Any) -> Pod:
    """A pod with these volumes; by default one container mounts them all, each below /v."""
    mounts = [{"name": volume["name"], "mountPath": f"/v/{volume['name']}"} for volume in volumes]
    listed = containers if containers is not None else [{"name": "main", "volumeMounts": mounts}]
    document = {
        "metadata": {"name": "web", "namespace": "default", "uid": UID},
        "spec": {"containers": list(listed), "volumes": list(volumes), "enableServiceLinks": True, **spec},
    }
    return from_document(document, Pod)


def volume_paths(directory: PodDir) -> list[str]:
    """The paths of the volumes that a pod has on disk."""
    return sorted(map(str, Path(directory.volumes).glob("*/*")))


def container(**fields: Any) -> Container:
    """A container called main."""
    return from_document({"name": "main", **fields}, Container)


def service(name: str, address: str, *ports: Mapping[str, Any], namespace: str = "default") -> Service:
    """A service with an address."""
    metadata = {"name": name, "namespace": namespace}
    return from_document({"metadata": metadata, "spec": {"clusterIP": address, "ports": list(ports)}}, Service)
