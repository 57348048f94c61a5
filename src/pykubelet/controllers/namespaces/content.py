"""Deletes everything in a namespace, kind by kind, and says what is left.

In: the name of a namespace. Out: deletions, and a `Pass`. What goes wrong with one object or kind does not keep the
others.

Upstream: deleteAllContent in pkg/controller/namespace/deletion/namespaced_resources_deleter.go
"""

from contextlib import suppress
from typing import Protocol, TypeVar

from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.meta import DeleteOptions
from pykubelet.api.partial import PartialMeta, metadata_of
from pykubelet.api.resources import Resource
from pykubelet.api.typed import Kind
from pykubelet.controllers.namespaces.plan import Left, Pass, is_pods, kinds_to_empty, undiscovered
from pykubelet.kube.client import Reader
from pykubelet.kube.discovery import Discovery

T = TypeVar("T")

VERBS = frozenset({"delete", "list"})
_PAGE = 500
_BACKGROUND = DeleteOptions(propagation_policy="Background")


class ContentClient(Reader, Protocol):
    """What is needed of an API server."""

    async def discover(self, verbs: frozenset[str]) -> Discovery:
        """Every resource that has all these verbs; of each group the preferred version first."""

    async def delete(
        self, kind: Kind[T], name: str, *, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        """Delete an object; NotFound if there is none."""


class Content:
    """What is in namespaces."""

    def __init__(self, *, client: ContentClient) -> None:
        self._client = client

    async def delete(self, namespace: str) -> Pass:
        """Have everything in a namespace deleted; what is still there afterwards, and what went wrong."""
        try:
            served = await self._client.discover(VERBS)
        except ApiError as error:
            return Pass(undiscovered=error.message)
        kinds = kinds_to_empty(served.resources)
        if not kinds:
            # A server that is about to start or stop, perhaps.
            return Pass(undiscovered="the server names no resources")
        left: list[Left] = []
        failures: list[str] = []
        for resource in kinds:
            try:
                kept, wrong = await self._delete_all(resource, namespace)
            except ApiError as error:
                # NotFound as well: what was served a moment ago is gone only if the next look does not show it.
                kept, wrong = [], error.message
            left += (Left(resource, metadata) for metadata in kept)
            failures += [wrong] if wrong else []
            if is_pods(resource) and (kept or wrong):
                break
        return Pass(tuple(left), tuple(failures), undiscovered(served.unsure))

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
