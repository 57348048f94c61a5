"""Objects of any kind: lists of kinds and objects, and each object as YAML without secret values."""

import asyncio
from typing import Any

from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import as_documents
from pykubelet.api.serializer import Document, encode
from pykubelet.api.yaml.write import to_yaml
from pykubelet.httpserver.response import JSON, HttpResponse
from pykubelet.web.node_view import PageClient
from pykubelet.web.routes import PagePart, PageRoute, text

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_ORDER = ("apiVersion", "kind", "metadata", "spec", "data", "status")
PAGE_SIZE = 500
# The objects of a list are large until they are reduced here.
_AT_ONCE = 4


def shown_yaml(document: Document) -> str:
    """The YAML of an object, in the usual order of fields."""
    shown = without_secrets(document)
    known = {name: shown[name] for name in _ORDER if name in shown}
    return to_yaml(known | {name: value for name, value in shown.items() if name not in known})


def without_secrets(document: Document) -> Document:
    """The document without secret values and managed fields."""
    shown = dict(document)
    metadata = shown.get("metadata")
    if isinstance(metadata, dict):
        shown["metadata"] = _metadata(metadata, is_secret=_is_secret(document))
    if _is_secret(document):
        for name in ("data", "stringData"):
            if isinstance(shown.get(name), dict):
                shown[name] = {key: hidden(value) for key, value in shown[name].items()}
    return shown


def hidden(value: Any) -> str:
    """The placeholder of a secret value; it shows that there is one, and its length."""
    return f"(hidden, {len(str(value))} characters)"


def _is_secret(document: Document) -> bool:
    return document.get("kind") == "Secret"


def _metadata(metadata: Document, *, is_secret: bool) -> Document:
    kept = {name: value for name, value in metadata.items() if name != "managedFields"}
    annotations = kept.get("annotations")
    if is_secret and isinstance(annotations, dict):
        kept["annotations"] = {name: value for name, value in annotations.items() if name != _LAST_APPLIED}
    return kept


class ObjectPages:
    """Answers requests about objects; 404 without an API server."""

    def __init__(self, objects: PageClient | None) -> None:
        self._objects, self._turn = objects, asyncio.Semaphore(_AT_ONCE)

    async def answer(self, asked: PageRoute) -> HttpResponse:
        """The kinds, the objects of a kind, or one object, as the route says."""
        if self._objects is None:
            return text(404, "this node runs without an API server")
        try:
            if asked.part is PagePart.KINDS:
                return _json([_kind(resource) for resource in await self._objects.served()])
            resource = await self._resource(self._objects, asked)
            if asked.part is PagePart.OBJECTS:
                return await self._page(self._objects, resource, asked.value("continue"))
            namespace = asked.value("namespace") if resource.namespaced else ""
            document = await self._objects.get(as_documents(resource), asked.value("name"), namespace=namespace)
        except ApiError as error:
            # The code is 0 if there was no response at all.
            return text(error.code or 502, error.message)
        named = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        return HttpResponse(200, shown_yaml(named).encode())

    async def _page(self, objects: PageClient, resource: Resource, continue_token: str) -> HttpResponse:
        """One page of the objects of a kind: their names and creation times."""
        async with self._turn:
            listing = await objects.list(as_documents(resource), limit=PAGE_SIZE, continue_token=continue_token)
        return _json({"rows": [_row(document) for document in listing.items], "continue": listing.continue_token})

    @staticmethod
    async def _resource(objects: PageClient, asked: PageRoute) -> Resource:
        """The requested resource; only names that the server itself serves become part of a path."""
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


def _json(value: Any) -> HttpResponse:
    return HttpResponse(200, encode(value), JSON)
