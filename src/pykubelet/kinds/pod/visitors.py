"""Visits the containers of a pod and the API objects it refers to.

Static pods may refer to API objects only if that is allowed.

Upstream: pkg/api/pod/util.go, pkg/apis/core/pods/helpers.go
"""

from collections.abc import Iterator

from pykubelet.api.field_errors import go_quote
from pykubelet.api.serializer import Document

_SECRET_REFS = {
    **dict.fromkeys(("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"), "secretRef"),
    "csi": "nodePublishSecretRef",
}
_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTIONS = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


class UnknownVolumeError(ValueError):
    """A volume of unknown type, whose references therefore cannot be found."""


def containers_with_paths(spec: Document, path: str) -> Iterator[tuple[Document, str]]:
    """Every container of the pod with its path: init, regular, ephemeral."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            yield container, f"{path}.{kind}[{index}]"


def api_references(pod: Document) -> Iterator[str]:
    """The resource name of each reference to an API object; names may repeat. Raises UnknownVolumeError."""
    spec = pod.get("spec", {})
    if spec.get("serviceAccountName"):
        yield "serviceaccounts"
    if any(secret_names(spec)):
        yield "secrets"
    if any(config_map_names(spec)):
        yield "configmaps"
    if spec.get("resourceClaims"):
        yield "resourceclaims"
    for volume in spec.get("volumes", ()):
        yield from (text for kind, text in _VOLUMES.items() if kind in volume)
        for source in volume.get("projected", {}).get("sources", ()):
            yield from _projection_references(source, volume.get("name", ""))


def secret_names(spec: Document) -> Iterator[str]:
    """The names of the secrets in a pod's spec; a reference without a name yields an empty string."""
    for reference in spec.get("imagePullSecrets", ()):
        yield reference.get("name", "")
    yield from _container_names(spec, "secretRef", "secretKeyRef")
    for volume in spec.get("volumes", ()):
        yield volume.get("azureFile", {}).get("secretName", "")
        yield volume.get("secret", {}).get("secretName", "")
        for kind, field in _SECRET_REFS.items():
            yield volume.get(kind, {}).get(field, {}).get("name", "")
        for source in volume.get("projected", {}).get("sources", ()):
            yield source.get("secret", {}).get("name", "")


def _container_names(spec: Document, from_field: str, key_field: str) -> Iterator[str]:
    for container, _ in containers_with_paths(spec, "spec"):
        for source in container.get("envFrom", ()):
            yield source.get(from_field, {}).get("name", "")
        for variable in container.get("env", ()):
            yield variable.get("valueFrom", {}).get(key_field, {}).get("name", "")


def config_map_names(spec: Document) -> Iterator[str]:
    """The names of the config maps in a pod's spec; a reference without a name yields an empty string."""
    yield from _container_names(spec, "configMapRef", "configMapKeyRef")
    for volume in spec.get("volumes", ()):
        yield volume.get("configMap", {}).get("name", "")
        for source in volume.get("projected", {}).get("sources", ()):
            yield source.get("configMap", {}).get("name", "")


def _projection_references(source: Document, volume_name: str) -> Iterator[str]:
    found = [text for kind, text in _PROJECTIONS.items() if kind in source]
    if not found and "downwardAPI" not in source:
        raise UnknownVolumeError(f"unknown source for projected volume {go_quote(volume_name)}")
    yield from found
