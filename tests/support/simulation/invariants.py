"""What must hold at the server at all times: no answered write is lost, and lists and watches are complete.

The truth is what the store reports as committed. It is compared with every answer to a write, every list, every watch
event before faults touch it, and with what a server finds on disk when it starts again.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document, decode_document
from pykubelet.apiserver.storage.durable_store import DurableStore
from pykubelet.apiserver.storage.interfaces import StoreChange, StoreKey
from pykubelet.client.interface import Listing, WatchEvent
from simulation.trace import Trace

Rule = Callable[[StoreKey, Document | None, Document | None], None]
"""Checks one committed change: the object before and after it."""
QUIET = frozenset({"leases.coordination.k8s.io"})
"""Collections whose changes are not worth a line."""


class Truth:
    """Every committed change, in order, and the state that results."""

    def __init__(self) -> None:
        self.state: dict[StoreKey, tuple[int, Document]] = {}
        self.history: dict[str, list[tuple[int, StoreKey, str]]] = {}
        """The changes of a collection: revision, key and type of the event."""
        self.revision = 0

    def take(self, revision: int, key: StoreKey, text: bytes | None) -> tuple[Document | None, Document | None]:
        """Record a change; returns the object before and after it."""
        before = self.state.get(key)
        kind = "DELETED" if text is None else "MODIFIED" if before is not None else "ADDED"
        self.history.setdefault(key.collection, []).append((revision, key, kind))
        # Changes of one transaction come by collection.
        self.revision = max(self.revision, revision)
        if text is None:
            self.state.pop(key, None)
            return before and before[1], None
        after: Document = decode_document(text)
        self.state[key] = (revision, after)
        return before and before[1], after

    def objects(self, collection: str) -> list[Document]:
        """The objects of a collection."""
        return [document for key, (_, document) in self.state.items() if key.collection == collection]

    def after(self, collection: str, namespace: str, revision: int) -> list[tuple[int, StoreKey, str]]:
        """The changes of a collection after a revision."""
        changes = self.history.get(collection, [])
        start = bisect_right(changes, revision, key=lambda change: change[0])
        return [change for change in changes[start:] if not namespace or change[1].namespace == namespace]


class ServerChecks:
    """Compares everything the server says with the truth."""

    def __init__(self, trace: Trace, rules: Iterable[Rule] = ()) -> None:
        self.trace, self.truth, self.rules = trace, Truth(), list(rules)
        self.calls: Counter[tuple[str, str, str]] = Counter()
        self.forced: set[tuple[str, str]] = set()
        """Pods that somebody other than a node removed without grace."""

    def started(self, store: DurableStore, collections: Iterable[str]) -> None:
        """A server has opened its store: nothing that was committed may be missing."""
        names, known = sorted(collections), self.truth.revision
        for past in store._history._all:
            if past.revision > known:
                self._take(past.revision, past.key, None if past.after is None else past.after.text)
        found = {entry.key: entry for name in names for entry in store.entries(name)}
        # Some collections have no history, and a clock that was set forward makes all history too old to keep.
        for key, entry in found.items():
            if entry.revision > max(known, self.truth.state.get(key, (0,))[0]):
                self._take(entry.revision, key, entry.text)
        gone = [key for key in self.truth.state if key not in found]
        for key in gone if len(gone) <= store.revision - known else ():
            self._take(store.revision, key, None)
        on_disk = {key: entry.revision for key, entry in found.items()}
        committed = {key: revision for key, (revision, _) in self.truth.state.items()}
        for key in sorted(on_disk.keys() | committed.keys()):
            if on_disk.get(key) != committed.get(key):
                self.trace.violated(f"{_shown(key)}: {committed.get(key)} was committed, {on_disk.get(key)} is on disk")
        self.truth.revision = max(self.truth.revision, store.revision)
        for name in names:
            store.listen(name, self._changed)

    def _changed(self, change: StoreChange) -> None:
        changes = self.truth.history.get(change.key.collection)
        if changes and change.revision <= changes[-1][0]:
            self.trace.violated(f"revision {change.revision} comes after {changes[-1][0]}")
        self._take(change.revision, change.key, None if change.after is None else change.after.text)

    def _take(self, revision: int, key: StoreKey, text: bytes | None) -> None:
        before, after = self.truth.take(revision, key, text)
        if key.collection not in QUIET:
            self.trace.note(f"{revision} {'-' if text is None else '~' if before else '+'} {_shown(key)}")
        for rule in self.rules:
            rule(key, before, after)

    def called(self, who: str, verb: str, resource: Resource) -> None:
        self.calls[who, verb, resource.plural] += 1

    def deletes(self, who: str, resource: Resource, name: str, options: dict[str, Any]) -> None:
        """Notes a pod that is removed without its node."""
        wanted = options.get("options")
        is_forced = wanted is not None and wanted.grace_period_seconds == 0
        if is_forced and resource.plural == "pods" and not who.startswith("node"):
            self.forced.add((options.get("namespace", ""), name))

    def answered(self, resource: Resource, answer: Any) -> None:
        """A client has the answer to its write: the revision must have been committed."""
        document = answer if isinstance(answer, dict) else {}
        meta = document.get("metadata") or {} if document else getattr(answer, "metadata", None)
        version = meta.get("resourceVersion") if isinstance(meta, dict) else getattr(meta, "resource_version", "")
        if version and int(version) > self.truth.revision:
            self.trace.violated(f"answer {version} about {resource.plural} is ahead of {self.truth.revision}")

    def listed(self, resource: Resource, found: Listing[Any], options: dict[str, Any]) -> None:
        """A list of everything must be the state at its revision."""
        selection = options.get("selection")
        if options.get("limit") or options.get("continue_token") or int(found.resource_version) != self.truth.revision:
            return
        if selection is not None and (selection.labels or selection.fields):
            return
        namespace, collection = options.get("namespace", ""), resource.group_resource
        state = {
            (key.namespace, key.name)
            for key in self.truth.state
            if key.collection == collection and namespace in ("", key.namespace)
        }
        names = {_name(item) for item in found.items}
        if names != state:
            self.trace.violated(f"list of {collection} in {namespace!r}: {sorted(names ^ state)} differ")

    def watch(self, resource: Resource, options: dict[str, Any]) -> "WatchCheck":
        return WatchCheck(self, resource, options)


class WatchCheck:
    """One watch: its events are in order, and without a selector all changes arrive."""

    def __init__(self, checks: ServerChecks, resource: Resource, options: dict[str, Any]) -> None:
        self._checks, self._collection = checks, resource.group_resource
        selection, version = options.get("selection"), options.get("resource_version", "")
        self._namespace = options.get("namespace", "")
        self._is_complete = version not in ("", "0") and not (selection and (selection.labels or selection.fields))
        self._revision = int(version or 0)

    def delivered(self, event: WatchEvent[Any]) -> None:
        """The server sends an event."""
        revision, before = int(event.resource_version), self._revision
        if revision < before or (revision == before and event.type != "BOOKMARK" and self._is_complete):
            self._checks.trace.violated(f"watch of {self._collection} goes from {before} back to {revision}")
        if self._is_complete:
            due = self._checks.truth.after(self._collection, self._namespace, before)
            missing = [change for change in due if change[0] < revision + (event.type == "BOOKMARK")]
            if missing:
                self._checks.trace.violated(f"watch of {self._collection} at {revision} misses {missing[:3]}")
            if event.type != "BOOKMARK":
                sent = next((change for change in due if change[0] == revision), None)
                if sent is None or sent[2] != event.type or _name(event.object) != tuple(sent[1][1:]):
                    self._checks.trace.violated(f"watch of {self._collection} sends {event.type} for {sent}")
        self._revision = max(before, revision)


def _name(item: Any) -> tuple[str, str]:
    if isinstance(item, dict):
        return item["metadata"].get("namespace", ""), item["metadata"]["name"]
    return item.metadata.namespace, item.metadata.name


def _shown(key: StoreKey) -> str:
    return "/".join(part for part in key if part)
