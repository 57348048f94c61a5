"""Simulates clusters with faults, seed after seed, until so many faults were injected; prints the figures as JSON.

A seed that breaks an invariant is listed with the line of its trace and the command that replays it.
"""

import argparse
import json
import os
import secrets
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

from simulation.seeds import NODES, command, how_to_replay, run_seed

SEED_SECONDS = 600.0
"""The longest that one seed may take; a busy machine needs a minute."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/soak simulate", description=__doc__)
    parser.add_argument("--faults", type=int, default=10_000, help="end after this many faults")
    parser.add_argument("--seed", type=int, help="the first seed; the others follow it (default: random)")
    parser.add_argument("--each", type=int, default=100, help="the number of faults of one seed")
    parser.add_argument("--nodes", type=int, default=NODES, help="the number of nodes; with one, nothing is lost")
    parser.add_argument("--jobs", type=int, default=2, help="the number of processes")
    parser.add_argument("--replay", type=int, metavar="SEED", help="show every line of one seed")
    chosen = parser.parse_args()
    if chosen.replay is not None:
        line, environment = command(chosen.replay, chosen.each, chosen.nodes, "--echo")
        os.execve(line[0], line, environment)
    first = secrets.randbelow(2**31) if chosen.seed is None else chosen.seed
    print(f"first seed {first}", file=sys.stderr, flush=True)
    figures = soak(first, chosen.faults, chosen.each, chosen.nodes, chosen.jobs)
    print(json.dumps(figures, indent=2))
    sys.exit(1 if figures["violations"] else 0)


def soak(first: int, faults: int, each: int, nodes: int, jobs: int) -> dict[str, Any]:
    """Run seeds from the first on, and add up what happened."""
    by_kind: Counter[str] = Counter()
    violations, seeds, virtual, cpu = [], 0, 0, 0.0
    slowest = {"converged_after_seconds": 0.0, "empty_after_seconds": 0.0, "calls_while_quiet": 0}
    numbers = count(first)
    with ThreadPoolExecutor(jobs) as pool:
        while by_kind.total() < faults:
            batch = [next(numbers) for _ in range(jobs)]
            for found in pool.map(lambda seed: run_seed(seed, each, seconds=SEED_SECONDS, nodes=nodes), batch):
                seeds += 1
                by_kind.update(found["faults"])
                virtual, cpu = virtual + found.get("virtual_seconds", 0), cpu + found.get("cpu_seconds", 0.0)
                slowest = {name: max(most, found.get(name, 0)) for name, most in slowest.items()}
                if found["violation"]:
                    violations.append({"what": found["violation"], "replay": how_to_replay(found["seed"], each, nodes)})
                    print(found["violation"], file=sys.stderr, flush=True)
            print(f"{seeds} seeds, {by_kind.total()} faults", file=sys.stderr, flush=True)
    return {
        "faults": by_kind.total(),
        "faults_by_kind": dict(by_kind.most_common()),
        "seeds": [first, first + seeds - 1],
        "virtual_hours": round(virtual / 3600, 1),
        "cpu_seconds": round(cpu),
        "most": slowest,
        "violations": violations,
    }


if __name__ == "__main__":
    main()
