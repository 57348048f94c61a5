"""Serves custom resources: accepts names, registers kinds, finalizes CustomResourceDefinitions.

A kind is registered before any client can read that its definition is established, because the store announces each
change before it becomes visible. Everything else is done by one task, one definition at a time.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/status/naming_controller.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/controller/establish/establishing_controller.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/controller/finalizer/crd_finalizer.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_discovery_controller.go
"""

import asyncio
import re
from collections.abc import Callable
from functools import lru_cache

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.api.errors import ApiError
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document, decode_document, encode
from pykubelet.api.times import format_time
from pykubelet.apiserver.apiextensions.customresource import CustomKind, ScaleRules
from pykubelet.apiserver.apiextensions.customresource_strategy import custom_strategy
from pykubelet.apiserver.apiextensions.customresourcedefinition import CLEANUP, COLLECTION
from pykubelet.apiserver.apiextensions.schema.structural import Structural, compile_schema
from pykubelet.apiserver.apiextensions.status import CrdCondition, is_true, with_accepted_names, with_condition
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.apiserver.storage.durable_store import DurableStore
from pykubelet.apiserver.storage.interfaces import StoreChange, StoreEntry, StoreKey
from pykubelet.apiserver.tables.custom_columns import custom_columns
from pykubelet.kinds.kind import Kind, ScalePaths, StoredForm

log = get_logger(__name__)

# Objects with finalizers wait for their controllers; upstream checks every five seconds.
_FINALIZE_INTERVAL_SECONDS = 0.5
_RETRY_SECONDS = 1.0


class CustomResources:
    """Serves the kinds of established definitions; those that exist are served from construction on."""

    def __init__(self, *, store: DurableStore, registry: ServedKinds, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._served: dict[str, set[tuple[str, str, str]]] = {}
        self._queue: KeyedQueue[str, None] = KeyedQueue()
        store.listen(COLLECTION, self._on_change)
        for entry in store.list(COLLECTION).entries:
            self._serve(entry.key.name, entry.document)
            self._queue.put(entry.key.name, None)

    async def run(self, ready: asyncio.Event) -> None:
        """Processes definitions until cancelled."""
        ready.set()
        while True:
            name, _ = await self._queue.get()
            try:
                await self._sync(name)
            except ApiError as error:
                log.warning("CustomResourceDefinition not synced", definition=name, error=error.message)
                self._queue.put_later(name, None, _RETRY_SECONDS)
            finally:
                self._queue.done(name)

    def _on_change(self, change: StoreChange) -> None:
        """Serves the changed definition from now on and queues it."""
        name = change.key.name
        self._serve(name, None if change.after is None else change.document)
        self._queue.put(name, None)

    def _serve(self, name: str, definition: Document | None) -> None:
        rows = () if definition is None else served_rows(definition)
        before = self._served.pop(name, set())
        now: set[tuple[str, str, str]] = set()
        for row in rows:
            place = (row.resource.group, row.resource.version, row.resource.plural)
            existing = self._registry.find(*place)
            if existing is not None and existing.definition:
                # Built-in kinds are never replaced.
                continue
            now.add(place)
            self._registry.add(row)
        for place in before - now:
            self._registry.remove(*place)
        if now:
            self._served[name] = now

    async def _sync(self, name: str) -> None:
        key = StoreKey(COLLECTION, "", name)
        entry = self._store.get(key)
        if entry is None:
            # Its names are available again.
            self._requeue_unaccepted()
            return
        definition = entry.document
        if _is_terminating(definition):
            await self._finalize(key, definition)
            return
        if self._with_names(definition) != definition:
            await self._update(key, lambda newest, _: self._with_names(newest))
            self._requeue_unaccepted()

    async def _update(self, key: StoreKey, change: Callable[[Document, str], Document | None]) -> None:
        """Changes a stored object, if it still exists; `change` takes the object and the time."""

        def changed(entry: StoreEntry | None) -> Document | None:
            return None if entry is None else change(entry.document, format_time(self._clock.now()))

        await self._store.write(key, changed)

    def _with_names(self, definition: Document) -> Document:
        others = [entry.document for entry in self._store.list(COLLECTION).entries]
        return with_accepted_names(definition, others, format_time(self._clock.now()))

    def _requeue_unaccepted(self) -> None:
        for entry in self._store.list(COLLECTION).entries:
            if not is_true(entry.document, "NamesAccepted"):
                self._queue.put(entry.key.name, None)

    async def _finalize(self, key: StoreKey, definition: Document) -> None:
        if is_true(definition, "Established"):
            await self._update(key, lambda newest, now: with_condition(newest, _IN_PROGRESS, now))
            if await self._objects_remain(definition):
                self._queue.put_later(key.name, None, _FINALIZE_INTERVAL_SECONDS)
                return
        await self._update(key, _without_cleanup)

    async def _objects_remain(self, definition: Document) -> bool:
        """Deletes the objects of a definition; returns whether objects with finalizers remain."""
        spec = definition["spec"]
        collection = f"{spec['names']['plural']}.{spec['group']}"
        keys = [entry.key for entry in self._store.list(collection).entries]
        # Concurrently, so that one commit covers all.
        answers = await asyncio.gather(*(self._update(key, _deleted_object) for key in keys), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return bool(self._store.list(collection).entries)


VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")


def served_rows(definition: Document) -> tuple[Kind, ...]:
    """Returns a row for each served version; none before the definition is established."""
    names = (definition.get("status") or {}).get("acceptedNames") or {}
    if not is_true(definition, "Established") or not names.get("plural") or not names.get("kind"):
        return ()
    return tuple(_row(definition, version) for version in definition["spec"]["versions"] if version.get("served"))


def _row(definition: Document, version: Document) -> Kind:
    spec = definition["spec"]
    names = definition["status"]["acceptedNames"]
    group = spec["group"]
    resource = Resource(
        group, version["name"], names["plural"], names["kind"], namespaced=spec.get("scope") == "Namespaced"
    )
    structural = version.get("schema", {}).get("openAPIV3Schema")
    subresources = version.get("subresources", {})
    rules = _scale_rules(subresources.get("scale"))
    kind = CustomKind(
        api_version=resource.api_version,
        stored_api_version=f"{group}/{_stored(spec)}",
        schema=_schema(encode(structural)),
        scale=rules,
    )
    columns = custom_columns(version.get("additionalPrinterColumns", ()))
    # Stored objects are served unchanged if there is only one version, and it never changed.
    passes_through = len(spec["versions"]) == 1 and definition["metadata"].get("generation", 1) == 1
    return Kind(
        resource=resource,
        singular=names.get("singular", ""),
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        verbs=VERBS,
        subresources=tuple(name for name in ("status", "scale") if subresources.get(name) is not None),
        structural=structural,
        list_kind=names.get("listKind") or f"{names['kind']}List",
        columns=columns.headers,
        cells=columns.cells,
        stored=None if passes_through else StoredForm(to_served=kind.from_store, to_stored=kind.to_store),
        strategy=custom_strategy(
            kind,
            resource,
            has_status=subresources.get("status") is not None,
            selectable=[each.get("jsonPath", "") for each in version.get("selectableFields", ())],
            is_terminating=is_true(definition, "Terminating"),
        ),
        deprecation_warnings=_deprecation(spec, version),
        scale=_scale_paths(rules),
    )


@lru_cache(maxsize=256)
def _schema(text: bytes) -> Structural:
    """Compiles a schema once per text: a definition's status changes more often than its schema."""
    return compile_schema(decode_document(text))


def _stored(spec: Document) -> str:
    name: str = next(version["name"] for version in spec["versions"] if version.get("storage"))
    return name


def _scale_rules(stated: Document | None) -> ScaleRules | None:
    if stated is None:
        return None
    return ScaleRules(stated["specReplicasPath"], stated["statusReplicasPath"], stated.get("labelSelectorPath", ""))


def _scale_paths(rules: ScaleRules | None) -> ScalePaths:
    paths = () if rules is None else (rules.spec_replicas, rules.status_replicas, rules.selector)
    return ScalePaths(*(path.removeprefix(".") for path in paths))


def _deprecation(spec: Document, version: Document) -> tuple[str, ...]:
    if not version.get("deprecated"):
        return ()
    if warning := version.get("deprecationWarning"):
        return (warning,)
    group, kind = spec["group"], spec["names"]["kind"]
    text = f"{group}/{version['name']} {kind} is deprecated"
    newer = [
        each["name"]
        for each in spec["versions"]
        if each.get("served") and not each.get("deprecated") and _order(each["name"]) > _order(version["name"])
    ]
    return (f"{text}; use {group}/{max(newer, key=_order)} {kind}" if newer else text,)


def _order(version: str) -> tuple[int, int, int, str]:
    """Sort key of Kubernetes' version order: v2, v1, v1beta1, then all others."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (0, 0, 0, "".join(chr(0x10FFFF - ord(char)) for char in version))
    level = {"alpha": 1, "beta": 2}.get(match[2] or "", 3)
    return (level, int(match[1]), int(match[3] or 0), "")


_IN_PROGRESS = CrdCondition(
    "Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"
)
_COMPLETED = CrdCondition("Terminating", "False", "InstanceDeletionCompleted", "removed all instances")


def _is_terminating(definition: Document) -> bool:
    """Whether the definition is being deleted and still has the cleanup finalizer."""
    metadata = definition["metadata"]
    return bool(metadata.get("deletionTimestamp")) and CLEANUP in metadata.get("finalizers", ())


def _without_cleanup(definition: Document, now: str) -> Document | None:
    """Removes the cleanup finalizer once all objects are gone; None if the definition itself can be removed."""
    metadata = definition["metadata"]
    rest = [name for name in metadata.get("finalizers", ()) if name != CLEANUP]
    if not rest:
        return None
    return with_condition({**definition, "metadata": {**metadata, "finalizers": rest}}, _COMPLETED, now)


def _deleted_object(document: Document, now: str) -> Document | None:
    """Deletes an object of a deleted definition: None if it has no finalizers, otherwise marked for deletion."""
    metadata = document["metadata"]
    if not metadata.get("finalizers"):
        return None
    if metadata.get("deletionTimestamp"):
        return document
    marked = {**metadata, "deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
    return {**document, "metadata": marked}
