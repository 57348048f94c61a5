"""The figures in README come from recorded measurements."""

import re
import subprocess
import sys

from document_session import ROOT


def test_figures_in_readme_are_those_of_the_results_it_names() -> None:
    """The table matches the result files that it names, and each of them exists."""
    command = [sys.executable, str(ROOT / "bench/readme_figures.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    named = re.search(r"<!-- figures: (.+?) -->", (ROOT / "README.md").read_text())
    assert named is not None
    assert [name for name in named[1].split() if not (ROOT / name).exists()] == []
