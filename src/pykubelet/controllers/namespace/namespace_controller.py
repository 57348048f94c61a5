"""The namespace controller: deletes the content of a deleted namespace, then removes its finalizer.

`NamespaceContentDeleter` deletes kind by kind, pods first; an error with one object or kind does not stop the others.
Conditions say what is left. A deleted pod triggers the next pass; other remaining objects are polled.

Upstream: pkg/controller/namespace/namespace_controller.go,
pkg/controller/namespace/deletion/namespaced_resources_deleter.go,
pkg/controller/namespace/deletion/status_condition_utils.go
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
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import NAMESPACES, PODS, PartialMeta, as_documents, metadata_of
from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time, parse_time
from pykubelet.client.informers import Informers
from pykubelet.client.interface import ControllerClient
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue
from pykubelet.kinds.namespace import RemainingContent, is_terminating, with_remaining, without_finalizer

log = get_logger(__name__)
FINALIZER_SECONDS = 15.0
"""The time assumed for an object's finalizers."""
LONGEST_SECONDS = 120.0
"""The longest interval between two passes, whatever the grace period of a pod."""
VERBS = frozenset({"delete", "list"})
_PAGE = 500
_BACKGROUND = DeleteOptions(propagation_policy="Background")
SETTLE_SECONDS = 5.0
"""The time until all API servers know that the namespace is terminating."""
POD_SECONDS = 1.0
"""Pod deletions within this time trigger one pass together."""
RETRY = Backoff(first_seconds=0.5, limit_seconds=60)
"""Slower at first than elsewhere, since a pass lists every kind; at most a minute, as upstream."""
_DOCUMENTS = as_documents(NAMESPACES.resource)


@dataclass(frozen=True, slots=True)
class UndeletedObject:
    """An object that still exists."""

    resource: Resource
    metadata: PartialMeta


@dataclass(frozen=True, slots=True)
class DeletionPass:
    """The result of one pass over a namespace."""

    left: tuple[UndeletedObject, ...] = ()
    failures: tuple[str, ...] = ()
    """The first error of each kind."""
    undiscovered: str = ""
    """Why some kinds are unknown; empty if all are known."""

    @property
    def problem(self) -> str:
        """All errors; empty if there are none."""
        return "; ".join(text for text in (self.undiscovered, *self.failures) if text)

    @property
    def found_nothing(self) -> bool:
        """Whether the namespace is empty for certain: every kind was listed and none has objects."""
        return not self.left and not self.problem


class ContentRemainsError(Exception):
    """Some content could not be deleted; the message says why."""


class NamespaceController(KeyedController):
    """Syncs namespaces by name."""

    def __init__(self, *, client: ControllerClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._content = NamespaceContentDeleter(client=client)
        self._emptied: set[str] = set()
        self.queue = WorkQueue(RETRY)

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(NAMESPACES, changed=self.namespace_seen, deleted=self.namespace_deleted)
        informers.add_event_handler(PODS, deleted=self.pod_deleted)

    def namespace_seen(self, namespace: Namespace) -> None:
        if namespace.metadata.deletion_timestamp is not None:
            self.queue.add_after(namespace.metadata.name, SETTLE_SECONDS)

    def namespace_deleted(self, namespace: Namespace) -> None:
        self._emptied.discard(namespace.metadata.name)

    def pod_deleted(self, pod: Pod) -> None:
        """Enqueues the pod's namespace if it is being emptied."""
        if pod.metadata.namespace in self._emptied:
            self.queue.add_after(pod.metadata.namespace, POD_SECONDS)

    async def sync(self, name: str) -> None:
        """Runs one pass over a terminating namespace. Raises what went wrong."""
        try:
            found = await self._empty(name)
        except NotFound:
            found = None
        if found is None:
            self._emptied.discard(name)
        elif found.problem:
            raise ContentRemainsError(found.problem)
        else:
            seconds = next_pass_seconds(found.left, self._clock.now())
            log.debug("namespace is not empty yet", namespace=name, objects=len(found.left), seconds=seconds)
            self.queue.add_after(name, seconds)

    async def _empty(self, name: str) -> DeletionPass | None:
        """Deletes the content; returns what is left, or None if nothing more is to be done."""
        namespace = await self._client.get(_DOCUMENTS, name)
        if not is_terminating(namespace):
            return None
        self._emptied.add(name)
        found = await self._content.delete(name)
        namespace = await self._update_conditions(namespace, found)
        if not found.found_nothing:
            return found
        # The resource version protects a finalizer that another client adds now.
        await self._client.replace(NAMESPACES.resource, name, without_finalizer(namespace), subresource="finalize")
        log.info("namespace finalized", namespace=name)
        return None

    async def _update_conditions(self, namespace: Document, found: DeletionPass) -> Document:
        patch = status_patch(namespace, found, self._clock.now())
        if patch is None:
            return namespace
        return await self._client.patch(_DOCUMENTS, namespace["metadata"]["name"], patch, subresource="status")


class NamespaceContentDeleter:
    """Deletes everything in a namespace."""

    def __init__(self, *, client: ControllerClient) -> None:
        self._client = client

    async def delete(self, namespace: str) -> DeletionPass:
        """Deletes all objects of a namespace; returns what remains and the errors."""
        try:
            served = await self._client.discover(VERBS)
        except ApiError as error:
            return DeletionPass(undiscovered=error.message)
        kinds = kinds_to_empty(served.resources)
        if not kinds:
            # The server may be starting or stopping.
            return DeletionPass(undiscovered="discovery returned no resources")
        left: list[UndeletedObject] = []
        failures: list[str] = []
        for resource in kinds:
            try:
                kept, wrong = await self._delete_all(resource, namespace)
            except ApiError as error:
                # Includes NotFound: only the next discovery shows whether the kind is really gone.
                kept, wrong = [], error.message
            left += (UndeletedObject(resource, metadata) for metadata in kept)
            failures += [wrong] if wrong else []
            if is_pods(resource) and (kept or wrong):
                break
        return DeletionPass(tuple(left), tuple(failures), undiscovered(served.unsure))

    async def _delete_all(self, resource: Resource, namespace: str) -> tuple[list[PartialMeta], str]:
        """Deletes all objects of a kind; returns those that still exist and the first error."""
        found = await self._all(resource, namespace)
        if not found:
            return [], ""
        kind, wrong = metadata_of(resource), ""
        for metadata in found:
            if metadata.deletion_timestamp is None:
                try:
                    with suppress(NotFound):
                        await self._client.delete(kind, metadata.name, namespace=namespace, options=_BACKGROUND)
                except ApiError as error:
                    wrong = wrong or error.message
        left = await self._all(resource, namespace)
        if not wrong and any(metadata.deletion_timestamp is None for metadata in left):
            wrong = f"unexpected items still remain in namespace: {namespace} for {resource.group_resource}"
        return left, wrong

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


def undiscovered(unsure: Sequence[str]) -> str:
    """The message about groups whose discovery failed; empty if there are none."""
    if not unsure:
        return ""
    groups = ", ".join(f"{name}: stale GroupVersion discovery: {name}" for name in sorted(unsure))
    why = f"unable to retrieve the complete list of server APIs: {groups}"
    return f"Discovery failed for some groups, {len(unsure)} failing: {why}"


def kinds_to_empty(served: Iterable[Resource]) -> tuple[Resource, ...]:
    """One version of each namespaced kind, pods first."""
    chosen: dict[str, Resource] = {}
    for resource in served:
        if resource.namespaced:
            chosen.setdefault(resource.group_resource, resource)
    return tuple(sorted(chosen.values(), key=lambda one: not is_pods(one)))


def is_pods(resource: Resource) -> bool:
    """Whether the kind is pods, which must be gone before other kinds are deleted, because they use those."""
    return resource.group_resource == PODS.resource.group_resource


def status_patch(namespace: Document, found: DeletionPass, now: datetime) -> Document | None:
    """The strategic merge patch of the conditions that change; None if none does."""
    remaining = [RemainingContent(one.resource.group_resource, one.metadata.finalizers) for one in found.left]
    new = with_remaining(namespace, remaining, found.failures, format_time(now), undiscovered=found.undiscovered)
    old, status = namespace.get("status", {}), new["status"]
    if status == old:
        return None
    # Only changed ones, since conditions of other writers may have changed meanwhile.
    changed = [one for one in status["conditions"] if one not in old.get("conditions", ())]
    uid = namespace["metadata"]["uid"]
    return {"metadata": {"uid": uid}, "status": {"phase": status["phase"], "conditions": changed}}


def next_pass_seconds(left: Iterable[UndeletedObject], now: datetime) -> float:
    """Seconds until the next pass: half of the longest wait, plus one.

    A pod's deletion timestamp is the end of its grace period; other objects, and overdue pods, wait for finalizers.
    """
    longest = 0.0
    for one in left:
        ends = one.metadata.deletion_timestamp
        grace = (parse_time(ends) - now).total_seconds() if ends else 0.0
        longest = max(longest, grace if grace > 0 else FINALIZER_SECONDS)
    return min(longest, LONGEST_SECONDS) / 2 + 1
