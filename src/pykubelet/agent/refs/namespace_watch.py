"""One watch for all referenced objects of a namespace.

The server sends the whole namespace; what no pod refers to is dropped on arrival, so memory follows the references.
An object that gets its first reference while the watch runs has been dropped before: its first reader fetches it.
Ours: upstream opens a watch for each object.
"""

import asyncio
from collections.abc import Callable
from typing import Generic

from pykubelet.agent.refs.item import Item
from pykubelet.agent.refs.object_watch import MIN_WATCH_SECONDS
from pykubelet.agent.refs.referenced_only import ReferencedOnly
from pykubelet.agent.refs.store import ObjectSource, T
from pykubelet.aio.log import get_logger
from pykubelet.aio.supervise import supervise
from pykubelet.api.errors import Forbidden
from pykubelet.kube.reflector import Reflector

log = get_logger(__name__)


class NamespaceWatch(Generic[T]):
    """Follows the referenced objects of one namespace while it runs."""

    def __init__(self, *, namespace: str, source: ObjectSource[T], forbidden: Callable[[str], None]) -> None:
        """`forbidden` is called with the namespace if the server does not allow it; that ends the watch."""
        self._namespace, self._source, self._forbidden = namespace, source, forbidden
        self._items: dict[str, Item[T]] = {}
        # Names of which the reflector has told; it does not know what readers fetched.
        self._known: set[str] = set()
        self._has_begun = self._is_synced = False
        self._task: asyncio.Task[None] | None = None

    @property
    def items(self) -> tuple[Item[T], ...]:
        """What is followed."""
        return tuple(self._items.values())

    def start(self, group: asyncio.TaskGroup) -> None:
        """Follow until stopped."""
        name = f"watch {self._source.noun}s of {self._namespace}"
        self._task = group.create_task(supervise(name, self._follow), name=name)

    def stop(self) -> None:
        """Follow no more; what was known counts as unknown."""
        if self._task is not None:
            self._task.cancel()
        self._has_begun = self._is_synced = False
        for item in self._items.values():
            item.is_synced.clear()

    def join(self, item: Item[T]) -> None:
        """Keep an item up to date from now on."""
        self._items[item.key.name] = item
        item.needs_fetch = self._has_begun
        if self._is_synced:
            item.is_synced.set()

    def leave(self, item: Item[T]) -> bool:
        """Forget an item; True if that was the last one."""
        del self._items[item.key.name]
        return not self._items

    async def _follow(self) -> None:
        self._known.clear()
        reflector: Reflector[T] = Reflector(
            client=ReferencedOnly(self._source.client, self),
            kind=self._source.kind,
            sink=self,
            clock=self._source.clock,
            namespace=self._namespace,
            min_watch_seconds=MIN_WATCH_SECONDS,
            give_up_on_forbidden=True,
        )
        try:
            await reflector.run(asyncio.Event())
        except Forbidden as error:
            log.info("namespace may not be watched", namespace=self._namespace, error=error)
            self._forbidden(self._namespace)

    # The reflector's sink

    def added(self, obj: T) -> None:
        self._known.add(obj.metadata.name)
        self.modified(obj)

    def modified(self, obj: T) -> None:
        if item := self._items.get(obj.metadata.name):
            item.offer(obj)

    def deleted(self, obj: T) -> None:
        self._known.discard(obj.metadata.name)
        if item := self._items.get(obj.metadata.name):
            item.withdraw(obj)

    def synced(self) -> None:
        self._is_synced = True
        for item in self._items.values():
            item.is_synced.set()
            if item.object is not None and item.key.name not in self._known:
                # A reader fetched it, and this list does not have it.
                item.doubt()

    # What the reflector is shown

    def begin(self) -> None:
        self._has_begun = True

    def is_wanted(self, name: str) -> bool:
        return name in self._items

    def is_known(self, name: str) -> bool:
        return name in self._known
