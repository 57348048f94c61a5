"""What controllers know of the cluster: each kind is followed once, however many controllers use it.

In: lists and watches of an API server. Out: indexes to look things up in, and a call for every change after the index
has it. Kinds and listeners are named before `run`.
Upstream: staging/src/k8s.io/client-go/informers, tools/cache/shared_informer.go.

Pods by the node they are bound to, kept up to date one change at a time.

Upstream: AddPodNodeNameIndexer in pkg/controller/controller_utils.go.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import pod_label
from pykubelet.api.scheme import PODS, ApiObject, TypedKind
from pykubelet.client.indexer import ObjectIndex, PodIndex
from pykubelet.client.reflector import ListerWatcher, Reflector

log = get_logger(__name__)

T = TypeVar("T", bound=ApiObject)


class InformerStore(Protocol[T]):
    """Keeps objects of one kind; an ObjectIndex or a PodIndex."""

    def put(self, obj: T, /) -> T | None:
        """Add an object or replace it; the object that was there."""

    def remove(self, obj: T, /) -> T | None:
        """Forget the object of this name; the object that was there."""


@dataclass(frozen=True, slots=True)
class _Listener(Generic[T]):
    """Who hears of changes."""

    added: Callable[[T], None]
    updated: Callable[[T, T], None]
    deleted: Callable[[T], None]


class _Informer(Generic[T]):
    """One kind; a Sink of its reflector."""

    def __init__(self, kind: TypedKind[T], index: InformerStore[T]) -> None:
        self.kind, self.index = kind, index
        self.listeners: list[_Listener[T]] = []
        self.has_listed = asyncio.Event()

    def added(self, obj: T) -> None:
        self.index.put(obj)
        for listener in self.listeners:
            self._call(listener.added, obj)

    def modified(self, obj: T) -> None:
        old = self.index.put(obj)
        for listener in self.listeners:
            self._call(listener.updated, old, obj)

    def deleted(self, obj: T) -> None:
        self.index.remove(obj)
        for listener in self.listeners:
            self._call(listener.deleted, obj)

    def synced(self) -> None:
        self.has_listed.set()

    def _call(self, method: Callable[..., None], *objects: T | None) -> None:
        try:
            method(*objects)
        except Exception as error:  # noqa: BLE001  one controller's fault must not keep the change from the others
            log.error("a change could not be handled", error=error, kind=self.kind.resource.group_resource)


class Informers:
    """All kinds that some controllers follow."""

    def __init__(self, *, client: ListerWatcher, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._pods = PodIndex()
        self._informers: dict[str, _Informer[Any]] = {}

    @property
    def pods(self) -> PodIndex:
        """The pods, by owner."""
        self._informer(PODS)
        return self._pods

    def objects(self, kind: TypedKind[T]) -> ObjectIndex[T]:
        """The objects of a kind other than pods."""
        index = self._informer(kind).index
        assert isinstance(index, ObjectIndex)
        return index

    def tell(
        self,
        kind: TypedKind[T],
        *,
        added: Callable[[T], None],
        updated: Callable[[T, T], None],
        deleted: Callable[[T], None],
    ) -> None:
        """Have changes of a kind told, in order; `updated` gets the old and the new object. The calls must not wait."""
        self._informer(kind).listeners.append(_Listener(added, updated, deleted))

    async def run(self, ready: asyncio.Event) -> None:
        """Follow everything until cancelled; `ready` is set once every kind has been listed."""
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


class PodsByNode:
    """The pods of each node. Listens before those who use it, so that they find what they hear of."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}

    def listen(self, informers: Informers) -> None:
        """Follow the pods."""
        informers.tell(PODS, added=self.put, updated=self.replace, deleted=self.remove)

    def put(self, pod: Pod) -> None:
        """A pod is new or has changed."""
        if pod.spec.node_name:
            self._pods.setdefault(pod.spec.node_name, {})[pod_label(pod)] = pod

    def replace(self, old: Pod, new: Pod) -> None:
        """A pod has changed, or another one has taken its name, perhaps on another node."""
        if old.spec.node_name != new.spec.node_name:
            self.remove(old)
        self.put(new)

    def remove(self, pod: Pod) -> None:
        """A pod is gone."""
        pods = self._pods.get(pod.spec.node_name, {})
        pods.pop(pod_label(pod), None)
        if not pods:
            self._pods.pop(pod.spec.node_name, None)

    def on(self, node_name: str) -> tuple[Pod, ...]:
        """The pods of a node."""
        return tuple(self._pods.get(node_name, {}).values())

    def nodes(self) -> Collection[str]:
        """The names of nodes that have pods, whether there are such nodes or not."""
        return self._pods.keys()
