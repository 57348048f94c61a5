"""Finds the secrets and config maps that pods refer to, and keeps them available.

The namespace is always the pod's. References through claims and service accounts are not followed.

Upstream: pkg/kubelet/secret/secret_manager.go, pkg/kubelet/configmap/configmap_manager.go, pkg/api/v1/pod/util.go,
pkg/kubelet/kubelet_pods.go
"""

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.core import (
    ConfigMap,
    LocalObjectReference,
    Pod,
    ProjectedVolumeSource,
    Secret,
    Volume,
)
from pykubelet.api.pods import AnyContainer, pod_label
from pykubelet.api.scheme import CONFIG_MAPS, SECRETS
from pykubelet.client.reflector import ListerWatcher
from pykubelet.kubelet.objectcache.cache_based_manager import CacheOptions, ReferenceCache
from pykubelet.kubelet.objectcache.store import NotRegistered, NotSynced, ObjectSource

log = get_logger(__name__)


class Referent(Enum):
    """The kind of object that a reference names."""

    SECRET = "secret"  # noqa: S105  a kind, not a password
    CONFIG_MAP = "configmap"


class Reference(NamedTuple):
    """One reference of a pod to an object."""

    kind: Referent
    name: str


def references(pod: Pod) -> Iterator[Reference]:
    """Every reference of a pod in the order of its fields; names may repeat and are never empty."""
    return (reference for reference in _all_references(pod) if reference.name)


def secret_names(pod: Pod) -> frozenset[str]:
    """The names of the secrets a pod refers to."""
    return frozenset(name for kind, name in references(pod) if kind is Referent.SECRET)


def config_map_names(pod: Pod) -> frozenset[str]:
    """The names of the config maps a pod refers to."""
    return frozenset(name for kind, name in references(pod) if kind is Referent.CONFIG_MAP)


def _all_references(pod: Pod) -> Iterator[Reference]:
    spec = pod.spec
    for pull_secret in spec.image_pull_secrets:
        yield Reference(Referent.SECRET, pull_secret.name)
    everyone: tuple[AnyContainer, ...] = (
        *spec.init_containers,
        *spec.containers,
        *spec.ephemeral_containers,
    )
    for container in everyone:
        yield from _of_container(container)
    for volume in spec.volumes:
        yield from _of_volume(volume)


def _of_container(container: AnyContainer) -> Iterator[Reference]:
    for source in container.env_from:
        if source.secret_ref:
            yield Reference(Referent.SECRET, source.secret_ref.name)
        if source.config_map_ref:
            yield Reference(Referent.CONFIG_MAP, source.config_map_ref.name)
    for variable in container.env:
        if not variable.value_from:
            continue
        if variable.value_from.secret_key_ref:
            yield Reference(Referent.SECRET, variable.value_from.secret_key_ref.name)
        if variable.value_from.config_map_key_ref:
            yield Reference(Referent.CONFIG_MAP, variable.value_from.config_map_key_ref.name)


def _of_volume(volume: Volume) -> Iterator[Reference]:
    if volume.projected:
        yield from _of_projection(volume.projected)
    if volume.secret:
        yield Reference(Referent.SECRET, volume.secret.secret_name)
    if volume.config_map:
        yield Reference(Referent.CONFIG_MAP, volume.config_map.name)
    if volume.azure_file:
        yield Reference(Referent.SECRET, volume.azure_file.secret_name)
    for reference in _driver_secrets(volume):
        if reference:
            yield Reference(Referent.SECRET, reference.name)


def _of_projection(projected: ProjectedVolumeSource) -> Iterator[Reference]:
    for source in projected.sources:
        if source.secret:
            yield Reference(Referent.SECRET, source.secret.name)
        if source.config_map:
            yield Reference(Referent.CONFIG_MAP, source.config_map.name)


def _driver_secrets(volume: Volume) -> Iterator[LocalObjectReference | None]:
    """References to the credentials of storage drivers."""
    sources = (volume.cephfs, volume.cinder, volume.flex_volume, volume.rbd, volume.scale_io, volume.iscsi)
    for source in (*sources, volume.storageos):
        if source:
            yield source.secret_ref
    if volume.csi:
        yield volume.csi.node_publish_secret_ref


class ConfigMapManager(ReferenceCache[ConfigMap]):
    """The config maps of registered pods."""

    def __init__(self, *, client: ListerWatcher, clock: Clock, options: CacheOptions | None = None) -> None:
        super().__init__(
            source=ObjectSource(client, CONFIG_MAPS, clock), names=config_map_names, options=options or CacheOptions()
        )


class SecretManager(ReferenceCache[Secret]):
    """The secrets of registered pods."""

    def __init__(self, *, client: ListerWatcher, clock: Clock, options: CacheOptions | None = None) -> None:
        super().__init__(
            source=ObjectSource(client, SECRETS, clock), names=secret_names, options=options or CacheOptions()
        )


class PodReferences:
    """Registers pods with both managers; None without an API server."""

    def __init__(self, *, secrets: SecretManager | None, config_maps: ConfigMapManager | None) -> None:
        self._secrets = secrets
        self._caches = tuple(cache for cache in (secrets, config_maps) if cache is not None)

    def register_pod(self, pod: Pod) -> None:
        """Keep the secrets and config maps of a pod available."""
        for cache in self._caches:
            cache.register_pod(pod)

    def unregister_pod(self, pod: Pod) -> None:
        """Release the secrets and config maps of a pod."""
        for cache in self._caches:
            cache.unregister_pod(pod)

    async def pull_secrets(self, pod: Pod) -> tuple[list[Secret], list[str]]:
        """The pull secrets of a pod that could be read, and the names of those that could not."""
        found, missing = [], []
        for name in [reference.name for reference in pod.spec.image_pull_secrets if reference.name]:
            secret = await self._secret(pod, name)
            if secret is not None:
                found.append(secret)
            else:
                missing.append(name)
        return found, missing

    async def _secret(self, pod: Pod, name: str) -> Secret | None:
        if self._secrets is None:
            return None
        try:
            return await self._secrets.get(pod.metadata.namespace, name)
        except (ApiError, NotRegistered, NotSynced) as error:
            log.warning("pull secret not read", pod=pod_label(pod), secret=name, cause=str(error))
            return None
