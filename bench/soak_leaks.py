"""Deletes pods within two seconds of their creation, on containerd and on processes; prints what they leave as JSON.

The exit code is 1 if anything is left two minutes after the last deletion.
"""

import argparse
import asyncio
import json
import secrets
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Any

from machine import machine
from spread import spread

from containerd_lab import ContainerdLab, running_containerd
from leak_lab import open_leak_lab, planned_pods

# Dead sandboxes and logs are collected once a minute.
_PATIENCE_SECONDS = 130.0
_SHOWN = 40


async def soak(count: int, *, seed: int, at_once: int, containerd: ContainerdLab | None) -> dict[str, Any]:
    """Create and delete so many pods on one node."""
    with tempfile.TemporaryDirectory(prefix="pykubelet-soak-") as name:
        async with open_leak_lab(Path(name), containerd) as lab:
            began = perf_counter()
            gone = await lab.churn(planned_pods(count, seed=seed), at_once=at_once)
            churned = perf_counter()
            left = await lab.until_clean(_PATIENCE_SECONDS)
            return {
                "pods": count,
                "seed": seed,
                "seconds": round(churned - began, 1),
                "gone_after_deletion_s": spread(gone),
                "clean_after_s": round(perf_counter() - churned, 1) if not left else None,
                "left": dict(Counter(found.partition(" ")[0] for found in left)),
                "left_for_example": left[:_SHOWN],
            }


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--containerd", type=int, default=1000, help="so many pods on containerd")
    parser.add_argument("--processes", type=int, default=1000, help="so many pods as processes")
    parser.add_argument("--at-once", type=int, default=10)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32), help="repeats an earlier run")
    asked = parser.parse_args()
    figures: dict[str, Any] = {}
    if asked.processes:
        figures["processes"] = await soak(asked.processes, seed=asked.seed, at_once=asked.at_once, containerd=None)
    if asked.containerd:
        with running_containerd() as lab:
            figures["containerd"] = await soak(asked.containerd, seed=asked.seed, at_once=asked.at_once, containerd=lab)
    print(json.dumps({"machine": machine(), **figures}, indent=2))
    return 1 if any(figure["left"] for figure in figures.values()) else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
