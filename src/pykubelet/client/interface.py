"""The client interface: Protocols for reading, writing and watching objects of an API server.

`client/rest.py` implements them over HTTP; an API server in the same process implements them directly. Every call
raises `pykubelet.api.errors.ApiError`, never an exception of the transport.

Upstream: staging/src/k8s.io/client-go/kubernetes/clientset.go, staging/src/k8s.io/client-go/dynamic/interface.go
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
NOW = DeleteOptions(grace_period_seconds=0)
"""Deletes at once, regardless of the object's grace period."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The label selector and field selector of a list or watch, as strings."""

    labels: str = ""
    fields: str = ""


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """One page of a list, and the resource version it was read at."""

    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One watch event. A BOOKMARK carries no object, only the resource version the stream has reached."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: T | None
    resource_version: str


class PatchType(StrEnum):
    """The kind of a patch; the value is its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


def now_if_uid(uid: str) -> DeleteOptions:
    """Options that delete the object with this UID at once; Conflict if the name belongs to another object."""
    return DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(uid=uid))


class Reader(Protocol):
    async def get(self, kind: TypedKind[T], name: str, *, namespace: str = "", resource_version: str = "") -> T:
        """Get one object; NotFound if it does not exist. `resource_version="0"` allows a cached answer."""

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
        """List one page of objects (all if `limit` is 0); Expired if the continue token is too old."""


class Writer(Protocol):
    """Creates, patches and deletes objects. Structs that were read are never written back: changes are patches."""

    async def create(self, kind: TypedKind[T], body: T, *, namespace: str = "", name: str = "") -> T:
        """Create an object and return it as stored. `name` is only for kinds that are subresources."""

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
        """Patch an object or its subresource; `metadata.uid` in the body is a precondition."""

    async def delete(
        self, kind: TypedKind[T], name: str, *, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        """Delete an object, by default with its own grace period; Conflict if a precondition fails."""


class Watcher(Protocol):
    def watch(
        self,
        kind: TypedKind[T],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        timeout_seconds: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Stream the changes after a resource version, in order, with bookmarks.

        The iterator ends when the server ends the stream: watch again from the last resource version. Expired or Gone
        means that the version is too old: list again. Leaving the context closes the stream.
        """


class Client(Reader, Writer, Watcher, Protocol):
    """Reads, writes and watches objects; what most components need."""


class Replacer(Protocol):
    """Replaces whole documents, for the few subresources that take no patches."""

    async def replace(
        self, resource: Resource, name: str, body: Document, *, namespace: str = "", subresource: str = ""
    ) -> Document:
        """Replace an object; Conflict if it no longer has the resource version in the body."""


class Discoverer(Protocol):
    async def discover(self, verbs: frozenset[str]) -> Discovery:
        """Every resource that supports all these verbs; the preferred version of each group first."""


class Applier(Protocol):
    """Server-side apply for objects of any kind."""

    async def served(self) -> tuple[Resource, ...]:
        """Every resource that can be listed and patched; the preferred version of each group first."""

    async def apply(self, resource: Resource, body: Document, *, namespace: str = "", field_manager: str) -> Document:
        """Apply the object in the body with server-side apply; creates it if it does not exist.

        Takes over fields of other managers. Invalid or BadRequest if the document breaks a rule or has an unknown
        field.
        """


class SchemaReader(Protocol):
    async def published_schemas(self, api_version: str) -> dict[str, Document]:
        """The schemas of a group and version, by name, as its OpenAPI v3 document has them; NotFound if it is not served."""


class ControllerClient(Client, Replacer, Discoverer, Applier, SchemaReader, Protocol):
    """Everything that controllers use of an API server."""
