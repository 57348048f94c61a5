"""`kill -9` of a node on containerd, and of all processes: no container is restarted, duplicated, lost or left over."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from containerd_lab import running_containerd
from cri_kill_lab import CriKillLab
from kill_lab import open_lab
from kill_scenario import survive_everything, survive_kills


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[CriKillLab]:
    # A containerd of its own, since it is killed too and must not have pods of other tests.
    with running_containerd() as containerd:
        async with open_lab(CriKillLab(tmp_path, containerd)) as made:
            yield made


@pytest.mark.timeout(200)
async def test_pods_survive_repeated_kills_of_the_node(lab: CriKillLab) -> None:
    """Start counts, exit codes, conditions and mirror pods are right, and nothing is left over."""
    await survive_kills(lab, 20, linger_seconds=1.5)
    assert await lab.pods()


@pytest.mark.timeout(120)
async def test_everything_killed_converges(lab: CriKillLab) -> None:
    """After all processes are killed, running containers are found and missing ones are started."""
    await survive_everything(lab)
    assert await lab.pods()
