"""Tables of the page: rows of nodes and events, pods as the API server shows them, and their changes.

Collections are followed from the first browser on; a collection that may not be read has an explanation instead. A row
that returns to its previous state is no change; the newest of several counts.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.errors import Forbidden
from pykubelet.api.generated.core import Event, Node, Pod
from pykubelet.api.scheme import EVENTS, NODES, PODS, TypedKind
from pykubelet.client.interface import EVERYTHING, Selection
from pykubelet.client.node_view import pod_key
from pykubelet.client.reflector import ListerWatcher, Reflector, ResourceEventHandler
from pykubelet.web.rows import EventRow, NodeRow, event_at, event_row, node_row

T = TypeVar("T")
MOST_EVENTS = 500
_NO_SERVER = "this node runs without an API server"


class NewestKeys:
    """Keeps at least `limit` and at most twice as many of the newest keys, at amortised constant cost."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._times: dict[str, str] = {}

    def note(self, key: str, at: str) -> tuple[str, ...]:
        """Record the time of a key; returns the keys that are too old, possibly including this one."""
        self._times[key] = at
        if len(self._times) <= 2 * self._limit:
            return ()
        by_age = sorted(self._times, key=lambda one: self._times[one])
        old = tuple(by_age[: -self._limit])
        for one in old:
            del self._times[one]
        return old

    def forget(self, key: str) -> None:
        """Remove a key that no longer exists."""
        self._times.pop(key, None)


class Keyed(Protocol):
    """A row with a unique key."""

    @property
    def key(self) -> str:
        """The unique key of the row."""


Row = TypeVar("Row", bound=Keyed)


class RowChanges(Struct, Generic[Row], frozen=True):
    """New and changed rows, and the keys of removed ones."""

    rows: tuple[Row, ...] = ()
    gone: tuple[str, ...] = ()


class RowTable(Generic[Row]):
    """The rows of one kind by key. Owned by one task."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._before: dict[str, Row | None] = {}

    def put(self, row: Row) -> Row | None:
        """Add or replace a row; returns the previous one."""
        return self._replace(row.key, row)

    def drop(self, key: str) -> Row | None:
        """Remove a row; returns it."""
        return self._replace(key, None)

    def get(self, key: str) -> Row | None:
        return self._rows.get(key)

    def keys(self) -> tuple[str, ...]:
        return tuple(self._rows)

    def rows(self) -> tuple[Row, ...]:
        return tuple(self._rows.values())

    def take(self) -> RowChanges[Row] | None:
        """The changes since the last call; None if there are none."""
        before, self._before = self._before, {}
        rows = tuple(self._rows[key] for key, old in before.items() if key in self._rows and self._rows[key] != old)
        gone = tuple(key for key, old in before.items() if key not in self._rows and old is not None)
        return RowChanges(rows, gone) if rows or gone else None

    def _replace(self, key: str, row: Row | None) -> Row | None:
        old = self._rows.get(key)
        if old == row:
            return old
        # The browsers have the state of the last call.
        self._before.setdefault(key, old)
        if row is None:
            del self._rows[key]
        else:
            self._rows[key] = row
        return old


class ApiTables:
    """The tables of the API server; empty without a client. With `node_name` limited to what a node may read."""

    def __init__(self, *, client: ListerWatcher | None, clock: Clock, node_name: str = "") -> None:
        self._client, self._clock, self._node_name = client, clock, node_name
        self.nodes: RowTable[NodeRow] = RowTable()
        self.events: RowTable[EventRow] = RowTable()
        self._pods: dict[str, Pod] = {}
        self._newest = NewestKeys(MOST_EVENTS)
        self._hint: Callable[[str], None] = lambda _key: None
        self.cannot: dict[str, str] = {} if client is not None else dict.fromkeys(("nodes", "events"), _NO_SERVER)
        """By table, why it is empty."""

    def on_pod(self, hint: Callable[[str], None]) -> None:
        """Set the callback for changed pods."""
        self._hint = hint

    def pod(self, key: str) -> Pod | None:
        """A pod as the API server shows it."""
        return self._pods.get(key)

    def pod_keys(self) -> tuple[str, ...]:
        """The keys of all pods that the API server shows."""
        return tuple(self._pods)

    async def run(self, wanted: asyncio.Event) -> None:
        """Follow the collections from the first browser on, until cancelled."""
        client = self._client
        if client is None:
            return
        await wanted.wait()
        own = Selection(fields=f"metadata.name={self._node_name}") if self._node_name else EVERYTHING
        async with asyncio.TaskGroup() as group:
            if not self._node_name:
                sink = _Sink(self._pod_changed, self._pod_deleted)
                start_supervised(group, "page: pods", lambda: self._follow(client, PODS, sink, EVERYTHING))
            nodes = _Sink[Node](
                lambda node: self.nodes.put(node_row(node)), lambda node: self.nodes.drop(node.metadata.name)
            )
            start_supervised(group, "page: nodes", lambda: self._follow(client, NODES, nodes, own))
            events = _Sink(self._event_changed, self._event_deleted)
            start_supervised(group, "page: events", lambda: self._follow(client, EVENTS, events, EVERYTHING))

    async def _follow(
        self, client: ListerWatcher, kind: TypedKind[T], sink: ResourceEventHandler[T], selection: Selection
    ) -> None:
        reflector = Reflector(
            client=client, kind=kind, sink=sink, clock=self._clock, selection=selection, give_up_on_forbidden=True
        )
        try:
            await reflector.run(asyncio.Event())
        except Forbidden as error:
            reason = f"the API server does not let this node read them: {error.message}"
            self.cannot = self.cannot | {kind.resource.plural: reason}

    def _pod_changed(self, pod: Pod) -> None:
        key = pod_key(pod.metadata.namespace, pod.metadata.name)
        self._pods[key] = pod
        self._hint(key)

    def _pod_deleted(self, pod: Pod) -> None:
        key = pod_key(pod.metadata.namespace, pod.metadata.name)
        self._pods.pop(key, None)
        self._hint(key)

    def _event_changed(self, event: Event) -> None:
        row = event_row(event)
        self.events.put(row)
        for old in self._newest.note(row.key, event_at(event)):
            self.events.drop(old)

    def _event_deleted(self, event: Event) -> None:
        key = f"{event.metadata.namespace}/{event.metadata.name}"
        self._newest.forget(key)
        self.events.drop(key)


class _Sink(Generic[T]):
    """Updates a table; an added and a modified object are the same to it."""

    def __init__(self, put: Callable[[T], object], drop: Callable[[T], object]) -> None:
        self._put, self._drop = put, drop

    def added(self, obj: T, /) -> None:
        self._put(obj)

    modified = added

    def deleted(self, obj: T, /) -> None:
        self._drop(obj)

    def synced(self) -> None: ...
