"""LoopbackClient: the Client interface without HTTP, for the server's own process and for tests.

Requests go straight to the `Server`, as one user who may do everything; responses equal those over HTTP.

Upstream: staging/src/k8s.io/apiserver/pkg/server/options/serving_with_loopback.go
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import msgspec

from pykubelet.aio.log import get_logger
from pykubelet.api import serializer
from pykubelet.api.errors import BadRequest, InternalError, NotFound, from_status
from pykubelet.api.generated.meta import DeleteOptions
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import TypedKind, as_documents
from pykubelet.api.serializer import Document
from pykubelet.apiserver.discovery import version_rank
from pykubelet.apiserver.openapi.handler import OpenApi
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.apiserver.request import (
    ALL_AUTHENTICATED,
    MASTERS,
    ApiRequest,
    ApiResponse,
    SerializedEvent,
    UserInfo,
    Verb,
    WatchStream,
)
from pykubelet.apiserver.server import Server
from pykubelet.client.discovery import APPLIED_VERBS, Discovery
from pykubelet.client.interface import EVERYTHING, Listing, PatchType, Selection, WatchEvent
from pykubelet.client.request import read_list, read_object, read_schemas

log = get_logger(__name__)

T = TypeVar("T")
ADMIN = UserInfo("system:admin", (MASTERS, ALL_AUTHENTICATED))
FIELD_MANAGER = "pykubelet"


class LoopbackClient:
    """A client of a server in the same process."""

    def __init__(self, server: Server, registry: ServedKinds, *, user: UserInfo = ADMIN) -> None:
        self._server, self._registry, self._user = server, registry, user
        self._open_api = OpenApi(registry)

    async def get(self, kind: TypedKind[T], name: str, *, namespace: str = "", resource_version: str = "") -> T:
        query = _query(resourceVersion=resource_version)
        return read_object(kind, await self._ask("get", kind.resource, namespace, name, query=query))

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
        query = _query(
            labelSelector=selection.labels,
            fieldSelector=selection.fields,
            resourceVersion=resource_version,
            limit=str(limit) if limit else "",
            **{"continue": continue_token},
        )
        return read_list(kind, await self._ask("list", kind.resource, namespace, query=query))

    async def create(self, kind: TypedKind[T], body: T, *, namespace: str = "", name: str = "") -> T:
        return read_object(
            kind, await self._ask("create", kind.resource, namespace, name, body=serializer.encode(body))
        )

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
        answer = await self._ask(
            "patch",
            kind.resource,
            namespace,
            name,
            subresource=subresource,
            query=_query(fieldManager=FIELD_MANAGER if patch_type is PatchType.APPLY else ""),
            body=serializer.encode(body),
            content_type=patch_type.value,
        )
        return read_object(kind, answer)

    async def delete(
        self, kind: TypedKind[T], name: str, *, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        body = serializer.encode(options or DeleteOptions())
        await self._ask("delete", kind.resource, namespace, name, body=body)

    async def replace(
        self, resource: Resource, name: str, body: Document, *, namespace: str = "", subresource: str = ""
    ) -> Document:
        answer = await self._ask(
            "update", resource, namespace, name, subresource=subresource, body=serializer.encode(body)
        )
        return read_object(as_documents(resource), answer)

    async def discover(self, verbs: frozenset[str]) -> Discovery:
        rows = sorted(self._registry.all(), key=lambda row: version_rank(row.resource.version))
        return Discovery(tuple(row.resource for row in rows if verbs.issubset(row.verbs)))

    async def served(self) -> tuple[Resource, ...]:
        return (await self.discover(APPLIED_VERBS)).resources

    async def published_schemas(self, api_version: str) -> dict[str, Document]:
        found = await self._open_api.v3_of(f"{'apis' if '/' in api_version else 'api'}/{api_version}")
        if found is None:
            raise NotFound("the server could not find the requested resource", details={})
        return read_schemas(found.text)

    async def apply(self, resource: Resource, body: Document, *, namespace: str = "", field_manager: str) -> Document:
        answer = await self._ask(
            "patch",
            resource,
            namespace,
            str((body.get("metadata") or {}).get("name", "")),
            query=_query(fieldManager=field_manager, force="true", fieldValidation="Strict"),
            body=serializer.encode(body),
            content_type=PatchType.APPLY.value,
        )
        return read_object(as_documents(resource), answer)

    @asynccontextmanager
    async def watch(
        self,
        kind: TypedKind[T],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            labelSelector=selection.labels,
            fieldSelector=selection.fields,
            resourceVersion=resource_version,
            timeoutSeconds="" if timeout_seconds is None else str(max(1, int(timeout_seconds))),
        )
        stream = await self._server.handle(self._request("watch", kind.resource, namespace, query=query))
        assert isinstance(stream, WatchStream)
        async with aclosing(stream.batches), aclosing(_events(kind, stream.batches)) as events:
            yield events

    async def _ask(self, verb: Verb, resource: Resource, namespace: str, name: str = "", **rest: Any) -> bytes:
        answer = await self._server.handle(self._request(verb, resource, namespace, name, **rest))
        assert isinstance(answer, ApiResponse)
        if verb == "patch" and rest.get("content_type") == PatchType.APPLY.value:
            # What is applied comes from a user, who has no other way to see the warnings.
            for warning in answer.warnings:
                log.warning(
                    "the API server warns",
                    object="/".join(filter(None, (resource.kind, namespace, name))),
                    text=warning,
                )
        return answer.text

    def _request(self, verb: Verb, resource: Resource, namespace: str, name: str = "", **rest: Any) -> ApiRequest:
        served = self._registry.find(resource.group, resource.version, resource.plural)
        subresource = rest.get("subresource") or resource.subresource
        if served is None or (subresource and subresource not in served.subresources):
            raise NotFound("the server could not find the requested resource", details={})
        if resource.namespaced and not namespace and verb not in ("list", "watch"):
            raise BadRequest("an empty namespace may not be set during creation")
        rest["subresource"] = subresource
        return ApiRequest(
            user=self._user,
            verb=verb,
            served=served,
            namespace=namespace if resource.namespaced else "",
            name=name,
            user_agent=FIELD_MANAGER,
            **rest,
        )


def _query(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


async def _events(
    kind: TypedKind[T], batches: AsyncIterator[tuple[SerializedEvent, ...]]
) -> AsyncGenerator[WatchEvent[T], None]:
    """The objects of a watch as events; raises the error of an ERROR event."""
    async for batch in batches:
        for event in batch:
            if event.type == "ERROR":
                status = serializer.decode_document(event.object)
                raise from_status(status, status.get("code", InternalError.code))
            version = _version(event.object)
            if event.type == "BOOKMARK":
                yield WatchEvent("BOOKMARK", None, version)
            else:
                yield WatchEvent(event.type, read_object(kind, event.object), version)


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata


def _version(text: bytes) -> str:
    return serializer.decode(text, _Object).metadata.resource_version
