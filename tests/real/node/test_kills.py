"""`kill -9` of a node, and of all processes: no container is restarted, duplicated, lost or left over."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kill_lab import KillLab, open_lab, until
from kill_pods import Shown, job, second_try
from kill_scenario import Story, again, last_states, survive_everything, survive_kills, told_on_failure


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[KillLab]:
    async with open_lab(KillLab(tmp_path)) as made:
        yield made


@pytest.mark.timeout(300)
async def test_pods_survive_a_hundred_kills_of_the_node(lab: KillLab) -> None:
    """Start counts, exit codes, conditions and mirror pods are right, and nothing is left over."""
    await survive_kills(lab, 100)
    assert await lab.pods()


@pytest.mark.timeout(120)
async def test_everything_killed_converges(lab: KillLab) -> None:
    """Running containers are found, exits are reported, and missing containers are started."""
    await survive_everything(lab)
    assert await lab.pods()


@pytest.mark.timeout(120)
async def test_power_cut_converges(lab: KillLab) -> None:
    """After a boot, pods that should run start once more; finished pods and run-once pods do not."""
    story, node = Story(lab, 0), lab.new_node()
    never = job(lab, "never", 0, 10_000)
    never.exit_codes = {}
    async with told_on_failure(node, "the power was cut"):
        await asyncio.to_thread(node.start)
        await story.begin()
        await story.create(never)
        await story.create(second_try(lab, "second-try", "OnFailure"))
        await until(story.wrong)
        before = await lab.pods()
        for process in (lab.server, node):
            await asyncio.to_thread(process.kill)
        lab.cut_power()
        ended = {"done", "failed", "second-try"}
        for wish in story.wishes:
            if wish.name not in {*ended, "never"}:
                again(wish)
            if wish.name == "crowd":
                # As upstream: a new sandbox drops the old init containers; only the first one's count is still known.
                wish.restarts = {"init-1": 0, "sidecar": 0}
        never.exit_codes = {"main": 255}
        for process in (lab.server, node):
            await asyncio.to_thread(process.start)
        await until(story.wrong)
        after = await lab.pods()
        assert {n: Shown.of(before[n]) for n in ended} == {n: Shown.of(after[n]) for n in ended}
        assert last_states(after["plain"]) == last_states(after["static-node-1"]) == {"main": (255, "Unknown")}
