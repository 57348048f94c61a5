"""What the API server has that the page shows in tables: pods, nodes, events.

In: a client, and the first browser, from which on they are followed. Out: rows of nodes and events, pods by key, and hints when one changed. What may not be read is said.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from pykubelet.aio.clock import Clock
from pykubelet.aio.supervise import start_supervised
from pykubelet.api.errors import ApiError, Forbidden
from pykubelet.api.generated.core import Event, Node, Pod
from pykubelet.api.typed import EVENTS, NODES, PODS, Kind
from pykubelet.kube.client import EVERYTHING, Selection
from pykubelet.kube.reflector import ListerWatcher, Reflector, Sink
from pykubelet.web.newest import Newest
from pykubelet.web.object_rows import EventRow, NodeRow, event_at, event_row, node_row
from pykubelet.web.pod_row import pod_key
from pykubelet.web.table import Table

T = TypeVar("T")
MOST_EVENTS = 500


class ApiTables:
    """The tables; without a client they stay empty. With `node_name` only what a node may read is asked for."""

    def __init__(self, *, client: ListerWatcher | None, clock: Clock, node_name: str = "") -> None:
        self._client, self._clock, self._node_name = client, clock, node_name
        self.nodes: Table[NodeRow] = Table()
        self.events: Table[EventRow] = Table()
        self._pods: dict[str, Pod] = {}
        self._newest = Newest(MOST_EVENTS)
        self._hint: Callable[[str], None] = _nobody
        self.cannot: dict[str, str] = {} if client is not None else dict.fromkeys(("nodes", "events"), _NO_SERVER)
        """By table, why it is empty."""

    def on_pod(self, hint: Callable[[str], None]) -> None:
        """Have somebody hear of pods that changed."""
        self._hint = hint

    def pod(self, key: str) -> Pod | None:
        """A pod as the API server shows it."""
        return self._pods.get(key)

    def pod_keys(self) -> tuple[str, ...]:
        """All that the API server shows."""
        return tuple(self._pods)

    async def run(self, wanted: asyncio.Event) -> None:
        """Follow from when it is wanted until cancelled."""
        client = self._client
        if client is None:
            return
        await wanted.wait()
        own = Selection(fields=f"metadata.name={self._node_name}") if self._node_name else EVERYTHING
        async with asyncio.TaskGroup() as group:
            if not self._node_name:
                sink = _Sink(self._pod_is, self._pod_is_gone)
                start_supervised(group, "page: pods", lambda: self._follow(client, PODS, sink, EVERYTHING))
            nodes = _Sink(self._node_is, lambda node: self.nodes.drop(node.metadata.name))
            start_supervised(group, "page: nodes", lambda: self._follow(client, NODES, nodes, own))
            events = _Sink(self._event_is, self._event_is_gone)
            start_supervised(group, "page: events", lambda: self._follow(client, EVENTS, events, EVERYTHING))

    async def _follow(self, client: ListerWatcher, kind: Kind[T], sink: Sink[T], selection: Selection) -> None:
        reflector = Reflector(
            client=client, kind=kind, sink=sink, clock=self._clock, selection=selection, give_up_on_forbidden=True
        )
        try:
            await reflector.run(asyncio.Event())
        except Forbidden as error:
            self.cannot = self.cannot | {kind.resource.plural: _words(error)}

    def _pod_is(self, pod: Pod) -> None:
        key = pod_key(pod.metadata.namespace, pod.metadata.name)
        self._pods[key] = pod
        self._hint(key)

    def _pod_is_gone(self, pod: Pod) -> None:
        key = pod_key(pod.metadata.namespace, pod.metadata.name)
        self._pods.pop(key, None)
        self._hint(key)

    def _node_is(self, node: Node) -> None:
        self.nodes.put(node_row(node))

    def _event_is(self, event: Event) -> None:
        row = event_row(event)
        self.events.put(row)
        for old in self._newest.note(row.key, event_at(event)):
            self.events.drop(old)

    def _event_is_gone(self, event: Event) -> None:
        key = f"{event.metadata.namespace}/{event.metadata.name}"
        self._newest.forget(key)
        self.events.drop(key)


class _Sink(Generic[T]):
    """Hears of objects; new or changed is the same to it."""

    def __init__(self, put: Callable[[T], object], drop: Callable[[T], object]) -> None:
        self._put, self._drop = put, drop

    def added(self, obj: T, /) -> None:
        self._put(obj)

    def modified(self, obj: T, /) -> None:
        self._put(obj)

    def deleted(self, obj: T, /) -> None:
        self._drop(obj)

    def synced(self) -> None:
        """Nothing to do: rows are told as they come."""


_NO_SERVER = "this node runs without an API server"


def _words(error: ApiError) -> str:
    return f"the API server does not let this node read them: {error.message}"


def _nobody(_: str) -> None:
    """Nobody listens."""
