"""Namespaces: creates the system namespaces, and empties and removes terminating ones.

The store reports each change, so waiting for finalizers costs nothing: the content of a terminating namespace is a
set of keys, and each removal takes one out. Conditions are updated at most once a second.

Upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go,
pkg/controlplane/controller/systemnamespaces/system_namespaces_controller.go,
pkg/registry/scheduling/rest/storage_scheduling.go
"""

from collections.abc import Awaitable, Callable

from pykubelet.aio.clock import Clock
from pykubelet.aio.queues import KeyedQueue
from pykubelet.api.errors import AlreadyExists, ApiError, NotFound
from pykubelet.api.schema import NAMESPACES as NAMESPACES_RESOURCE
from pykubelet.api.schema import PODS
from pykubelet.api.serializer import Document, encode
from pykubelet.api.times import format_time
from pykubelet.apiserver.handlers.delete import DeleteOptions
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.apiserver.request import ALL_AUTHENTICATED, MASTERS, ApiRequest, ApiResponse, UserInfo, WatchStream
from pykubelet.apiserver.server import Server
from pykubelet.apiserver.storage.codec import in_order
from pykubelet.apiserver.storage.interfaces import Store, StoreChange, StoreEntry, StoreKey
from pykubelet.kinds.namespace import RemainingContent, is_held, is_terminating, with_remaining, without_finalizer

CONTROLLER = UserInfo("system:serviceaccount:kube-system:namespace-controller", (MASTERS, ALL_AUTHENTICATED))
_CONDITIONS_SECONDS = 1.0
_RETRY_SECONDS = 5.0
_BACKGROUND = DeleteOptions(policy="Background")
APISERVER = UserInfo("system:apiserver", (MASTERS, ALL_AUTHENTICATED))
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_CRITICAL = 2_000_000_000
_PRIORITY_CLASSES: dict[str, Document] = {
    "system-node-critical": {
        "value": _CRITICAL + 1000,
        "description": "Used for system critical pods that must not be moved from their current node.",
    },
    "system-cluster-critical": {
        "value": _CRITICAL,
        "description": "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    },
}


async def ensure_first_objects(
    handle: Callable[[ApiRequest], Awaitable[ApiResponse | WatchStream]],
    registry: ServedKinds,
    *,
    with_account: bool = False,
) -> None:
    """Creates the system namespaces and priority classes that do not exist.

    `with_account` also creates the service account of pods in the namespace `default`, which a controller creates
    elsewhere, so that a pod can be created as soon as the server is ready.
    """
    wanted: list[tuple[str, str, str, str, Document]] = [("", "v1", "namespaces", name, {}) for name in NAMESPACES]
    wanted += [("scheduling.k8s.io", "v1", "priorityclasses", name, rest) for name, rest in _PRIORITY_CLASSES.items()]
    wanted += [("", "v1", "serviceaccounts", "default", {})] if with_account else []
    for group, version, plural, name, rest in wanted:
        served = registry.find(group, version, plural)
        if served is None:
            continue
        resource = served.resource
        document = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {"name": name}, **rest}
        request = ApiRequest(
            user=APISERVER,
            verb="create",
            served=served,
            namespace="default" if resource.namespaced else "",
            body=encode(document),
            user_agent="kube-apiserver",
        )
        try:
            await handle(request)
        except AlreadyExists:
            continue


class NamespaceTerminator:
    """Deletes the content of terminating namespaces, then finalizes them.

    Every API server of ours runs it; `controllers/namespace/` does the same work for other API servers.
    """

    def __init__(self, *, store: Store, registry: ServedKinds, deleter: Server, clock: Clock) -> None:
        self._store, self._registry, self._deleter, self._clock = store, registry, deleter, clock
        self._remaining: dict[str, set[StoreKey]] = {}
        self._listened: set[str] = set()
        self._queue: KeyedQueue[str, None] = KeyedQueue()

    async def run(self) -> None:
        """Handles terminating namespaces until cancelled."""
        self._listen(NAMESPACES_RESOURCE.group_resource)
        for entry in self._store.list(NAMESPACES_RESOURCE.group_resource).entries:
            self._queue.put(entry.key.name, None)
        while True:
            name, _ = await self._queue.get()
            try:
                await self._advance(name)
            finally:
                self._queue.done(name)

    def _listen(self, collection: str) -> None:
        if collection not in self._listened:
            self._listened.add(collection)
            self._store.listen(collection, self._on_change)

    def _on_change(self, change: StoreChange) -> None:
        key = change.key
        if key.collection == NAMESPACES_RESOURCE.group_resource:
            if key.name not in self._remaining and change.after is not None and is_terminating(change.document):
                self._queue.put(key.name, None)
            elif change.after is None:
                self._remaining.pop(key.name, None)
        elif (remaining := self._remaining.get(key.namespace)) is not None:
            if change.after is not None:
                if change.before is None:
                    remaining.add(key)
                return
            remaining.discard(key)
            if remaining:
                self._queue.put_later(key.namespace, None, _CONDITIONS_SECONDS)
            else:
                self._queue.put(key.namespace, None)

    async def _advance(self, name: str) -> None:
        """Takes a namespace's deletion as far as possible now."""
        entry = self._store.newest(StoreKey(NAMESPACES_RESOURCE.group_resource, "", name))
        if entry is None or not is_terminating(entry.document):
            self._remaining.pop(name, None)
            return
        failures = await self._delete_content(name)
        known = self._remaining.get(name, set())
        remaining = {key: finalizers for key in known if (finalizers := self._finalizers(key)) is not None}
        known.intersection_update(remaining)
        now = format_time(self._clock.now())

        def decide(existing: StoreEntry | None) -> Document | None:
            if existing is None:
                return None
            namespace = existing.document
            if not is_terminating(namespace):
                return namespace
            # Checked again, so that no object stays behind in a removed namespace.
            if not remaining and not self._store.newest_in(name):
                emptied = without_finalizer(namespace)
                return in_order(emptied) if is_held(emptied) else None
            left = [RemainingContent(key.collection, finalizers) for key, finalizers in remaining.items()]
            return in_order(with_remaining(namespace, left, failures, now))

        await self._store.write(StoreKey(NAMESPACES_RESOURCE.group_resource, "", name), decide)
        if failures or (not remaining and self._store.newest_in(name)):
            self._queue.put_later(name, None, _RETRY_SECONDS)

    async def _delete_content(self, name: str) -> list[str]:
        """Deletes everything in a namespace that is not being deleted yet, pods first; returns the errors."""
        keys = self._store.newest_in(name)
        # Pods use other objects until they have stopped.
        keys = tuple(key for key in keys if key.collection == PODS.group_resource) or keys
        for collection in {key.collection for key in keys}:
            self._listen(collection)
        known = self._remaining.setdefault(name, set())
        known.update(keys)
        failures: list[str] = []
        for key in keys:
            entry = self._store.newest(key)
            if entry is None:
                known.discard(key)
            elif b'"deletionTimestamp":' not in entry.text or "deletionTimestamp" not in entry.document["metadata"]:
                try:
                    await self._delete(key)
                except NotFound:
                    known.discard(key)
                except ApiError as error:
                    failures.append(error.message)
        return failures

    async def _delete(self, key: StoreKey) -> None:
        served = self._registry.of_collection(key.collection)
        if served is None:
            # Its kind is no longer served, so no controller can finalize it.
            await self._store.write(key, lambda _: None)
            return
        request = ApiRequest(user=CONTROLLER, verb="delete", served=served, namespace=key.namespace, name=key.name)
        await self._deleter.delete(request, _BACKGROUND)

    def _finalizers(self, key: StoreKey) -> list[str] | None:
        entry = self._store.newest(key)
        return None if entry is None else entry.document["metadata"].get("finalizers", [])
