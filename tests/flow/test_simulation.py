"""A bounded sample of the simulation, with one fresh seed in each run; `scripts/soak simulate` runs more of it.

Two nodes are lost and come back, and namespaces end. Seeds that found bugs on one node run as they did then.

A failing test prints the command that replays its seed, line by line. SIMULATION_SEED replaces the fresh seed.
"""

import os
import secrets
import sys
from time import perf_counter

import pytest

from simulation.seeds import how_to_replay, run_seed

SEEDS = (101, 102, 103)
FAULTS = 60
SECONDS = 20.0
"""After this time no further seed starts: the sample is smaller on a busy machine."""


@pytest.mark.timeout(170)
def test_cluster_survives_faults(capsys: pytest.CaptureFixture[str]) -> None:
    """No invariant breaks in the storm, everything converges after it, and nothing is left when all is deleted."""
    fresh = int(os.environ.get("SIMULATION_SEED") or secrets.randbelow(10**9))
    with capsys.disabled():
        sys.stdout.write(f"simulation, fresh seed {fresh}\n")
    began = perf_counter()
    for seed in (fresh, *SEEDS):
        found = run_seed(seed, FAULTS, seconds=120)
        assert found["violation"] is None, f"{found['violation']}\nto replay: {how_to_replay(seed, FAULTS)}"
        assert sum(found["faults"].values()) >= FAULTS
        if perf_counter() - began > SECONDS:
            break


@pytest.mark.parametrize(("seed", "faults"), [(50030, 5), (60018, 40)])
def test_seed_that_started_a_container_twice_converges(seed: int, faults: int) -> None:
    """The node crashed while the runtime started a container."""
    found = run_seed(seed, faults, seconds=80, nodes=1)
    assert found["violation"] is None, f"{found['violation']}\nto replay: {how_to_replay(seed, faults, 1)}"


def test_seed_whose_bookmark_was_due_a_moment_later_ends() -> None:
    """A timer may fire less than the clock's resolution early; the watch was then due again at once, for ever."""
    found = run_seed(881000166, 100, seconds=80, nodes=1)
    assert found["violation"] is None, f"{found['violation']}\nto replay: {how_to_replay(881000166, 100, 1)}"


@pytest.mark.timeout(170)
def test_seed_replays_to_the_same_line() -> None:
    """The hash covers every line with its time: what the users did, every fault, every change, every container."""
    first, second = (run_seed(11, 20, seconds=80) for _ in range(2))
    assert first["lines"] > 100
    assert (first["lines"], first["digest"]) == (second["lines"], second["digest"])
