"""The tours in docs match traced runs: every place in a numbered step is entered, in the order of the steps."""

import re
import sys
from pathlib import Path

import pytest

from markdown_blocks import read_places

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tools"))

from trace_path import PATHS  # noqa: E402  a tool, not a package

TOURS = {"path-of-a-pod.md": "static-pod", "path-of-a-request.md": "patch", "path-of-a-deployment.md": "deployment"}
_STEP = re.compile(r"^\d+\. .*?(?=^\d+\. |^\S(?!\d*\. )|\Z)", re.MULTILINE | re.DOTALL)


def steps(text: str) -> list[list[tuple[str, str]]]:
    """The places that each numbered step names."""
    return [[place for place in read_places(step) if place[1]] for step in _STEP.findall(text)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("tour", TOURS)
def test_tour_follows_a_traced_run(tour: str) -> None:
    """It fails when a step is not entered, or entered before an earlier step."""
    found = steps((ROOT / "docs" / tour).read_text())
    assert len(found) >= 5
    assert [number for number, places in enumerate(found, 1) if not places] == [], "each step names a place"
    entered = {place: index for index, place in enumerate(PATHS[TOURS[tour]]())}
    assert [place for places in found for place in places if place not in entered] == []
    # Later steps repeat: statuses are sent and pods are synced several times.
    firsts = [entered[places[0]] for places in found][:8]
    assert firsts == sorted(firsts), "steps in the order in which they happen"
