"""Benchmark results become figures that are compared with targets."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
RECORDED = sorted((ROOT / "bench/results").glob("*.json"))


@pytest.fixture(scope="module")
def bench() -> Any:
    """Imports the module from the folder of the benchmark programs, which is not a package."""
    sys.path.append(str(ROOT / "bench"))
    try:
        import design_figures
    finally:
        sys.path.remove(str(ROOT / "bench"))
    return design_figures


def by_name(figures: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {figure["what"]: figure for figure in figures}


def results_with(path: str, value: Any) -> dict[str, Any]:
    """Returns benchmark results that contain a single number."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return dict(value)


def test_each_figure_is_judged_by_its_target(bench: Any) -> None:
    """Equal meets the target; rates must be higher, all else lower; a missing figure is neither met nor missed."""
    for figure in bench.FIGURES:
        worse = figure.target - 1 if figure.is_more_better else figure.target + 1
        for measured, is_met in ((figure.target, True), (worse, False), (None, None)):
            results = {figure.bench: results_with(figure.path, measured)}
            judged = by_name(bench.judged(results))[figure.what]
            assert (judged["measured"], judged["is_met"]) == (measured, is_met)


def test_figures_have_unique_names_that_include_the_headlines(bench: Any) -> None:
    names = [figure.what for figure in bench.FIGURES]
    assert len(set(names)) == len(names)
    assert set(bench.HEADLINES) <= set(names)


def test_recorded_results_have_every_figure_of_their_bench(bench: Any) -> None:
    """If a benchmark renames a result, its figure is not lost silently."""
    for path in RECORDED:
        name, printed = path.stem.rpartition("-")[2], json.loads(path.read_text())
        results = printed["results"] if name == "all" else {name: printed}
        lost = [one["what"] for one in bench.judged(results) if one["bench"] in results and one["measured"] is None]
        assert lost == [], path.name


def test_table_shows_the_headlines_that_were_measured(bench: Any) -> None:
    """Values have three digits and a unit, and missed targets are marked."""
    results = {
        "api": {"get": {"rps": 7909}, "rss_empty_mb": 64.94},
        "node": {"simulated_2000": {"ready_s": {"max": 6.3773}}},
    }
    assert bench.table(bench.judged(results)).splitlines()[2:] == [
        "| 2,000 simulated pods at once → all Ready | 120 s | 6.38 s | ≤ 20 |",
        "| API server: memory, empty | 308 MB | 64.9 MB | ≤ 60, missed |",
        "| API server: get, 16 at once | 826/s | 7,909/s | ≥ 3,000 |",
    ]


def test_targets_in_recorded_results_agree_with_the_figures(bench: Any) -> None:
    for path in RECORDED:
        name, printed = path.stem.rpartition("-")[2], json.loads(path.read_text())
        for figure in bench.FIGURES:
            found: Any = printed.get("targets", {}) if figure.bench == name else {}
            for part in figure.path.split("."):
                found = found.get(part, {}) if isinstance(found, dict) else {}
            assert found in ({}, figure.target), (path.name, figure.what)
