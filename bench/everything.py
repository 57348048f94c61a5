"""Every figure of the project as one JSON document: runs all benches, one after the other, and judges what they print.

Takes about half an hour on an idle machine. `--quick` tries that everything works, with counts too small for figures;
`--recorded FILE...` judges what was printed before.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from design_figures import judged
from machine import machine
from recorded import read_results

HERE = Path(__file__).parent
# Benches that are most easily disturbed by others come first.
BENCHES = ("api", "node", "cri", "controllers", "proxy", "parts", "cluster_dns")
QUICK = {
    "cluster_dns": ("--count", "500"),
    "api": ("--pods", "20", "--watchers", "2"),
    "node": ("--rounds", "1", "--idle-seconds", "1", "--sim-pods", "10"),
    "cri": ("--pods", "2", "--rounds", "1", "--bursts", "1", "--idle-seconds", "1"),
    "controllers": ("--pods", "20", "--present", "10"),
    "proxy": ("--endpoints", "10", "--changes", "3"),
}


def run(bench: str, options: tuple[str, ...]) -> dict[str, Any]:
    """Run a bench and return the JSON that it prints."""
    print(f"bench {bench} ...", file=sys.stderr, flush=True)
    # Two benches use the labs of the tests.
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "tests/support")}
    command = [sys.executable, str(HERE / f"{bench}.py"), *options]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny counts, to see that all benches run")
    parser.add_argument("--only", default=",".join(BENCHES), help="of these, with commas between them")
    parser.add_argument("--recorded", nargs="+", type=Path, help="files such as 2026-01-01-api.json; nothing is run")
    asked = parser.parse_args()
    if asked.recorded:
        results = read_results(asked.recorded)
    else:
        results = {name: run(name, QUICK.get(name, ()) if asked.quick else ()) for name in asked.only.split(",")}
    figures = judged(results)
    missed = [figure["what"] for figure in figures if figure["is_met"] is False]
    about = {"machine": machine(), "is_quick": asked.quick, "missed": missed}
    print(json.dumps({**about, "figures": figures, "results": results}, indent=2))


if __name__ == "__main__":
    main()
