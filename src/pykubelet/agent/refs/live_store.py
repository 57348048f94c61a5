"""Referenced objects read from the API server at every get.

Upstream: simpleSecretManager in pkg/kubelet/secret/secret_manager.go and its twin for config maps.
"""

import asyncio
from typing import Generic

from pykubelet.agent.refs.store import ObjectKey, ObjectSource, T


class LiveStore(Generic[T]):
    """Keeps nothing; references do not matter."""

    def __init__(self, *, source: ObjectSource[T]) -> None:
        self._source = source

    def add_reference(self, key: ObjectKey, referrer: str) -> None:
        """Nothing to do."""

    def delete_reference(self, key: ObjectKey, referrer: str) -> None:
        """Nothing to do."""

    async def get(self, key: ObjectKey, *, timeout_seconds: float) -> T:  # noqa: ARG002  requests have their own
        return await self._source.fetch(key)

    async def run(self, ready: asyncio.Event) -> None:
        """Nothing happens in the background."""
        ready.set()
