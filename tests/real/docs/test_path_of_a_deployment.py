"""docs/path-of-a-deployment.md against a trace of the controllers that replace the pods of a Deployment."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOUR = ROOT / "docs/path-of-a-deployment.md"
ORDERED_HOPS = 9
_PLACE = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py): ([A-Za-z_.0-9]+)`")
_PROGRAM = "import json, trace_path; print(json.dumps(trace_path.deployment()))"


@pytest.mark.timeout(120)
def test_deployment_enters_the_places_of_the_tour_in_order() -> None:
    """Each place is entered; those of the first hops follow each other, as each is caused by the one before."""
    made = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=ROOT / "tools", stdout=subprocess.PIPE, check=True, timeout=100
    )
    first_calls = {(file, name): number for number, (file, name) in enumerate(json.loads(made.stdout))}
    hops = re.split(r"\n(?=\d+\. )", TOUR.read_text())[1:]
    places = [[tuple(place) for place in _PLACE.findall(hop)] for hop in hops]
    assert len(hops) == 12
    assert [place for hop in places for place in hop if place not in first_calls] == []
    numbers = [first_calls[place] for hop in places[:ORDERED_HOPS] for place in dict.fromkeys(hop)]
    assert len(numbers) > 20
    assert numbers == sorted(numbers)
