"""The reflector ends up with the server's state after any fault."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import Expired, InternalError, NotReached
from pykubelet.api.schema import CONFIG_MAPS
from pykubelet.testing.faults import Fault, FaultyClient
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock, VirtualTimeLoop

Follow = Callable[..., Any]


async def settle() -> None:
    await asyncio.sleep(0.001)


@pytest.mark.parametrize("fault", list(Fault))
async def test_reflector_agrees_with_the_server_after_each_fault_at_each_place(fault: Fault, following: Follow) -> None:
    """One fault, injected at each request and event of a short scenario in turn."""
    at = 0
    injected = True
    while injected:
        api = MemoryApi(VirtualClock())
        faulty = FaultyClient(api, fault, at=at)
        follow = following(api=api, client=faulty)
        async with follow.running(until_ready=False):
            for step in range(4):
                follow.put("web", str(step))
                await asyncio.sleep(100)
            follow.remove("web")
            follow.put("web")
            follow.remove("first")
            await asyncio.sleep(100)
            follow.assert_same()
        injected = faulty.injected
        at += 1
    assert at > 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "remove", "cut", "compact", "bookmark", "twice", "fail", "wait"]),
        st.sampled_from(["a", "b", "c"]),
    ),
    max_size=40,
)


class DoublingApi(MemoryApi):
    """Can send any event of its history a second time."""

    def send_again(self, number: int) -> None:
        if self._history:
            change = self._history[number % len(self._history)]
            for stream in self._streams:
                stream.put_nowait(replace(change))


async def follow_script(follow: Any, api: DoublingApi, steps: list[tuple[str, str]]) -> None:
    async with follow.running():
        for number, (step, name) in enumerate(steps):
            match step:
                case "put":
                    follow.put(name, str(number))
                case "remove" if any(doc["metadata"]["name"] == name for doc in api.documents(CONFIG_MAPS)):
                    follow.remove(name)
                case "cut":
                    follow.client.cut(NotReached("cut") if name == "a" else None)
                case "compact":
                    api.compact()
                case "bookmark":
                    await settle()
                    api.bookmark()
                case "twice":
                    api.send_again(number)
                case "fail":
                    follow.client.watch_errors.append(Expired("old") if name == "a" else NotReached("down"))
                    follow.client.list_errors.append(Expired("old") if name == "b" else InternalError("broken"))
                case "wait":
                    await asyncio.sleep(2)
        await asyncio.sleep(3600)
        follow.assert_same()


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_reflector_agrees_with_the_server_after_any_script(following: Follow, steps: list[tuple[str, str]]) -> None:
    """Creates, updates, deletes, recreations, cuts, duplicate events and 410s, in any order."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        api = DoublingApi(VirtualClock())
        runner.run(follow_script(following(api=api), api, steps))
