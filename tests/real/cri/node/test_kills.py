"""`kill -9` of a node on containerd at any moment, and of everything: nothing is restarted, doubled, lost or left behind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from containerd_lab import running_containerd
from cri_kill_lab import CriKillLab
from kill_lab import open_lab
from kill_scenario import survive_everything, survive_kills


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[CriKillLab]:
    # One of its own: it is killed, too, and nobody else's pods are to be in it.
    with running_containerd() as containerd:
        async with open_lab(CriKillLab(tmp_path, containerd)) as made:
            yield made


@pytest.mark.timeout(200)
async def test_node_killed_again_and_again_is_not_missed(lab: CriKillLab) -> None:
    """Containers start as often as they should, codes are right, conditions stay, mirrors match, nothing is left."""
    await survive_kills(lab, 20, linger_seconds=1.5)
    assert await lab.pods()


@pytest.mark.timeout(120)
async def test_everything_killed_converges(lab: CriKillLab) -> None:
    """containerd, API server, node, shims, containers: what runs is found, what is missing is started."""
    await survive_everything(lab)
    assert await lab.pods()
