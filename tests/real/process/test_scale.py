"""A hundred containers at once: start, idle CPU, and stop."""

import asyncio
import os
import statistics
import time
from pathlib import Path

from process_lab import Lab
from pykubelet.aio.clock import SystemClock
from pykubelet.runtimes.process.runtime import ProcessRuntime
from pykubelet.runtimes.protocol import ContainerState

COUNT = 100


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_a_hundred_containers_start_and_end_without_delay(lab: Lab, runtime: ProcessRuntime) -> None:
    """All run within seconds, idle supervisors use no CPU, and every exit is recorded."""
    before = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        started = [group.create_task(lab.start("sleep", "1000")) for _ in range(COUNT)]
    assert time.perf_counter() - before < 10
    wards = [task.result() for task in started]
    supervisors = [json_supervisor(runtime, ward.id) for ward in wards]
    used = [cpu_seconds(pid) for pid in supervisors]
    await asyncio.sleep(0.5)
    assert [cpu_seconds(pid) for pid in supervisors] == used
    async with asyncio.TaskGroup() as group:
        for ward in wards:
            group.create_task(runtime.stop(ward.id, 10))
    states = {one.state for pod in await runtime.pods() for one in pod.containers}
    assert states == {ContainerState.EXITED}


def json_supervisor(runtime: ProcessRuntime, container_id: str) -> int:
    state = runtime._folders.state(container_id)
    assert state is not None
    assert state.supervisor is not None
    return state.supervisor.pid


async def test_start_and_end_are_a_matter_of_milliseconds(lab: Lab) -> None:
    """The bounds are generous, since other programs run on the machine too."""
    starts, ends = [], []
    for _ in range(20):
        ward = await lab.create("sh", "-c", "exit 0")
        before = time.perf_counter()
        await lab.runtime.start(ward.id)
        starts.append(time.perf_counter() - before)
        ended = await ward.until_ended()
        assert ended.finished_at is not None
        ends.append((SystemClock().now() - ended.finished_at).total_seconds())
    assert statistics.median(starts) < 0.1
    assert statistics.median(ends) < 0.05
