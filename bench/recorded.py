"""Reads recorded bench results from the files of `bench/results`."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def read_results(paths: Iterable[Path]) -> dict[str, Any]:
    """Results by bench name, from the end of the file name, as in `2026-01-01-api.json`; an `all` file has several."""
    results: dict[str, Any] = {}
    for path in paths:
        found = json.loads(path.read_text())
        results |= found["results"] if path.stem.endswith("-all") else {path.stem.rpartition("-")[2]: found}
    return results
