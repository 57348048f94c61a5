"""The namespace controller: a namespace that is deleted loses all its content, and then its finalizer.

In: changes of namespaces, and pods that are gone. Out: deletions, conditions that say what is left, and `finalize` once
nothing is. Pods tell when they are gone; for the rest it looks again after a while.

Upstream: pkg/controller/namespace/namespace_controller.go

Deletes everything in a namespace, kind by kind, and says what is left.

In: the name of a namespace. Out: deletions, and a `Pass`. What goes wrong with one object or kind does not keep the
others.

Upstream: deleteAllContent in pkg/controller/namespace/deletion/namespaced_resources_deleter.go

What the end of a namespace needs: kinds to empty, what to say of the rest, when to look again.

In: what a server serves, and what one pass over a namespace could not do away with. Out: decisions.

Upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go, status_condition_utils.go
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from pykubelet.aio.backoff import Backoff
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import Namespace, Pod
from pykubelet.api.generated.meta import DeleteOptions
from pykubelet.api.schema import PODS, Resource
from pykubelet.api.scheme import NAMESPACES, PartialMeta, as_documents, metadata_of
from pykubelet.api.scheme import PODS as SCHEME_PODS
from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time, parse_time
from pykubelet.client.informers import Informers
from pykubelet.client.interface import ControllerClient
from pykubelet.controllers.framework.work_queue import WorkQueue
from pykubelet.kinds.namespace import RemainingContent, is_terminating, with_remaining, without_finalizer

FINALIZER_SECONDS = 15.0
"""How long whoever has to finalize an object may take."""
LONGEST_SECONDS = 120.0
"""Nobody's grace period keeps us from looking for longer."""


@dataclass(frozen=True, slots=True)
class UndeletedObject:
    """An object that is still there."""

    resource: Resource
    metadata: PartialMeta


@dataclass(frozen=True, slots=True)
class DeletionPass:
    """What one pass over a namespace found out."""

    left: tuple[UndeletedObject, ...] = ()
    failures: tuple[str, ...] = ()
    """What went wrong, once for each kind."""
    undiscovered: str = ""
    """Why not every kind is known; empty if all are."""

    @property
    def problem(self) -> str:
        """All that went wrong; empty if nothing did."""
        return "; ".join(text for text in (self.undiscovered, *self.failures) if text)

    @property
    def found_nothing(self) -> bool:
        """Whether the namespace is known to be empty: a kind that could not be asked for may have objects in it."""
        return not self.left and not self.problem


def kinds_to_empty(served: Iterable[Resource]) -> tuple[Resource, ...]:
    """The kinds that can have objects in a namespace, one version of each. Pods come first."""
    chosen: dict[str, Resource] = {}
    for resource in served:
        if resource.namespaced:
            chosen.setdefault(resource.group_resource, resource)
    return tuple(sorted(chosen.values(), key=lambda one: not is_pods(one)))


def is_pods(resource: Resource) -> bool:
    """Whether nothing else may be deleted before the last of these is gone: what pods use outlives them."""
    return resource.group_resource == PODS.group_resource


def undiscovered(unsure: Sequence[str]) -> str:
    """What a namespace says of groups whose kinds are not known; nothing if there are none."""
    if not unsure:
        return ""
    groups = ", ".join(f"{name}: stale GroupVersion discovery: {name}" for name in sorted(unsure))
    why = f"unable to retrieve the complete list of server APIs: {groups}"
    return f"Discovery failed for some groups, {len(unsure)} failing: {why}"


def status_patch(namespace: Document, found: DeletionPass, now: datetime) -> Document | None:
    """The conditions that have to change, as a strategic merge patch; None if they are right."""
    remaining = [RemainingContent(one.resource.group_resource, one.metadata.finalizers) for one in found.left]
    new = with_remaining(namespace, remaining, found.failures, format_time(now), undiscovered=found.undiscovered)
    old, said = namespace.get("status", {}), new["status"]
    if said == old:
        return None
    # Conditions of others may have changed since we read them.
    changed = [one for one in said["conditions"] if one not in old.get("conditions", ())]
    uid = namespace["metadata"]["uid"]
    return {"metadata": {"uid": uid}, "status": {"phase": said["phase"], "conditions": changed}}


def look_again_seconds(left: Iterable[UndeletedObject], now: datetime) -> float:
    """How long to wait for what is left: half of what it may take, and a second.

    The deletion time of a pod is the end of its grace period; other objects, and pods that are late, wait for somebody.
    """
    longest = 0.0
    for one in left:
        ends = one.metadata.deletion_timestamp
        grace = (parse_time(ends) - now).total_seconds() if ends else 0.0
        longest = max(longest, grace if grace > 0 else FINALIZER_SECONDS)
    return min(longest, LONGEST_SECONDS) / 2 + 1


VERBS = frozenset({"delete", "list"})
_PAGE = 500
_BACKGROUND = DeleteOptions(propagation_policy="Background")


class NamespaceContentDeleter:
    """What is in namespaces."""

    def __init__(self, *, client: ControllerClient) -> None:
        self._client = client

    async def delete(self, namespace: str) -> DeletionPass:
        """Have everything in a namespace deleted; what is still there afterwards, and what went wrong."""
        try:
            served = await self._client.discover(VERBS)
        except ApiError as error:
            return DeletionPass(undiscovered=error.message)
        kinds = kinds_to_empty(served.resources)
        if not kinds:
            # A server that is about to start or stop, perhaps.
            return DeletionPass(undiscovered="the server names no resources")
        left: list[UndeletedObject] = []
        failures: list[str] = []
        for resource in kinds:
            try:
                kept, wrong = await self._delete_all(resource, namespace)
            except ApiError as error:
                # NotFound as well: what was served a moment ago is gone only if the next look does not show it.
                kept, wrong = [], error.message
            left += (UndeletedObject(resource, metadata) for metadata in kept)
            failures += [wrong] if wrong else []
            if is_pods(resource) and (kept or wrong):
                break
        return DeletionPass(tuple(left), tuple(failures), undiscovered(served.unsure))

    async def _delete_all(self, resource: Resource, namespace: str) -> tuple[list[PartialMeta], str]:
        """Delete all objects of a kind; those that are still there, and the first thing that went wrong."""
        found = await self._all(resource, namespace)
        if not found:
            return [], ""
        wrong = ""
        for metadata in found:
            if metadata.deletion_timestamp is None:
                try:
                    await self._delete(resource, namespace, metadata.name)
                except ApiError as error:
                    wrong = wrong or error.message
        left = await self._all(resource, namespace)
        if not wrong and any(metadata.deletion_timestamp is None for metadata in left):
            wrong = f"unexpected items still remain in namespace: {namespace} for {resource.group_resource}"
        return left, wrong

    async def _delete(self, resource: Resource, namespace: str, name: str) -> None:
        with suppress(NotFound):
            await self._client.delete(metadata_of(resource), name, namespace=namespace, options=_BACKGROUND)

    async def _all(self, resource: Resource, namespace: str) -> list[PartialMeta]:
        found: list[PartialMeta] = []
        token = ""
        while True:
            page = await self._client.list(
                metadata_of(resource), namespace=namespace, limit=_PAGE, continue_token=token
            )
            found += (one.metadata for one in page.items)
            token = page.continue_token
            if not token:
                return found


log = get_logger(__name__)

SETTLE_SECONDS = 5.0
"""Until all of several API servers have heard that nothing more is to be made in a namespace."""
POD_SECONDS = 1.0
"""Pods go in crowds: as many as do in this time are looked at together."""
RETRY = Backoff(first_seconds=0.5, limit_seconds=60)
"""Slower at first than elsewhere, for a pass asks for every kind; never slower than a minute, as upstream."""
_DOCUMENTS = as_documents(NAMESPACES.resource)


class ContentRemainsError(Exception):
    """Not all content could be deleted; the message says why."""


class NamespaceController:
    """Syncs namespaces by name. The owner of which ones are being emptied."""

    def __init__(self, *, client: ControllerClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._content = NamespaceContentDeleter(client=client)
        self._emptied: set[str] = set()
        self.queue = WorkQueue(RETRY)

    def listen(self, informers: Informers) -> None:
        """Hear of changes of namespaces, and of pods that are gone."""
        informers.add_event_handler(
            NAMESPACES,
            added=self.namespace_seen,
            updated=lambda _, new: self.namespace_seen(new),
            deleted=self.namespace_deleted,
        )
        informers.add_event_handler(
            SCHEME_PODS, added=lambda _pod: None, updated=lambda _old, _new: None, deleted=self.pod_deleted
        )

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

    async def _empty(self, name: str) -> DeletionPass | None:
        """Delete what is in a namespace; what is left, or None if nothing more is to be done for it."""
        namespace = await self._client.get(_DOCUMENTS, name)
        if not is_terminating(namespace):
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

    async def _say(self, namespace: Document, found: DeletionPass) -> Document:
        """Have its conditions say what is left; the namespace as it is then."""
        patch = status_patch(namespace, found, self._clock.now())
        if patch is None:
            return namespace
        return await self._client.patch(_DOCUMENTS, namespace["metadata"]["name"], patch, subresource="status")
