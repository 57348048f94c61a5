"""Objects of any kind, for who looks around: which kinds there are, which objects, and each as YAML.

In: what the API server has, as far as the program may read it. Out: replies.
"""

import asyncio

from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.resources import Resource
from pykubelet.api.typed import as_documents
from pykubelet.api.wire import Document, encode
from pykubelet.web.collaborators import Objects
from pykubelet.web.replies import JSON, Reply, text
from pykubelet.web.routes import Route
from pykubelet.web.shown_object import shown_yaml

PAGE_SIZE = 500
# A list of large objects is made small here; meanwhile it takes room.
_AT_ONCE = 4


class ObjectPages:
    """Answers what is asked about objects; without an API server, nothing."""

    def __init__(self, objects: Objects | None) -> None:
        self._objects, self._turn = objects, asyncio.Semaphore(_AT_ONCE)

    async def kinds(self) -> Reply:
        """Every kind that can be listed."""
        if self._objects is None:
            return _no_server()
        try:
            served = await self._objects.served()
        except ApiError as error:
            return _refused(error)
        return Reply(200, encode([_kind(resource) for resource in served]), JSON)

    async def objects(self, asked: Route) -> Reply:
        """A page of the objects of one kind: their names and when they were made."""
        if self._objects is None:
            return _no_server()
        try:
            async with self._turn:
                kind = as_documents(await self._resource(self._objects, asked))
                listing = await self._objects.list(kind, limit=PAGE_SIZE, continue_token=asked.value("continue"))
        except ApiError as error:
            return _refused(error)
        rows = [_row(document) for document in listing.items]
        return Reply(200, encode({"rows": rows, "continue": listing.continue_token}), JSON)

    async def object(self, asked: Route) -> Reply:
        """One object as YAML."""
        if self._objects is None:
            return _no_server()
        try:
            resource = await self._resource(self._objects, asked)
            namespace = asked.value("namespace") if resource.namespaced else ""
            document = await self._objects.get(as_documents(resource), asked.value("name"), namespace=namespace)
        except ApiError as error:
            return _refused(error)
        return Reply(200, shown_yaml({"apiVersion": resource.api_version, "kind": resource.kind, **document}).encode())

    @staticmethod
    async def _resource(objects: Objects, asked: Route) -> Resource:
        """The resource that is meant: only what the server names itself becomes part of a path."""
        wanted = (asked.value("group"), asked.value("version"), asked.value("plural"))
        for resource in await objects.served():
            if (resource.group, resource.version, resource.plural) == wanted:
                return resource
        raise NotFound("the API server has no such kind")


def _kind(resource: Resource) -> Document:
    return {
        "group": resource.group,
        "version": resource.version,
        "plural": resource.plural,
        "kind": resource.kind,
        "namespaced": resource.namespaced,
    }


def _row(document: Document) -> Document:
    metadata = document.get("metadata") or {}
    namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
    since = metadata.get("creationTimestamp")
    return {"key": f"{namespace}/{name}", "namespace": namespace, "name": name, "since": since}


def _no_server() -> Reply:
    return text(404, "this node runs without an API server")


def _refused(error: ApiError) -> Reply:
    # Zero is what no answer at all has for a code.
    return text(error.code or 502, error.message)
