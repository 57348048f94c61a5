"""Shared informers: one list and watch per kind, however many controllers use it.

Informers fill indexes and call the registered event handlers after the index has the change. Kinds and handlers are
registered before `run`.

Upstream: staging/src/k8s.io/client-go/tools/cache/shared_informer.go, staging/src/k8s.io/client-go/informers/factory.go
"""

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import pod_label
from pykubelet.api.scheme import PODS, ApiObject, TypedKind
from pykubelet.client.indexer import LabelIndex, ObjectIndex, PodIndex
from pykubelet.client.reflector import ListerWatcher, Reflector

log = get_logger(__name__)

T = TypeVar("T", bound=ApiObject)


class InformerStore(Protocol[T]):
    """Stores the objects of one kind: an ObjectIndex or a PodIndex."""

    def put(self, obj: T, /) -> T | None:
        """Adds or replaces an object; returns the previous one."""

    def remove(self, obj: T, /) -> T | None:
        """Removes the object of this name; returns it."""


class _Informer(Generic[T]):
    """Receives the changes of one kind from its reflector and distributes them."""

    def __init__(self, kind: TypedKind[T], index: InformerStore[T]) -> None:
        self.kind, self.index = kind, index
        self.on_added: list[Callable[[T], None]] = []
        self.on_updated: list[Callable[[T, T], None]] = []
        self.on_deleted: list[Callable[[T], None]] = []
        self.has_listed = asyncio.Event()

    def added(self, obj: T) -> None:
        self.index.put(obj)
        for handler in self.on_added:
            self._call(handler, obj)

    def modified(self, obj: T) -> None:
        old = self.index.put(obj)
        for handler in self.on_updated:
            self._call(handler, old, obj)

    def deleted(self, obj: T) -> None:
        self.index.remove(obj)
        for handler in self.on_deleted:
            self._call(handler, obj)

    def synced(self) -> None:
        self.has_listed.set()

    def _call(self, method: Callable[..., None], *objects: T | None) -> None:
        try:
            method(*objects)
        except Exception as error:  # noqa: BLE001  one controller's fault must not keep the change from the others
            log.error("event handler failed", error=error, kind=self.kind.resource.group_resource)


class Informers:
    """The informers of every kind that a set of controllers follows."""

    def __init__(self, *, client: ListerWatcher, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._pods = PodIndex()
        self._informers: dict[str, _Informer[Any]] = {}

    @property
    def pods(self) -> PodIndex:
        """The index of all pods, by owner."""
        self._informer(PODS)
        return self._pods

    def objects(self, kind: TypedKind[T]) -> ObjectIndex[T]:
        """The index of a kind other than pods."""
        index = self._informer(kind).index
        assert isinstance(index, ObjectIndex)
        return index

    def add_event_handler(
        self,
        kind: TypedKind[T],
        *,
        changed: Callable[[T], None] | None = None,
        added: Callable[[T], None] | None = None,
        updated: Callable[[T, T], None] | None = None,
        deleted: Callable[[T], None] | None = None,
    ) -> None:
        """Registers handlers for a kind, called in order of registration.

        `updated` gets the old and the new object; `changed` gets the object when it is added and the new one when it
        is updated. Handlers run in the informer's task and must not block.
        """
        informer = self._informer(kind)
        if changed is not None:
            added, updated = changed, lambda _old, new: changed(new)
        if added is not None:
            informer.on_added.append(added)
        if updated is not None:
            informer.on_updated.append(updated)
        if deleted is not None:
            informer.on_deleted.append(deleted)

    async def run(self, ready: asyncio.Event) -> None:
        """Lists and watches every registered kind until cancelled; sets `ready` once each kind has been listed."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                reflector = Reflector(client=self._client, kind=informer.kind, sink=informer, clock=self._clock)
                name = f"informer of {informer.kind.resource.group_resource}"
                start_supervised(group, name, partial(reflector.run, asyncio.Event()))
            for informer in self._informers.values():
                await informer.has_listed.wait()
            ready.set()

    def _informer(self, kind: TypedKind[T]) -> _Informer[T]:
        name = kind.resource.group_resource
        if name not in self._informers:
            index: InformerStore[Any] = self._pods if kind is PODS else ObjectIndex[Any]()
            self._informers[name] = _Informer(kind, index)
        return self._informers[name]


class PodsByLabel(LabelIndex[Pod]):
    """All pods by label, for controllers that select pods. It subscribes before its users, as PodsByNode does."""

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(PODS, changed=self.put, deleted=self.remove)


class PodsByNode:
    """The pods of each node, by `spec.nodeName`.

    It subscribes before its users, so that they find in it what their handlers get.
    """

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(PODS, added=self.put, updated=self.replace, deleted=self.remove)

    def put(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._pods.setdefault(pod.spec.node_name, {})[pod_label(pod)] = pod

    def replace(self, old: Pod, new: Pod) -> None:
        """Replaces a pod, which may have moved to another node if its name was reused."""
        if old.spec.node_name != new.spec.node_name:
            self.remove(old)
        self.put(new)

    def remove(self, pod: Pod) -> None:
        pods = self._pods.get(pod.spec.node_name, {})
        pods.pop(pod_label(pod), None)
        if not pods:
            self._pods.pop(pod.spec.node_name, None)

    def on(self, node_name: str) -> tuple[Pod, ...]:
        """The pods bound to a node."""
        return tuple(self._pods.get(node_name, {}).values())

    def nodes(self) -> Collection[str]:
        """The names of all nodes that have pods, including nodes that do not exist."""
        return self._pods.keys()
