"""Runs one simulation: a storm of faults and users, then calm until the cluster has converged, then an empty cluster.

    PYTHONHASHSEED=0 python tests/support/simulation/run.py SEED [--faults N] [--nodes N] [--echo]

Prints one JSON object. The order in sets depends on PYTHONHASHSEED, so `seeds.py` sets it from the seed.
"""

import argparse
import asyncio
import fcntl
import gc
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import process_time
from typing import Any

from pykubelet.aio import backoff
from pykubelet.aio.queues import Subscription
from pykubelet.apiserver.storage.watch_cache import StoreWatch
from pykubelet.runtimes.protocol import ChangeSubscription
from simulation.cluster import SimulatedCluster
from simulation.convergence import Convergence, RecordedExpectations
from simulation.loop import SimulationLoop, number_instances
from simulation.network import NetworkClient
from simulation.trace import Trace, Violation
from simulation.users import Users

CONVERGES_WITHIN_SECONDS = 800.0
"""Virtual time: two of the longest back-offs, of five minutes, and a lost node's way back."""
QUIET_SECONDS = 120.0
STORM_SECONDS = 900.0
"""The longest storm; it ends earlier after the requested number of faults."""
PAUSES = (0.3, 1.0, 3.0)


class Simulation:
    """One seed, from start to end."""

    def __init__(self, seed: int, trace: Trace, folder: Path, nodes: int) -> None:
        self.trace = trace
        self._expectations = RecordedExpectations()
        self._cluster = SimulatedCluster(seed=seed, trace=trace, folder=folder, nodes=nodes)
        self._cluster.watch_log()
        api = NetworkClient(self._cluster.network, "user")
        self._users = Users(seed=seed, trace=trace, api=api, cluster=self._cluster)
        self._pause = PAUSES[seed % len(PAUSES)]
        self.figures: dict[str, Any] = {}

    async def run(self, faults: int) -> None:
        self._cluster.start_all()
        machines, truth = self._cluster.machines, self._cluster.checks.truth
        await self._until(lambda: [] if len(truth.objects("nodes")) == len(machines) else ["no node"])
        self._cluster.plan.storm(is_on=True)
        users = asyncio.ensure_future(self._users.run(self._pause))
        storm = asyncio.ensure_future(self._cluster.run_storm())
        end = asyncio.get_running_loop().time() + STORM_SECONDS
        while self.trace.faults.total() < faults and asyncio.get_running_loop().time() < end:
            await self._pass(0.5)
            for task in (users, storm):
                if task.done():
                    task.result()
        for task in (users, storm):
            task.cancel()
        await asyncio.gather(users, storm, return_exceptions=True)
        self._cluster.plan.storm(is_on=False)
        self.trace.note("the storm is over")
        await self._calm()

    async def _calm(self) -> None:
        convergence = Convergence(self._cluster, self._expectations)
        await self._users.tidy()
        self.figures["converged_after_seconds"] = await self._until(convergence.missing)
        calls = self._cluster.checks.calls.copy()
        await self._pass(QUIET_SECONDS)
        quiet = self._cluster.checks.calls - calls
        self.figures["calls_while_quiet"] = quiet.total()
        self.figures["most_called_while_quiet"] = [[*call, count] for call, count in quiet.most_common(3)]
        self.trace.note("the users leave")
        await self._users.leave()
        self.figures["empty_after_seconds"] = await self._until(convergence.left_over)

    async def _until(self, missing: Any) -> float:
        """Wait until nothing is missing; returns the virtual seconds it took."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        while found := missing():
            if loop.time() > start + CONVERGES_WITHIN_SECONDS:
                self.trace.violated(f"not converged: {'; '.join(found[:6])}")
            await self._pass(1.0)
        return round(loop.time() - start)

    async def _pass(self, seconds: float) -> None:
        """Let virtual time pass; raises the first violation."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.trace.broken.wait()
        # Garbage goes at the same places in every run, as its finalizers may do something.
        if self.trace.lines % 7 == 0:
            gc.collect()
        if self.trace.violation is not None:
            raise self.trace.violation


def simulate(seed: int, *, faults: int, nodes: int, folder: Path, echo: bool = False) -> dict[str, Any]:
    """Run one seed in a new, empty folder, which becomes the working directory; returns its figures."""
    os.chdir(folder)
    gc.disable()
    backoff.system_random.__self__.seed(seed)  # type: ignore[attr-defined]
    number_instances(StoreWatch, Subscription, ChangeSubscription)
    loop, began = SimulationLoop(), process_time()
    result: dict[str, Any] = {"seed": seed, "violation": None}
    trace = Trace(seed, _echo if echo else None)

    async def main() -> None:
        simulation = Simulation(seed, trace, Path(), nodes)
        try:
            async with asyncio.timeout(4 * 3600):
                await simulation.run(faults)
        except Violation as violation:
            result["violation"] = str(violation)
            result["lines_before"] = list(trace.last)
        result.update(simulation.figures)

    asyncio.set_event_loop(loop)
    loop.run_until_complete(main())
    result |= {"virtual_seconds": round(loop.time()), "cpu_seconds": round(process_time() - began, 1)}
    return result | {"faults": dict(trace.faults), "lines": trace.lines, "digest": trace.digest}


def _echo(line: str) -> None:
    sys.stdout.write(line + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=2, help="with one, users stay in one namespace")
    parser.add_argument("--echo", action="store_true", help="print each line of the trace")
    chosen = parser.parse_args()
    with _folder(chosen.seed) as folder:
        result = simulate(chosen.seed, faults=chosen.faults, nodes=chosen.nodes, folder=folder, echo=chosen.echo)
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
    # Without the end of the interpreter: crashed programs must not be cleaned up.
    os._exit(1 if result["violation"] else 0)


@contextmanager
def _folder(seed: int) -> Iterator[Path]:
    """A folder in memory with the same path in every run of a seed, as UIDs of static pods depend on it."""
    above = Path(f"/dev/shm/simulation-{os.getuid()}")
    above.mkdir(mode=0o700, exist_ok=True)
    with (above / f"{seed}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = above / str(seed)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            yield folder
        finally:
            os.chdir("/")
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
