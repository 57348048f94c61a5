"""Shell completion with names from a real server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli_lab import Sides

pytestmark = pytest.mark.timeout(120)


def offered(kubeconfig: str, *words: str) -> list[str]:
    """The completions for these words, requested as bash does; the last word is incomplete."""
    line = " ".join(["pykubelet", *words])
    environment = {
        **os.environ,
        "KUBECONFIG": kubeconfig,
        "_PYKUBELET_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words)),
    }
    script = "from pykubelet.cli.main import main; main(prog_name='pykubelet')"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return [row.partition(",")[2] for row in done.stdout.split()]


def test_kinds_names_and_namespaces_are_offered(sides: Sides, kubeconfig: Path) -> None:
    """Kinds of custom resources are completed too."""
    assert offered(str(kubeconfig), "get", "widg") == ["widgets"]
    assert offered(str(kubeconfig), "get", "svc", "ou") == ["outside"]
    assert offered(str(kubeconfig), "describe", "cm/wor") == ["cm/word", "cm/words"]
    assert offered(str(kubeconfig), "logs", "db") == ["db-0"]
    assert offered(str(kubeconfig), "get", "pods", "-n", "kube-p") == ["kube-public"]


def test_completion_offers_nothing_without_a_server(tmp_path: Path) -> None:
    """No error is printed."""
    assert offered(str(tmp_path / "none"), "get", "po") == []
