"""When the static pod sources start after a restart of the agent."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.config.config import StaticPodHold
from pykubelet.runtimes.protocol import RuntimeFailure, RuntimePod

POD = RuntimePod(uid=PodUid("uid"), namespace="default", name="web")


class Source:
    """Records when it was started."""

    def __init__(self) -> None:
        self.started_at: float | None = None

    async def run(self, ready: asyncio.Event) -> None:
        self.started_at = asyncio.get_running_loop().time()
        ready.set()


class Runtime:
    """A runtime with fixed pods, or one that fails."""

    def __init__(self, *pods: RuntimePod, is_down: bool = False) -> None:
        self._pods, self._is_down = pods, is_down

    async def pods(self) -> Sequence[RuntimePod]:
        if self._is_down:
            raise RuntimeFailure("down")
        return self._pods


@pytest.mark.parametrize(
    ("runtime", "delivered_after", "starts_after"),
    [
        pytest.param(Runtime(), None, 0, id="nothing runs"),
        pytest.param(Runtime(POD), 2, 2, id="the API server answers"),
        pytest.param(Runtime(POD), None, 5, id="the API server does not answer"),
        pytest.param(Runtime(is_down=True), 1, 1, id="the runtime is down"),
    ],
)
async def test_source_starts_when_mirrors_are_known_or_do_not_matter(
    runtime: Any, delivered_after: float | None, starts_after: float
) -> None:
    """With running pods the source waits for the API server's pods, but at most five seconds."""
    source, delivered, ready = Source(), asyncio.Event(), asyncio.Event()
    if delivered_after is not None:
        asyncio.get_running_loop().call_later(delivered_after, delivered.set)
    began = asyncio.get_running_loop().time()
    await StaticPodHold(source, delivered=delivered, runtime=runtime).run(ready)
    assert source.started_at is not None
    assert source.started_at - began == pytest.approx(starts_after)
