"""Caches the secrets and config maps that registered pods refer to.

Three strategies: watch, TTL or get. `Registration` passes only differences of a pod's references to the store. The
namespace is always the pod's; references through claims and service accounts are not followed.

Upstream: pkg/kubelet/secret/secret_manager.go, pkg/kubelet/configmap/configmap_manager.go,
pkg/kubelet/util/manager/cache_based_manager.go, pkg/kubelet/util/manager/manager.go, pkg/api/v1/pod/util.go,
pkg/kubelet/kubelet_pods.go
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, Generic, NamedTuple

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import Broadcast, Subscription
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.core import ConfigMap, LocalObjectReference, Pod, Secret, Volume
from pykubelet.api.pods import AnyContainer, all_containers, pod_label
from pykubelet.api.scheme import CONFIG_MAPS, SECRETS
from pykubelet.client.reflector import ListerWatcher
from pykubelet.kubelet.objectcache.store import (
    CacheOptions,
    ChangeDetectionStrategy,
    NotRegistered,
    NotSynced,
    ObjectKey,
    ObjectSource,
    ObjectStore,
    T,
    TtlStore,
)
from pykubelet.kubelet.objectcache.watch_based_manager import WatchStore

log = get_logger(__name__)

READ_TIMEOUT_SECONDS = 1.0
"""How long a reader waits for the first state from the API server by default."""


class LiveStore(Generic[T]):
    """Reads objects from the API server at every get; ignores references."""

    def __init__(self, *, source: ObjectSource[T]) -> None:
        self._source = source

    def add_reference(self, key: ObjectKey, referrer: str) -> None:
        """Does nothing: every get reads the API server."""

    def delete_reference(self, key: ObjectKey, referrer: str) -> None:
        """Does nothing: every get reads the API server."""

    async def get(self, key: ObjectKey, *, timeout_seconds: float) -> T:  # noqa: ARG002  requests have their own
        return await self._source.fetch(key)

    async def run(self, ready: asyncio.Event) -> None:
        ready.set()


class _PodKey(NamedTuple):
    """Includes the UID, so that a recreated pod of the same name does not cancel its predecessor."""

    namespace: str
    name: str
    uid: str


class Registration:
    """The registered pods and the names they refer to. No method blocks, and each may be called again."""

    def __init__(self, *, names: Callable[[Pod], frozenset[str]], counter: ObjectStore[Any]) -> None:
        self._names, self._counter = names, counter
        self._registered: dict[_PodKey, frozenset[str]] = {}

    def register_pod(self, pod: Pod) -> None:
        """Add the references of a new or changed pod; unchanged references are left alone."""
        key = _key(pod)
        before, now = self._registered.get(key, frozenset()), self._names(pod)
        self._registered[key] = now
        # Added before removed: an object that only moved to another field always has a reference.
        for name in sorted(now - before):
            self._counter.add_reference(ObjectKey(key.namespace, name), key.uid)
        self._release(key, before - now)

    def unregister_pod(self, pod: Pod) -> None:
        """Drop the references the pod was registered with, whatever its spec says now."""
        key = _key(pod)
        self._release(key, self._registered.pop(key, frozenset()))

    def _release(self, key: _PodKey, names: frozenset[str]) -> None:
        for name in sorted(names):
            self._counter.delete_reference(ObjectKey(key.namespace, name), key.uid)


def _key(pod: Pod) -> _PodKey:
    return _PodKey(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


class ReferenceCache(Registration, Generic[T]):
    """The objects of one kind that registered pods refer to; keeps them available. Owned by one loop."""

    def __init__(
        self, *, source: ObjectSource[T], names: Callable[[Pod], frozenset[str]], options: CacheOptions
    ) -> None:
        """Raises ValueError if the strategy is unknown."""
        self._changes: Broadcast[ObjectKey] = Broadcast()
        self._store = _store(source, self._changes.publish, options)
        super().__init__(names=names, counter=self._store)

    async def get(self, namespace: str, name: str, *, timeout_seconds: float = READ_TIMEOUT_SECONDS) -> T:
        """An object that a registered pod refers to.

        Raises NotFound if it does not exist, NotRegistered if no registered pod refers to it (not with strategy Get), NotSynced
        if the watch has not delivered it in time, ApiError if the request failed.
        """
        return await self._store.get(ObjectKey(namespace, name), timeout_seconds=timeout_seconds)

    def subscribe(self) -> AbstractContextManager[Subscription[ObjectKey]]:
        """Receive the keys of objects that may have changed, as hints to `get` them; Lagged means any of them."""
        return self._changes.subscribe()

    async def run(self, ready: asyncio.Event) -> None:
        """Keep watches open until cancelled; returns at once for strategies without watches."""
        await self._store.run(ready)


def _store(source: ObjectSource[T], changed: Callable[[ObjectKey], None], options: CacheOptions) -> ObjectStore[T]:
    match options.strategy:
        case ChangeDetectionStrategy.GET:
            return LiveStore(source=source)
        case ChangeDetectionStrategy.TTL:
            return TtlStore(source=source, changed=changed, ttl_seconds=options.ttl_seconds)
        case ChangeDetectionStrategy.WATCH:
            return WatchStore(source=source, changed=changed, options=options)
        case _:
            raise ValueError(f"unknown configmap and secret manager mode: {options.strategy}")


class Referent(Enum):
    SECRET = "secret"  # noqa: S105  a kind, not a password
    CONFIG_MAP = "configmap"


class Reference(NamedTuple):
    kind: Referent
    name: str


def references(pod: Pod) -> Iterator[Reference]:
    """Every reference of a pod in the order of its fields; names may repeat and are never empty."""
    return (reference for reference in _all_references(pod) if reference.name)


def secret_names(pod: Pod) -> frozenset[str]:
    return frozenset(name for kind, name in references(pod) if kind is Referent.SECRET)


def config_map_names(pod: Pod) -> frozenset[str]:
    return frozenset(name for kind, name in references(pod) if kind is Referent.CONFIG_MAP)


def _all_references(pod: Pod) -> Iterator[Reference]:
    for pull_secret in pod.spec.image_pull_secrets:
        yield Reference(Referent.SECRET, pull_secret.name)
    for container in all_containers(pod):
        yield from _of_container(container)
    for volume in pod.spec.volumes:
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
    for source in volume.projected.sources if volume.projected else ():
        if source.secret:
            yield Reference(Referent.SECRET, source.secret.name)
        if source.config_map:
            yield Reference(Referent.CONFIG_MAP, source.config_map.name)
    if volume.secret:
        yield Reference(Referent.SECRET, volume.secret.secret_name)
    if volume.config_map:
        yield Reference(Referent.CONFIG_MAP, volume.config_map.name)
    if volume.azure_file:
        yield Reference(Referent.SECRET, volume.azure_file.secret_name)
    for reference in _driver_secrets(volume):
        if reference:
            yield Reference(Referent.SECRET, reference.name)


def _driver_secrets(volume: Volume) -> Iterator[LocalObjectReference | None]:
    """References to the credentials of storage drivers."""
    sources = (volume.cephfs, volume.cinder, volume.flex_volume, volume.rbd, volume.scale_io, volume.iscsi)
    for source in (*sources, volume.storageos):
        if source:
            yield source.secret_ref
    if volume.csi:
        yield volume.csi.node_publish_secret_ref


class ConfigMapManager(ReferenceCache[ConfigMap]):
    def __init__(self, *, client: ListerWatcher, clock: Clock, options: CacheOptions | None = None) -> None:
        super().__init__(
            source=ObjectSource(client, CONFIG_MAPS, clock), names=config_map_names, options=options or CacheOptions()
        )


class SecretManager(ReferenceCache[Secret]):
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
        for cache in self._caches:
            cache.register_pod(pod)

    def unregister_pod(self, pod: Pod) -> None:
        for cache in self._caches:
            cache.unregister_pod(pod)

    async def pull_secrets(self, pod: Pod) -> tuple[list[Secret], list[str]]:
        """The pull secrets of a pod that could be read, and the names of those that could not."""
        found, missing = [], []
        for name in [reference.name for reference in pod.spec.image_pull_secrets if reference.name]:
            if (secret := await self._secret(pod, name)) is not None:
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
