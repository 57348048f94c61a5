"""A Kubernetes API in memory: the client Protocols on plain dicts, for tests.

It keeps what clients rely on: one revision counter, UIDs, generateName, optimistic locks, UID preconditions, status
apart from the rest, graceful deletion of pods, finalizers, selectors, and watches that resume, bookmark and expire.
It does not validate, default or authorise anything. `calls` records every request in order.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pykubelet.aio.clock import Clock
from pykubelet.api import serializer
from pykubelet.api.errors import AlreadyExists, Conflict, Expired, Invalid, NotFound
from pykubelet.api.fields import parse_field_selector
from pykubelet.api.generated.meta import DeleteOptions
from pykubelet.api.labels import parse_selector
from pykubelet.api.patch.json_merge_patch import apply_merge
from pykubelet.api.patch.json_patch import apply_json
from pykubelet.api.patch.strategic_apply import apply_strategic
from pykubelet.api.pods import TERMINAL_PHASES
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import TypedKind
from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time, seconds_after
from pykubelet.client.interface import EVERYTHING, Listing, PatchType, Selection, WatchEvent

T = TypeVar("T")
Collection = dict[tuple[str, str], Document]


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it reached the API."""

    verb: str
    resource: str
    namespace: str
    name: str
    subresource: str = ""
    body: Any = None
    resource_version: str = ""
    fields: str = ""


@dataclass(frozen=True, slots=True)
class _Change:
    """One committed change; the object before and after it."""

    revision: int
    resource: str
    before: Document | None
    after: Document | None


class MemoryApi:
    """An API server in memory; implements `Client` and `Replacer` of `pykubelet.client.interface`."""

    def __init__(self, clock: Clock) -> None:
        self.calls: list[Call] = []
        self._clock = clock
        self._collections: dict[str, Collection] = {}
        self._history: list[_Change] = []
        self._compacted = 0
        self._revision = 1  # revision 0 means "any" to Kubernetes
        self._streams: set[asyncio.Queue[_Change | int]] = set()
        self._numbers = itertools.count(1)

    # Reader

    async def get(self, kind: TypedKind[T], name: str, *, namespace: str = "", resource_version: str = "") -> T:
        self._record("get", kind.resource, namespace, name, resource_version=resource_version)
        return _typed(kind, self._existing(kind.resource, namespace, name))

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
        fields = selection.fields
        self._record("list", kind.resource, namespace, resource_version=resource_version, fields=fields)
        selected = _Selected(namespace, selection)
        found = [doc for _, doc in sorted(self._collection(kind.resource).items()) if selected.matches(doc)]
        start = int(continue_token or 0)
        end = start + limit if limit else len(found)
        items = tuple(_typed(kind, doc) for doc in found[start:end])
        return Listing(items, str(self._revision), str(end) if end < len(found) else "")

    # Writer

    async def create(self, kind: TypedKind[T], body: T, *, namespace: str = "", name: str = "") -> T:
        document = body if isinstance(body, dict) else serializer.to_document(body)
        metadata = dict(document.get("metadata", {}))
        self._record("create", kind.resource, namespace, name or metadata.get("name", ""), body=document)
        number = next(self._numbers)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{number:05x}"
        if kind.resource.namespaced:
            metadata["namespace"] = namespace
        key = (metadata.get("namespace", ""), metadata["name"])
        if key in self._collection(kind.resource):
            message = f'{kind.resource.group_resource} "{key[1]}" already exists'
            raise AlreadyExists(message, details={"name": key[1], "kind": kind.resource.plural})
        metadata |= {
            "uid": f"00000000-0000-4000-8000-{number:012x}",
            "creationTimestamp": format_time(self._clock.now()),
            "generation": 1,
        }
        stored = {
            **document,
            "apiVersion": kind.resource.api_version,
            "kind": kind.resource.kind,
            "metadata": metadata,
        }
        return _typed(kind, self._commit(kind.resource, None, stored))

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
        self._record("patch", kind.resource, namespace, name, subresource=subresource, body=body)
        old = self._existing(kind.resource, namespace, name)
        patched = _patched(kind.resource, old, body, patch_type)
        _check_identity(kind.resource, old, patched)
        return _typed(kind, self._changed(kind.resource, old, _only_part(old, patched, subresource)))

    async def replace(
        self, resource: Resource, name: str, body: Document, *, namespace: str = "", subresource: str = ""
    ) -> Document:
        self._record("replace", resource, namespace, name, subresource=subresource, body=body)
        old = self._existing(resource, namespace, name)
        _check_identity(resource, old, body)
        return self._changed(resource, old, _only_part(old, body, subresource))

    async def delete(
        self, kind: TypedKind[T], name: str, *, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        options = options or DeleteOptions()
        self._record("delete", kind.resource, namespace, name, body=serializer.to_document(options))
        old = self._existing(kind.resource, namespace, name)
        if (wanted := options.preconditions) and wanted.uid not in (None, old["metadata"]["uid"]):
            raise Conflict(
                f'Operation cannot be fulfilled on {kind.resource.group_resource} "{name}": the UID in the '
                f"precondition ({wanted.uid}) does not match the UID in record ({old['metadata']['uid']})."
            )
        grace = _grace_seconds(old, options.grace_period_seconds)
        if not grace and not old["metadata"].get("finalizers"):
            self._commit(kind.resource, old, None)
        elif "deletionTimestamp" not in old["metadata"] or grace < old["metadata"]["deletionGracePeriodSeconds"]:
            at = format_time(seconds_after(self._clock.now(), grace))
            metadata = {**old["metadata"], "deletionTimestamp": at, "deletionGracePeriodSeconds": grace}
            self._commit(kind.resource, old, {**old, "metadata": metadata})

    # Watcher

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
        fields = selection.fields
        self._record("watch", kind.resource, namespace, resource_version=resource_version, fields=fields)
        selected = _Selected(namespace, selection)
        queue: asyncio.Queue[_Change | int] = asyncio.Queue()
        for change in self._since(kind.resource, resource_version):
            queue.put_nowait(change)
        self._streams.add(queue)
        try:
            async with aclosing(_events(kind, selected, queue, timeout_seconds)) as events:
                yield events
        finally:
            self._streams.discard(queue)

    # For tests: changes that no client made

    def compact(self) -> None:
        """Forget all history: a watch from before now is Expired."""
        self._history.clear()
        self._compacted = self._revision

    def bookmark(self) -> None:
        """Send a bookmark with the current revision to every open watch."""
        for stream in self._streams:
            stream.put_nowait(self._revision)

    def documents(self, resource: Resource) -> tuple[Document, ...]:
        """All stored objects of a resource, by namespace and name."""
        return tuple(doc for _, doc in sorted(self._collection(resource).items()))

    def put(self, resource: Resource, document: Document) -> Document:
        """Store a document unchanged except for its resourceVersion, as if another client had written it."""
        metadata = document["metadata"]
        old = self._collection(resource).get((metadata.get("namespace", ""), metadata["name"]))
        return self._commit(resource, old, document)

    def remove(self, resource: Resource, *, namespace: str = "", name: str) -> None:
        """Remove an object at once, regardless of grace period and finalizers."""
        self._commit(resource, self._existing(resource, namespace, name), None)

    @property
    def open_watches(self) -> int:
        return len(self._streams)

    def _record(self, verb: str, resource: Resource, namespace: str, name: str = "", **fields: Any) -> None:
        self.calls.append(Call(verb, resource.plural, namespace, name, **fields))

    def _collection(self, resource: Resource) -> Collection:
        return self._collections.setdefault(resource.group_resource, {})

    def _existing(self, resource: Resource, namespace: str, name: str) -> Document:
        found = self._collection(resource).get((namespace if resource.namespaced else "", name))
        if found is None:
            details = {"name": name, "kind": resource.plural, "group": resource.group}
            raise NotFound(f'{resource.group_resource} "{name}" not found', details=details)
        return found

    def _changed(self, resource: Resource, old: Document, new: Document) -> Document:
        if new == old:
            return old
        metadata = new.get("metadata", {})
        waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and not waits:
            self._commit(resource, old, None)
            return new
        return self._commit(resource, old, new)

    def _commit(self, resource: Resource, before: Document | None, after: Document | None) -> Document:
        self._revision += 1
        some = after if after is not None else before
        assert some is not None
        stamped = {**some, "metadata": {**some["metadata"], "resourceVersion": str(self._revision)}}
        key = (stamped["metadata"].get("namespace", ""), stamped["metadata"]["name"])
        if after is None:
            del self._collection(resource)[key]
            change = _Change(self._revision, resource.group_resource, stamped, None)
        else:
            self._collection(resource)[key] = stamped
            change = _Change(self._revision, resource.group_resource, before, stamped)
        self._history.append(change)
        for stream in self._streams:
            stream.put_nowait(change)
        return stamped

    def _since(self, resource: Resource, resource_version: str) -> Iterator[_Change]:
        if resource_version in ("", "0"):
            for _, doc in sorted(self._collection(resource).items()):
                yield _Change(int(doc["metadata"]["resourceVersion"]), resource.group_resource, None, doc)
            return
        if int(resource_version) < self._compacted:
            raise Expired(f"too old resource version: {resource_version} ({self._compacted})")
        yield from (change for change in self._history if change.revision > int(resource_version))


class _Selected:
    """Matches the documents that a request selects."""

    def __init__(self, namespace: str, selection: Selection) -> None:
        self._namespace = namespace
        self._labels = parse_selector(selection.labels)
        self._fields = parse_field_selector(selection.fields)

    def matches(self, document: Document | None) -> bool:
        if document is None:
            return False
        metadata = document["metadata"]
        if self._namespace and metadata.get("namespace") != self._namespace:
            return False
        return self._labels.matches(metadata.get("labels", {})) and self._fields.matches(_Fields(document))


class _Fields(dict[str, str]):
    """Any scalar field of a document by its dotted path; absent ones are empty."""

    def __init__(self, document: Document) -> None:
        super().__init__()
        self._document = document

    def get(self, path: str, default: Any = "") -> str:
        value: Any = self._document
        for part in path.split("."):
            value = value.get(part, {}) if isinstance(value, dict) else {}
        return str(value) if value else str(default or "")


async def _events(
    kind: TypedKind[T], selected: _Selected, queue: asyncio.Queue[_Change | int], timeout_seconds: float | None
) -> AsyncGenerator[WatchEvent[T], None]:
    """The events of a watch until its timeout; an object that leaves the selection is DELETED."""
    loop = asyncio.get_running_loop()
    ends_at = None if timeout_seconds is None else loop.time() + timeout_seconds
    while True:
        try:
            # The deadline is on this wait alone: it must not cancel what the reader does with an event.
            async with asyncio.timeout_at(ends_at):
                change = await queue.get()
        except TimeoutError:
            return
        if isinstance(change, int):
            yield WatchEvent("BOOKMARK", None, str(change))
            continue
        was, now = selected.matches(change.before), selected.matches(change.after)
        document = change.after if change.after is not None else change.before
        if change.resource != kind.resource.group_resource or document is None or not (was or now):
            continue
        metadata = {**document["metadata"], "resourceVersion": str(change.revision)}
        obj = _typed(kind, {**document, "metadata": metadata})
        yield WatchEvent("MODIFIED" if was and now else "ADDED" if now else "DELETED", obj, str(change.revision))


def _typed(kind: TypedKind[T], document: Document) -> T:
    return serializer.from_document(document, kind.type)


def _patched(resource: Resource, old: Document, body: Any, patch_type: PatchType) -> Document:
    match patch_type:
        case PatchType.JSON:
            patched: Document = apply_json(old, body)
        case PatchType.MERGE:
            patched = apply_merge(old, body)
        case PatchType.STRATEGIC:
            group = resource.group.partition(".")[0] or "core"
            patched = apply_strategic(old, body, f"{group}.{resource.version}.{resource.kind}")
        case PatchType.APPLY:
            raise NotImplementedError("server-side apply needs a real API server")
    return patched


def _check_identity(resource: Resource, old: Document, new: Document) -> None:
    ours, theirs = old["metadata"], new.get("metadata", {})
    if theirs.get("uid") != ours["uid"]:
        message = f'Invalid value: "{theirs.get("uid")}": field is immutable'
        cause = {"reason": "FieldValueInvalid", "message": message, "field": "metadata.uid"}
        text = f'{resource.kind} "{ours["name"]}" is invalid: metadata.uid: {message}'
        raise Invalid(text, details={"name": ours["name"], "kind": resource.kind, "causes": [cause]})
    if theirs.get("resourceVersion") not in (None, ours["resourceVersion"]):
        raise Conflict(
            f'Operation cannot be fulfilled on {resource.group_resource} "{ours["name"]}": the object has been '
            "modified; please apply your changes to the latest version and try again"
        )


def _only_part(old: Document, patched: Document, subresource: str) -> Document:
    """The object after a write, which changes only the status through `status`, and all but the status otherwise."""
    part = old if subresource == "status" else patched
    status = patched if subresource == "status" else old
    new = {key: value for key, value in part.items() if key != "status"}
    if "status" in status:
        new["status"] = status["status"]
    if subresource != "status" and new.get("spec") != old.get("spec"):
        new["metadata"] = {**new["metadata"], "generation": old["metadata"].get("generation", 0) + 1}
    return new


def _grace_seconds(document: Document, asked: int | None) -> int:
    if document["kind"] != "Pod":
        return 0
    if not document.get("spec", {}).get("nodeName") or document.get("status", {}).get("phase") in TERMINAL_PHASES:
        return 0
    own = document["spec"].get("terminationGracePeriodSeconds")
    return asked if asked is not None else 30 if own is None else int(own)
