"""The config maps and secrets that pods name: how to ask for them, and to hear of changes.

Has containers that could not be made for want of a config map or secret tried again when it comes.

In: which container waits for which objects. Out: a call for its pod as soon as one of them changes. Upstream tries such
a container again at the next sync of its pod, some ten seconds later.

Objects that a pod names, and whether they could be had.

Upstream: the uses of configMapManager and secretManager in pkg/kubelet/kubelet_pods.go and pkg/volume/projected

Who uses which objects, so that a change of one costs only those who use it.

Pods have files of them, and containers wait for them.
Upstream looks at every pod, at each of its resyncs.
"""

import asyncio
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from pykubelet.aio.queues import Lagged, Subscription
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import ConfigMap, Secret
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.objectcache.cache_based_manager import ReferenceCache
from pykubelet.kubelet.objectcache.secret_and_configmap_manager import ConfigMapManager, SecretManager
from pykubelet.kubelet.objectcache.store import ObjectKey
from pykubelet.kubelet.objectcache.store import T as StoreT

Who = TypeVar("Who", bound=Hashable)


class UsedObject(NamedTuple):
    """An object that pods may use; the kind is `configmap` or `secret`."""

    kind: str
    namespace: str
    name: str


class ObjectUsers(Generic[Who]):
    """Users and the objects they use, both ways."""

    def __init__(self) -> None:
        self._objects: dict[Who, frozenset[UsedObject]] = {}
        self._users: dict[UsedObject, dict[Who, None]] = {}

    def set(self, who: Who, objects: Iterable[UsedObject]) -> None:
        """They use these, and no others."""
        before, now = self._objects.get(who, frozenset()), frozenset(objects)
        for gone in before - now:
            del self._users[gone][who]
            if not self._users[gone]:
                del self._users[gone]
        for new in now - before:
            self._users.setdefault(new, {})[who] = None
        if now:
            self._objects[who] = now
        else:
            self._objects.pop(who, None)

    def users(self, named: UsedObject | None) -> tuple[Who, ...]:
        """Those who use an object, the first one first; of any object if it is not known which."""
        return tuple(self._objects if named is None else self._users.get(named, ()))

    def as_map(self) -> Mapping[Who, frozenset[UsedObject]]:
        """All of it, by user."""
        return self._objects


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectLookups:
    """What was found under the names a pod gives, all in its namespace: the object, or why there is none."""

    config_maps: Mapping[str, ConfigMap | Exception] = field(default_factory=dict)
    secrets: Mapping[str, Secret | Exception] = field(default_factory=dict)


def found(objects: Mapping[str, T | Exception], name: str, *, optional: bool) -> T | None:
    """The object of a name; None if there is none and none is needed, otherwise what went wrong is raised."""
    result = objects[name]
    if isinstance(result, NotFound) and optional:
        return None
    if isinstance(result, Exception):
        raise result
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class PodObjects:
    """Where objects come from; None where there is no API server."""

    config_maps: ConfigMapManager | None
    secrets: SecretManager | None

    async def look_up(self, namespace: str, *, config_maps: Iterable[str], secrets: Iterable[str]) -> ObjectLookups:
        """Everything that was asked for: the object, or why it could not be had."""
        return ObjectLookups(
            config_maps=await _read(self.config_maps, "configMap", namespace, config_maps),
            secrets=await _read(self.secrets, "secret", namespace, secrets),
        )

    async def follow(self, changed: Callable[[UsedObject | None], None], ready: asyncio.Event) -> None:
        """Tell which object may have changed, None if any of them may, until cancelled; from `ready` on, none is missed."""
        readers = {"configmap": self.config_maps, "secret": self.secrets}
        with ExitStack() as stack:
            followed = {kind: stack.enter_context(each.subscribe()) for kind, each in readers.items() if each}
            async with asyncio.TaskGroup() as group:
                for kind, changes in followed.items():
                    start_supervised(group, f"changed {kind}s", partial(_tell, kind, changes, changed))
                ready.set()


async def _tell(kind: str, changes: Subscription[ObjectKey], changed: Callable[[UsedObject | None], None]) -> None:
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
    """What containers wait for. Owned by one loop."""

    def __init__(self, *, objects: PodObjects, arrived: Callable[[PodUid], None]) -> None:
        """`arrived` is called with the UID of the pod."""
        self._objects, self._arrived = objects, arrived
        self._waiting: ObjectUsers[tuple[PodUid, str]] = ObjectUsers()

    def expect(self, uid: PodUid, container: str, objects: Iterable[UsedObject]) -> None:
        """A container is about to be made of these objects, or, of none, has been made."""
        self._waiting.set((uid, container), objects)

    async def run(self, ready: asyncio.Event) -> None:
        """Tell of changes until cancelled."""
        await self._objects.follow(self._changed, ready)

    async def remove_orphans(self, keep: Container[PodUid]) -> None:
        """Forget pods that are gone."""
        for uid, container in tuple(self._waiting.as_map()):
            if uid not in keep:
                self._waiting.set((uid, container), ())

    def _changed(self, named: UsedObject | None) -> None:
        for uid in dict.fromkeys(uid for uid, _ in self._waiting.users(named)):
            self._arrived(uid)
