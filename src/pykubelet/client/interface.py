"""What the rest of the program may ask of an API server: Reader, Writer, Watcher and other Protocols.

A caller asks for the one it uses. `client/rest.py` speaks them over HTTP; an API server in the same process can offer
them without. Every call raises `pykubelet.api.errors.ApiError`, never an error of the transport.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Literal, Protocol, TypeVar

from pykubelet.api.generated.meta import DeleteOptions, Preconditions
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import TypedKind
from pykubelet.api.serializer import Document
from pykubelet.client.discovery import Discovery

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a collection: a label and a field selector, in their string forms."""

    labels: str = ""
    fields: str = ""


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """One page of a list, and the revision it was read at."""

    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One change. A BOOKMARK carries no object, only how far the stream has come."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: T | None
    resource_version: str


class PatchType(StrEnum):
    """How a patch body is to be read; the value is its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


NOW = DeleteOptions(grace_period_seconds=0)
"""Delete at once, whatever the object's own grace period."""


def now_if_uid(uid: str) -> DeleteOptions:
    """Delete at once, but only the object with this UID; Conflict if the name belongs to another by now."""
    return DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(uid=uid))


class Reader(Protocol):
    """Reads objects."""

    async def get(self, kind: TypedKind[T], name: str, *, namespace: str = "", resource_version: str = "") -> T:
        """One object. `resource_version="0"` allows an answer from the server's cache. NotFound if there is none."""

    async def list(
        self,
        kind: TypedKind[T],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> Listing[T]:
        """A page of objects (all if `limit` is 0); Expired if the continue token is too old."""


class Writer(Protocol):
    """Changes objects. Nobody writes back a Struct that was read: changes are patches."""

    async def create(self, kind: TypedKind[T], body: T, *, namespace: str = "", name: str = "") -> T:
        """Create an object; the answer is what the server stored. `name` only for kinds that are subresources."""

    async def patch(
        self,
        kind: TypedKind[T],
        name: str,
        body: Any,
        *,
        namespace: str = "",
        patch_type: PatchType = PatchType.STRATEGIC,
        subresource: str = "",
    ) -> T:
        """Change an object or its subresource; `metadata.uid` in the body is a precondition."""

    async def delete(
        self, kind: TypedKind[T], name: str, *, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        """Delete an object, by default with its own grace period. Conflict if a precondition fails."""


class Watcher(Protocol):
    """Streams changes."""

    def watch(
        self,
        kind: TypedKind[T],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        timeout_seconds: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Changes after a revision, in order, with bookmarks.

        The iterator ends when the server ends the stream (its time is up: watch on from the last revision seen).
        Expired or Gone means that revision is too old: list again. Leaving the context closes the stream.
        """


class Client(Reader, Writer, Watcher, Protocol):
    """All three."""


class Replacer(Protocol):
    """Writes whole documents, for the few subresources that take no patches."""

    async def replace(
        self, resource: Resource, name: str, body: Document, *, namespace: str = "", subresource: str = ""
    ) -> Document:
        """Put a document in the place of the object; Conflict if it is not of the revision that the document names."""


class Discoverer(Protocol):
    """Knows what there is to ask for."""

    async def discover(self, verbs: frozenset[str]) -> Discovery:
        """Every resource that has all these verbs; of each group the preferred version first."""


class Applier(Protocol):
    """Makes objects of any kind be as a document says."""

    async def served(self) -> tuple[Resource, ...]:
        """Every resource whose objects can be listed and patched; of each group the preferred version first."""

    async def apply(self, resource: Resource, body: Document, *, namespace: str = "", field_manager: str) -> Document:
        """Server-side apply of the object that the body names; made if it is not there.

        Fields that others own are taken from them. Invalid or BadRequest if the document breaks a rule or has a field
        that its kind does not.
        """


class ControllerClient(Client, Replacer, Discoverer, Applier, Protocol):
    """Everything that controllers use of an API server."""
