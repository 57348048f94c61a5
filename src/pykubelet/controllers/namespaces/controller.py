"""The namespace controller: a namespace that is deleted loses all its content, and then its finalizer.

In: changes of namespaces, and pods that are gone. Out: deletions, conditions that say what is left, and `finalize` once
nothing is. Pods tell when they are gone; for the rest it looks again after a while.

Upstream: pkg/controller/namespace/namespace_controller.go
"""

from typing import Any, Protocol, TypeVar

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import Namespace, Pod
from pykubelet.api.namespace_ending import is_ending, without_finalizer
from pykubelet.api.typed import NAMESPACES, PODS, Kind, as_documents
from pykubelet.api.wire import Document
from pykubelet.controllers.informers import Informers
from pykubelet.controllers.namespaces.content import Content, ContentClient
from pykubelet.controllers.namespaces.plan import Pass, look_again_seconds, status_patch
from pykubelet.controllers.work_queue import WorkQueue
from pykubelet.kube.client import Replacer

T = TypeVar("T")
log = get_logger(__name__)

SETTLE_SECONDS = 5.0
"""Until all of several API servers have heard that nothing more is to be made in a namespace."""
POD_SECONDS = 1.0
"""Pods go in crowds: as many as do in this time are looked at together."""
RETRY = Backoff(first_seconds=0.5, limit_seconds=60)
"""Slower at first than elsewhere, for a pass asks for every kind; never slower than a minute, as upstream."""
_DOCUMENTS = as_documents(NAMESPACES.resource)


class NamespaceClient(ContentClient, Replacer, Protocol):
    """What is needed of an API server."""

    async def patch(self, kind: Kind[T], name: str, body: Any, *, subresource: str = "") -> T:
        """Change a subresource; `metadata.uid` in the body is a precondition."""


class ContentRemainsError(Exception):
    """Not all content could be deleted; the message says why."""


class NamespaceController:
    """Syncs namespaces by name. The owner of which ones are being emptied."""

    def __init__(self, *, client: NamespaceClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._content = Content(client=client)
        self._emptied: set[str] = set()
        self.queue = WorkQueue(RETRY)

    def listen(self, informers: Informers) -> None:
        """Hear of changes of namespaces, and of pods that are gone."""
        informers.tell(
            NAMESPACES,
            added=self.namespace_seen,
            updated=lambda _, new: self.namespace_seen(new),
            deleted=self.namespace_deleted,
        )
        informers.tell(PODS, added=lambda _pod: None, updated=lambda _old, _new: None, deleted=self.pod_deleted)

    def namespace_seen(self, namespace: Namespace) -> None:
        """A namespace is new or has changed; only one that ends matters."""
        if namespace.metadata.deletion_timestamp is not None:
            self.queue.add_after(namespace.metadata.name, SETTLE_SECONDS)

    def namespace_deleted(self, namespace: Namespace) -> None:
        """A namespace is gone."""
        self._emptied.discard(namespace.metadata.name)

    def pod_deleted(self, pod: Pod) -> None:
        """A pod is gone: perhaps the last one that a namespace waits for."""
        if pod.metadata.namespace in self._emptied:
            self.queue.add_after(pod.metadata.namespace, POD_SECONDS)

    async def process_next(self) -> None:
        """Sync the next namespace of the queue; a failure puts it back, later."""
        await self.queue.process_next(self.sync)

    async def sync(self, name: str) -> None:
        """Take the end of one namespace as far as it goes now. Raises what went wrong."""
        try:
            found = await self._empty(name)
        except NotFound:
            found = None
        if found is None:
            self._emptied.discard(name)
        elif found.problem:
            raise ContentRemainsError(found.problem)
        else:
            seconds = look_again_seconds(found.left, self._clock.now())
            log.debug("a namespace is not empty yet", namespace=name, objects=len(found.left), seconds=seconds)
            self.queue.add_after(name, seconds)

    async def _empty(self, name: str) -> Pass | None:
        """Delete what is in a namespace; what is left, or None if nothing more is to be done for it."""
        namespace = await self._client.get(_DOCUMENTS, name)
        if not is_ending(namespace):
            return None
        self._emptied.add(name)
        found = await self._content.delete(name)
        namespace = await self._say(namespace, found)
        if not found.found_nothing:
            return found
        # Its revision is a lock: a finalizer that somebody else adds now is not lost.
        await self._client.replace(NAMESPACES.resource, name, without_finalizer(namespace), subresource="finalize")
        log.info("a namespace is empty and let go", namespace=name)
        return None

    async def _say(self, namespace: Document, found: Pass) -> Document:
        """Have its conditions say what is left; the namespace as it is then."""
        patch = status_patch(namespace, found, self._clock.now())
        if patch is None:
            return namespace
        return await self._client.patch(_DOCUMENTS, namespace["metadata"]["name"], patch, subresource="status")
