"""Holds static pods back until it is known what the API server shows of them.

A static pod that runs on from before this agent started has a mirror, which tells since when it is ready. Whoever made
a status before having seen that would move its conditions. A machine on which nothing runs has nothing to lose, and an
API server that does not answer is not waited for long: it may itself be a static pod. Upstream does not wait.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from pykubelet.runtime.protocol import RuntimeFailure, RuntimePod

PATIENCE_SECONDS = 5.0


class Runs(Protocol):
    """A source of static pods."""

    async def run(self, ready: asyncio.Event) -> None:
        """Follow it until cancelled."""


class Listing(Protocol):
    """What the runtime has."""

    async def pods(self) -> Sequence[RuntimePod]:
        """Everything; RuntimeFailure if that cannot be known."""


class MirrorsFirst:
    """A source that starts a little later; `delivered` is set when the pods of the API server are known."""

    def __init__(
        self,
        source: Runs,
        *,
        delivered: asyncio.Event,
        runtime: Listing,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._source, self._delivered, self._runtime = source, delivered, runtime
        self._patience_seconds = patience_seconds

    async def run(self, ready: asyncio.Event) -> None:
        """Wait as long as it is worth it, then follow the source until cancelled."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_seconds):
                if await self._may_have_pods():
                    await self._delivered.wait()
        await self._source.run(ready)

    async def _may_have_pods(self) -> bool:
        try:
            return bool(await self._runtime.pods())
        except RuntimeFailure:
            return True
