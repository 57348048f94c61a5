"""Feature gates of pods in 1.34: the fields that are dropped, and the options of validation.

ContainerRestartRules, ContainerStopSignals, EnvFiles, HostnameOverride, ImageVolume, ClusterTrustBundleProjection and
PodCertificateRequest are off. The kubelet validates static pods with every option off; the API server's options follow
the feature gates.

Upstream: pkg/api/pod/util.go, pkg/features/kube_features.go, pkg/apis/core/validation/validation.go,
pkg/registry/core/pod/strategy.go
"""

from dataclasses import dataclass
from typing import Any

from pykubelet.api.serializer import Document
from pykubelet.kinds.kind import without_fields

CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
_PROJECTIONS = ("clusterTrustBundle", "podCertificate")


@dataclass(frozen=True, slots=True)
class PodValidationOptions:
    """Each option allows or checks what its name says: all are off in the kubelet and on in the API server."""

    resource_is_pod: bool = False
    relaxed_env_names: bool = False
    relaxed_dns_searches: bool = False
    zero_sleep: bool = False
    only_recursive_selinux_change: bool = False
    pod_level_resources: bool = False
    sidecar_resize_policy: bool = False
    merged_spread_keys: bool = False


KUBELET_OPTIONS = PodValidationOptions()
API_SERVER_OPTIONS = PodValidationOptions(
    resource_is_pod=True,
    relaxed_env_names=True,
    relaxed_dns_searches=True,
    zero_sleep=True,
    only_recursive_selinux_change=True,
    pod_level_resources=True,
    sidecar_resize_policy=True,
    merged_spread_keys=True,
)


def without_disabled_fields(spec: Document) -> Document:
    """The spec without the fields whose feature gate is off."""
    result = without_fields(spec, "hostnameOverride") if "hostnameOverride" in spec else spec
    volumes = spec.get("volumes", ())
    image_volumes = {volume["name"] for volume in volumes if "image" in volume}
    if image_volumes:
        result = _replaced(result, "volumes", [volume for volume in volumes if "image" not in volume])
    if any("projected" in volume for volume in volumes):
        result = _replaced(result, "volumes", [_volume(volume) for volume in result.get("volumes", ())])
    for kind in CONTAINER_LISTS:
        containers = spec.get(kind, ())
        changed = [_container(container, kind, image_volumes) for container in containers]
        if any(new is not old for new, old in zip(changed, containers, strict=True)):
            result = {**result, kind: changed}
    return result


def _volume(volume: Document) -> Document:
    sources = volume.get("projected", {}).get("sources", ())
    if not any(name in source for source in sources for name in _PROJECTIONS):
        return volume
    kept = [without_fields(source, *_PROJECTIONS) for source in sources]
    return {**volume, "projected": {**volume["projected"], "sources": kept}}


def _container(container: Document, kind: str, image_volumes: set[str]) -> Document:
    result = container
    if "restartPolicyRules" in result:
        result = without_fields(result, "restartPolicyRules")
    if "restartPolicy" in result and (kind != "initContainers" or result["restartPolicy"] != "Always"):
        result = without_fields(result, "restartPolicy")
    if "stopSignal" in result.get("lifecycle", ()):
        result = _replaced(result, "lifecycle", without_fields(result["lifecycle"], "stopSignal"))
    if image_volumes and "volumeMounts" in result:
        mounts = [mount for mount in result["volumeMounts"] if mount["name"] not in image_volumes]
        result = _replaced(result, "volumeMounts", mounts)
    if any("fileKeyRef" in variable["valueFrom"] for variable in result.get("env", ()) if "valueFrom" in variable):
        result = {**result, "env": [_variable(variable) for variable in result["env"]]}
    return result


def _variable(variable: Document) -> Document:
    if "valueFrom" not in variable:
        return variable
    return {**variable, "valueFrom": without_fields(variable["valueFrom"], "fileKeyRef")}


def _replaced(document: Document, name: str, value: Any) -> Document:
    """The document with a field replaced, or without the field if the new value is empty."""
    return {**document, name: value} if value else without_fields(document, name)
