"""Processes on a full disk: they run on, their log has whole lines, and their ends are recorded."""

import asyncio
import re
from pathlib import Path

import pytest

from process_lab import Lab, make_runtime, stop_everything
from pykubelet.runtimes.protocol import ContainerState, RuntimeFailure
from small_disk import small_disk

PADDING = "x" * 400
COUNTING = f"i=0; while :; do i=$((i+1)); echo line $i {PADDING}; sleep 0.01; done"


async def test_full_log_disk_drops_whole_lines_and_says_how_many(tmp_path: Path) -> None:
    """The program never waits for its log."""
    with small_disk(tmp_path / "logs", 1) as disk:
        async with make_runtime(tmp_path / "state") as runtime:
            ward = await Lab(runtime, disk.path).start("sh", "-c", COUNTING)
            await asyncio.sleep(0.3)
            disk.fill()
            await asyncio.sleep(1)
            disk.free()
            await asyncio.sleep(0.5)
            assert (await ward.told()).state is ContainerState.RUNNING
            await stop_everything(runtime)
        texts = ward.log.splitlines()
    notes = [at for at, text in enumerate(texts) if text.startswith("pykubelet: ")]
    assert len(notes) == 1
    before, note, after = texts[: notes[0]], texts[notes[0]], texts[notes[0] + 1 :]
    found = re.fullmatch(r"pykubelet: (\d+) lines are missing here, the log could not be written", note)
    assert found is not None
    missing = int(found[1])
    assert missing > 5
    assert [*before, *after] == [
        f"line {number} {PADDING}"
        for number in range(1, len(before) + missing + len(after) + 1)
        if not len(before) < number <= len(before) + missing
    ]


async def test_ends_of_containers_are_recorded_on_a_full_disk(tmp_path: Path) -> None:
    """For the next kubelet, too, which can start there; new containers fail with the reason and leave nothing."""
    with small_disk(tmp_path / "state", 4) as disk:
        async with make_runtime(disk.path) as runtime:
            lab = Lab(runtime, tmp_path)
            ending = await lab.start("sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 3")
            stopped, created = await lab.start("sleep", "1000"), await lab.create("sleep", "1000")
            disk.fill()
            with pytest.raises(RuntimeFailure, match="cannot be recorded: No space left on device"):
                await lab.create("true")
            with pytest.raises(RuntimeFailure, match="unable to start container process: no space left on device"):
                await runtime.start(created.id)
            disk.fill()
            (tmp_path / "go").touch()
            assert (await ending.until_ended()).exit_code == 3
            assert (await stopped.told()).state is ContainerState.RUNNING
            await runtime.stop(stopped.sandbox_id, 0)
            before = [await ward.inspect() for ward in (ending, stopped)]
            assert not before[1].sandboxes[0].is_ready
        async with make_runtime(disk.path) as runtime:
            found = {pod.uid: pod for pod in await runtime.pods()}
            assert [found[pod.uid] for pod in before] == before
            assert len(found) == 3
            disk.free()
            await stop_everything(runtime)
