"""Every numbered case of the specification is a test that carries its number."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

# Section of the specification, and how many numbered cases it has.
CASES = {"1.10": 47, "2.12": 44, "3.16": 57, "4.9": 24, "5.10": 51, "6.24": 75}


@pytest.fixture(scope="module")
def collected() -> set[str]:
    """The numbers that `pytest --collect-only` shows."""
    root = Path(__file__).parent
    folders = [str(root / "upstream"), str(root / "real")]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--no-header", *folders]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\[(?:[^\]]*[ -])?(\d\.\d+-\d\d)\b", listing))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("section", CASES)
def test_no_case_is_missing(section: str, collected: set[str]) -> None:
    """Each number from 01 to the last is in the name of a test."""
    expected = {f"{section}-{number:02}" for number in range(1, CASES[section] + 1)}
    assert expected - collected == set()
