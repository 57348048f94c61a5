"""Resource usage of containers measured on real processes, and their OOM scores."""

import asyncio
import os
from pathlib import Path

from process_lab import Lab, until
from pykubelet.api.generated.core import ResourceRequirements
from pykubelet.runtimes.process.runtime import ProcessRuntime

MIB = 2**20
# Uses 0.2 s of CPU in a child and 0.2 s itself, holds 32 MB, prints `done` and sleeps.
BUSY = """
import os, time
def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
held = bytearray(os.urandom(1)) * (32 * 2**20)
if os.fork() == 0:
    work(0.2); os._exit(0)
os.wait()
work(0.2)
print("done", flush=True)
time.sleep(1000)
"""


async def test_usage_is_that_of_all_processes_of_a_container(lab: Lab, runtime: ProcessRuntime) -> None:
    """CPU time includes exited children; exited containers are left out."""
    busy = await lab.start("python3", "-c", BUSY)
    idle = await lab.start("sleep", "1000")
    ended = await lab.start("true")
    await ended.until_ended()
    await until(lambda: "done" in busy.log)
    found = await runtime.usages()
    assert found.keys() == {busy.id, idle.id}
    assert 400_000_000 <= (found[busy.id].cpu_nanoseconds or 0) + 20_000_000 <= 5_000_000_000
    assert (found[idle.id].cpu_nanoseconds or 0) < 400_000_000
    working = found[busy.id].working_set_bytes or 0
    assert 32 * MIB <= working <= 128 * MIB
    assert 0 < (found[idle.id].working_set_bytes or 0) < 32 * MIB


async def test_usage_of_a_container_with_limits_is_known_too(lab: Lab, runtime: ProcessRuntime) -> None:
    """It comes from the cgroup where there is one, otherwise from the processes."""
    limits = ResourceRequirements(limits={"memory": "256Mi", "cpu": "500m"}, requests={"memory": "1Mi"})
    ward = await lab.start("python3", "-c", BUSY, resources=limits)
    await until(lambda: "done" in ward.log)
    usage = (await runtime.usages())[ward.id]
    assert (usage.cpu_nanoseconds or 0) + 20_000_000 >= 400_000_000
    assert (usage.working_set_bytes or 0) >= 32 * MIB
    assert (usage.memory_bytes or 0) >= (usage.working_set_bytes or 0)


async def test_usage_of_many_containers_is_read_in_one_pass(lab: Lab, runtime: ProcessRuntime) -> None:
    """Concurrent readings do not disturb each other."""
    async with asyncio.TaskGroup() as group:
        started = [group.create_task(lab.start("sleep", "1000")) for _ in range(30)]
    readings = await asyncio.gather(*(runtime.usages() for _ in range(4)))
    ids = {task.result().id for task in started}
    assert all(reading.keys() == ids for reading in readings)


async def test_oom_score_follows_the_qos_class(lab: Lab) -> None:
    """A best-effort container and commands in it have 1000, a guaranteed one -997 if we may lower the score."""
    both = {"cpu": "1", "memory": "64Mi"}
    eager = await lab.start("sleep", "1000")
    assert await eager.run("cat", "/proc/self/oom_score_adj") == (0, "1000\n")
    told = await lab.output_of(
        "cat", "/proc/self/oom_score_adj", resources=ResourceRequirements(requests=both, limits=both)
    )
    assert told.strip() == ("-997" if _may_lower() else _own_score())


def _own_score() -> str:
    return Path("/proc/self/oom_score_adj").read_text().strip()


def _may_lower() -> bool:
    """Whether this process has CAP_SYS_RESOURCE."""
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return os.geteuid() == 0 and bool(int(effective, 16) >> 24 & 1)
