"""Runs simulations in processes of their own, which a replay needs: the same hash seed, nothing imported before."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

RUN = Path(__file__).parent / "run.py"
SUPPORT = RUN.parent.parent
NODES = 2


def command(seed: int, faults: int, nodes: int, *options: str) -> tuple[list[str], dict[str, str]]:
    """The command that simulates a seed, and its environment."""
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT), "PYTHONHASHSEED": str(seed % 2**32)}
    return [sys.executable, str(RUN), str(seed), "--faults", str(faults), "--nodes", str(nodes), *options], environment


def run_seed(seed: int, faults: int, *, seconds: float, nodes: int = NODES) -> dict[str, Any]:
    """The figures of one seed; a run that crashes or hangs is a violation, too."""
    line, environment = command(seed, faults, nodes)
    try:
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"seed": seed, "violation": f"seed {seed} takes longer than {seconds} s", "faults": {}}
    try:
        figures: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {"seed": seed, "violation": f"seed {seed} crashes: {done.stderr[-2000:]}", "faults": {}}
    return figures


def how_to_replay(seed: int, faults: int, nodes: int = NODES) -> str:
    """The command that shows every line of a seed."""
    return f"scripts/soak simulate --replay {seed} --each {faults} --nodes {nodes}"
