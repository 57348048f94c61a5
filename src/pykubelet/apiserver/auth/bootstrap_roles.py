"""Writes the default roles and bindings at start, and keeps gathered roles (admin, view) complete.

Upstream: pkg/registry/rbac/rest/storage_rbac.go (EnsureRBACPolicy), pkg/controller/clusterroleaggregation
"""

import asyncio
from collections.abc import Callable

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids
from pykubelet.api.times import format_time
from pykubelet.api.wire import Document
from pykubelet.apiserver.auth.bindings import CLUSTER_ROLES
from pykubelet.apiserver.auth.default_roles import default_roles
from pykubelet.apiserver.auth.reconcile import gathered, reconciled
from pykubelet.apiserver.store import Entry, Key, Store


async def ensure_default_roles(store: Store, *, clock: Clock, ids: Ids) -> None:
    """Create what is missing and complete what is there; all at once, so that the store commits it together."""

    def identified(document: Document) -> Document:
        identity = {"uid": ids.uid(), "creationTimestamp": format_time(clock.now())}
        return document | {"metadata": document["metadata"] | identity}

    async def ensure(key: Key, expected: Document) -> None:
        entry = store.get(key)
        if entry is not None and reconciled(existing := entry.document, expected) == existing:
            return

        def decide(entry: Entry | None) -> Document:
            if entry is None:
                return identified(expected)
            changed = reconciled(entry.document, expected)
            return identified(expected) if changed is expected else changed

        await store.write(key, decide)

    await asyncio.gather(*(ensure(key, document) for key, document in default_roles()))
    await gather_roles(store)


async def gather_roles(store: Store) -> None:
    """Bring the rules of every cluster role that gathers those of others up to date."""
    roles = [entry.document for entry in store.list(CLUSTER_ROLES).entries]
    found = gathered(roles)
    await asyncio.gather(*(store.write(Key(CLUSTER_ROLES, "", name), _set_rules(found[name])) for name in found))


class RoleGathering:
    """The task that follows changes of cluster roles."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self, ready: asyncio.Event) -> None:
        """Until cancelled. Ends with an error if it falls too far behind; whoever supervises it starts it again."""
        revision = self._store.revision
        await gather_roles(self._store)
        async with self._store.watch(CLUSTER_ROLES, revision) as batches:
            ready.set()
            async for batch in batches:
                if batch.changes:
                    await gather_roles(self._store)


def _set_rules(rules: list[Document]) -> Callable[[Entry | None], Document | None]:
    def decide(entry: Entry | None) -> Document | None:
        if entry is None:
            return None
        role = entry.document
        return role | {"rules": rules} if role.get("aggregationRule") else role

    return decide
