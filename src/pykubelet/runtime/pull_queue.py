"""Pulls images, a few at a time; whoever wants an image that is being pulled waits for that pull.

In: names and credentials, from any task. Out: the image, or why not. A pull goes on when those who wait for it are
cancelled, for the next one will want the image as well; one that nobody waits for any more is not begun.
Upstream: pkg/kubelet/images/puller.go, which pulls an image once per container.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pykubelet.aio.clock import Clock
from pykubelet.aio.supervise import start_supervised
from pykubelet.runtime.protocol import Credentials, Image, Images, RuntimeFailure

# Other credentials may get another answer, so only those with the same share a pull.
_Key: TypeAlias = tuple[str, tuple[Credentials, ...]]


@dataclass(frozen=True, slots=True)
class Pulled:
    """An image, and how long it took to fetch, without the wait before it."""

    image: Image
    seconds: float


@dataclass(slots=True)
class _Pull:
    outcome: asyncio.Future[Pulled | RuntimeFailure] = field(default_factory=asyncio.Future)
    waiting: int = 0


class PullQueue:
    """At most `parallel` pulls at once; `run` does them."""

    def __init__(self, *, images: Images, clock: Clock, parallel: int = 1) -> None:
        self._images, self._clock, self._parallel = images, clock, parallel
        self._pulls: dict[_Key, _Pull] = {}
        self._queue: asyncio.Queue[_Key] = asyncio.Queue()

    async def pull(self, name: str, credentials: Sequence[Credentials]) -> Pulled:
        """Fetch an image, or wait for a pull under way; RuntimeFailure if it cannot be had."""
        key = (name, tuple(credentials))
        pull = self._pulls.get(key)
        if pull is None:
            pull = self._pulls[key] = _Pull()
            self._queue.put_nowait(key)
        pull.waiting += 1
        try:
            outcome = await asyncio.shield(pull.outcome)
        finally:
            pull.waiting -= 1
        if isinstance(outcome, RuntimeFailure):
            raise RuntimeFailure(outcome.message, reason=outcome.reason) from outcome
        return outcome

    async def run(self, ready: asyncio.Event) -> None:
        """Pull what is asked for, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._parallel):
                start_supervised(group, f"image puller {number + 1}", self._work)
            ready.set()

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            pull = self._pulls[key]
            if not pull.waiting:
                del self._pulls[key]
                continue
            try:
                outcome = await self._fetch(*key)
            except BaseException:
                # Nobody may wait for an answer that will not come.
                pull.outcome.set_result(RuntimeFailure("the pull was interrupted"))
                raise
            else:
                pull.outcome.set_result(outcome)
            finally:
                del self._pulls[key]

    async def _fetch(self, name: str, credentials: Sequence[Credentials]) -> Pulled | RuntimeFailure:
        started = self._clock.monotonic()
        try:
            image = await self._images.pull(name, credentials)
        except RuntimeFailure as failure:
            return failure
        return Pulled(image, self._clock.monotonic() - started)
