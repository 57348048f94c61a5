"""Looks up the API objects that pods use: config maps, secrets, services and runtime classes.

Users of config maps and secrets are notified of changes. A change costs only the pods that use the object; upstream
checks every pod at each resync. A container that waits for a missing object is tried again as soon as it appears,
rather than at the next sync ten seconds later. Services are watched. A runtime class is read when a sandbox is created,
because few pods name one.

Upstream: pkg/kubelet/kubelet_pods.go, pkg/volume/projected/projected.go, pkg/kubelet/kubelet.go,
pkg/kubelet/runtimeclass/runtimeclass_manager.go
"""

import asyncio
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from pykubelet.aio.clock import Clock
from pykubelet.aio.queues import Lagged, Subscription
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import ConfigMap, Secret, Service
from pykubelet.api.pods import PodUid
from pykubelet.api.scheme import RUNTIME_CLASSES, SERVICES
from pykubelet.client.interface import Reader
from pykubelet.client.reflector import ListerWatcher, Reflector
from pykubelet.kubelet.objectcache.secret_and_configmap_manager import ConfigMapManager, ReferenceCache, SecretManager
from pykubelet.kubelet.objectcache.store import ObjectKey
from pykubelet.kubelet.objectcache.store import T as StoreT
from pykubelet.runtimes.protocol import RuntimeFailure


class RuntimeClasses:
    """Finds the handler of a runtime class. Without a client, on a standalone node, there are none."""

    def __init__(self, *, client: Reader | None) -> None:
        self._client = client

    async def handler(self, class_name: str) -> str:
        """The container runtime's name for this class; raises RuntimeFailure if the class does not exist."""
        missing = RuntimeFailure(f'runtimeclass.node.k8s.io "{class_name}" not found')
        if self._client is None:
            raise missing
        try:
            return (await self._client.get(RUNTIME_CLASSES, class_name)).handler
        except NotFound as error:
            raise missing from error
        except ApiError as error:
            raise RuntimeFailure(f"failed to lookup RuntimeClass {class_name}: {error.message}") from error


class ServiceList:
    """All services of the cluster, kept current by a reflector. Without a client, there are none."""

    def __init__(self, *, client: ListerWatcher | None, clock: Clock) -> None:
        self._services: dict[str, Service] = {}
        self._listed: tuple[Service, ...] | None = () if client is None else None
        self._is_known = client is None
        self._reflector = (
            Reflector(client=client, kind=SERVICES, sink=self, clock=clock) if client is not None else None
        )

    def services(self) -> tuple[Service, ...] | None:
        """All services; None until the API server has sent them."""
        if self._listed is None and self._is_known:
            self._listed = tuple(self._services.values())
        return self._listed

    def added(self, service: Service, /) -> None:
        self._services[service.metadata.uid] = service
        self._listed = None

    def modified(self, service: Service, /) -> None:
        self.added(service)

    def deleted(self, service: Service, /) -> None:
        self._services.pop(service.metadata.uid, None)
        self._listed = None

    def synced(self) -> None:
        self._is_known = True

    async def run(self, ready: asyncio.Event) -> None:
        """Watch until cancelled; returns at once without a client."""
        if self._reflector is None:
            ready.set()
            return
        await self._reflector.run(ready)


User = TypeVar("User", bound=Hashable)
T = TypeVar("T")


class UsedObject(NamedTuple):
    """An object that pods use; the kind is `configmap` or `secret`."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ObjectNames:
    """The names of config maps and secrets in the namespace of a pod."""

    config_maps: frozenset[str]
    secrets: frozenset[str]

    def objects(self, namespace: str) -> Iterator[UsedObject]:
        yield from (UsedObject("configmap", namespace, name) for name in self.config_maps)
        yield from (UsedObject("secret", namespace, name) for name in self.secrets)


class ObjectUsers(Generic[User]):
    """A map of users and the objects they use, in both directions."""

    def __init__(self) -> None:
        self._objects: dict[User, frozenset[UsedObject]] = {}
        self._users: dict[UsedObject, dict[User, None]] = {}

    def set(self, user: User, objects: Iterable[UsedObject]) -> None:
        """Replace the objects of a user."""
        before, now = self._objects.get(user, frozenset()), frozenset(objects)
        for gone in before - now:
            del self._users[gone][user]
            if not self._users[gone]:
                del self._users[gone]
        for new in now - before:
            self._users.setdefault(new, {})[user] = None
        if now:
            self._objects[user] = now
        else:
            self._objects.pop(user, None)

    def users(self, named: UsedObject | None) -> tuple[User, ...]:
        """The users of an object in order of their first use; all users for None."""
        return tuple(self._objects if named is None else self._users.get(named, ()))

    def as_map(self) -> Mapping[User, frozenset[UsedObject]]:
        return self._objects


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectLookups:
    """The objects, or errors, for the names a pod uses in its namespace."""

    config_maps: Mapping[str, ConfigMap | Exception] = field(default_factory=dict)
    secrets: Mapping[str, Secret | Exception] = field(default_factory=dict)


def found(objects: Mapping[str, T | Exception], name: str, *, optional: bool) -> T | None:
    """The object of a name; None if it is optional and missing. Raises the error of the lookup otherwise."""
    result = objects[name]
    if isinstance(result, NotFound) and optional:
        return None
    if isinstance(result, Exception):
        raise result
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class PodObjects:
    """The config maps and secrets of pods; None without an API server."""

    config_maps: ConfigMapManager | None
    secrets: SecretManager | None

    async def look_up(self, namespace: str, names: ObjectNames) -> ObjectLookups:
        """Look up all names; the result has the object or the error for each."""
        return ObjectLookups(
            config_maps=await _read(self.config_maps, "configMap", namespace, names.config_maps),
            secrets=await _read(self.secrets, "secret", namespace, names.secrets),
        )

    async def follow(self, changed: Callable[[UsedObject | None], None], ready: asyncio.Event) -> None:
        """Report objects that may have changed, None for any of them, until cancelled; after `ready`, none is missed."""
        readers = {"configmap": self.config_maps, "secret": self.secrets}
        with ExitStack() as stack:
            followed = {kind: stack.enter_context(each.subscribe()) for kind, each in readers.items() if each}
            async with asyncio.TaskGroup() as group:
                for kind, changes in followed.items():
                    start_supervised(group, f"changed {kind}s", partial(_report, kind, changes, changed))
                ready.set()


async def _report(kind: str, changes: Subscription[ObjectKey], changed: Callable[[UsedObject | None], None]) -> None:
    while True:
        try:
            changed(UsedObject(kind, *await changes.next()))
        except Lagged:
            changed(None)


async def _read(
    reader: ReferenceCache[StoreT] | None, noun: str, namespace: str, names: Iterable[str]
) -> dict[str, StoreT | Exception]:
    results: dict[str, StoreT | Exception] = {}
    for name in sorted(names):
        if reader is None:
            results[name] = LookupError(f"couldn't get {noun} {namespace}/{name}, no kubeClient defined")
            continue
        try:
            results[name] = await reader.get(namespace, name)
        except Exception as error:  # noqa: BLE001  whatever it is, it is the answer for this name
            results[name] = error
    return results


class AwaitedObjects:
    """The objects that containers wait for; `arrived` receives the pod if one changes. Owned by one loop."""

    def __init__(self, *, objects: PodObjects, arrived: Callable[[PodUid], None]) -> None:
        self._objects, self._arrived = objects, arrived
        self._waiting: ObjectUsers[tuple[PodUid, str]] = ObjectUsers()

    def expect(self, uid: PodUid, container: str, objects: Iterable[UsedObject]) -> None:
        """A container is about to be created from these objects; with none, it has been created."""
        self._waiting.set((uid, container), objects)

    async def run(self, ready: asyncio.Event) -> None:
        """Report changes until cancelled."""
        await self._objects.follow(self._changed, ready)

    async def remove_orphans(self, keep: Container[PodUid]) -> None:
        """Drop pods that are gone."""
        for uid, container in tuple(self._waiting.as_map()):
            if uid not in keep:
                self._waiting.set((uid, container), ())

    def _changed(self, named: UsedObject | None) -> None:
        for uid in dict.fromkeys(uid for uid, _ in self._waiting.users(named)):
            self._arrived(uid)
