"""The contract of runtimes that offer more: hints about changes, commands in containers, logs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest

from pykubelet.api.pods import PodUid
from pykubelet.kubelet.logs.log_lines import parse_line
from pykubelet.runtimes.protocol import ChangeFeed, Commands, Runtime, RuntimeFailure
from runtime_pods import EXITS_WITH_3, SAYS_HELLO, World


class FullRuntime(Runtime, ChangeFeed, Commands, Protocol):
    """A runtime that offers all of it."""


@pytest.fixture
def full(runtime: FullRuntime) -> FullRuntime:
    return runtime


@pytest.fixture
def world(full: FullRuntime, image: str, tmp_path: Path) -> World:
    return World(full, image, tmp_path)


async def hints(changes: AsyncIterator[PodUid], quiet_seconds: float = 0.5) -> set[PodUid]:
    """The pods of all hints, until none comes for a while."""
    found: set[PodUid] = set()
    while True:
        try:
            async with asyncio.timeout(quiet_seconds):
                found.add(await anext(changes))
        except TimeoutError:
            return found


async def test_every_change_is_hinted_at(full: FullRuntime, world: World) -> None:
    """That includes the exit of a container, which no call has caused."""
    pod, other = world.pod(command=EXITS_WITH_3), world.pod("other")
    changes = full.changes()
    await world.started(pod)
    sandbox_id, _ = await world.started(other)
    assert await hints(changes) == {pod.metadata.uid, other.metadata.uid}
    await full.stop(sandbox_id, 0)
    assert await hints(changes) == {other.metadata.uid}
    assert await hints(changes) == set()


async def test_end_of_a_container_is_hinted_at_within_a_moment(full: FullRuntime, world: World) -> None:
    """When the hint comes the exit code is known."""
    pod = world.pod(command=EXITS_WITH_3)
    await world.started(pod)
    changes = full.changes()
    async with asyncio.timeout(2):
        while (await world.container(pod)).finished_at is None:
            assert await anext(changes) == pod.metadata.uid
    assert (await world.container(pod)).exit_code == 3


async def test_command_runs_in_a_running_container_only(full: FullRuntime, world: World) -> None:
    """It returns the exit code of the command; in an exited or unknown container it raises RuntimeFailure."""
    pod = world.pod()
    sandbox_id, container_id = await world.started(pod)
    outcome = await full.run(container_id, ("true",), timeout_seconds=5, limit_bytes=100)
    assert outcome.exit_code == 0
    await full.stop(sandbox_id, 0)
    with pytest.raises(RuntimeFailure):
        await full.run(container_id, ("true",), timeout_seconds=5, limit_bytes=100)
    with pytest.raises(RuntimeFailure):
        await full.run("a" * 64, ("true",), timeout_seconds=5, limit_bytes=100)


async def test_output_is_in_the_log(full: FullRuntime, world: World) -> None:
    """The output of a container is at its log path, in the log format of CRI."""
    pod = world.pod(command=SAYS_HELLO)
    sandbox_id, _ = await world.started(pod)
    path = world.logs / "0.log"
    while not (path.exists() and path.read_bytes()):
        await asyncio.sleep(0.02)
    line = parse_line(path.read_bytes())
    await full.stop(sandbox_id, 0)
    assert line is not None
    assert (line.stream, line.text) == ("stdout", b"hello\n")
