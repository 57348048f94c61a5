"""The server that tries mutations in forks, with a small module and its tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
MODULE = """LIMIT = 5


def is_small(number: int) -> bool:
    return number < LIMIT


check = (lambda: is_small)()
"""
TESTS = """from pykubelet.rules import check
from pathlib import Path


def test_small():
    assert check(4)


def test_limit():
    assert not check(5)


def test_is_first():
    assert not (mark := Path("ran")).exists()
    mark.touch()


def test_endless():
    while not check(0):
        pass
"""


# The tests, a change, and the answer.
REQUESTS = (
    (["test_small"], "number < LIMIT", "number > LIMIT", "caught"),
    (["test_small"], "number < LIMIT", "number <= LIMIT", "survived"),
    (["test_small", "test_limit"], "number < LIMIT", "number <= LIMIT", "caught"),
    (["test_small"], "number < LIMIT", "number \\\n > LIMIT", "caught"),
    (["test_endless"], "number < LIMIT", "number > LIMIT", "caught"),
    (["test_small"], "LIMIT = 5", "LIMIT = 3", "unknown"),
    (["test_newer"], "number < LIMIT", "number > LIMIT", "unknown"),
    (["test_is_first", "test_is_first"], "number < LIMIT", "number <= LIMIT", "unknown"),
)


def test_change_is_caught_if_a_test_fails_only_with_it(tmp_path: Path) -> None:
    """What changes no function, or what no test notices, must be tried without a fork."""
    (tmp_path / "pykubelet").mkdir()
    (tmp_path / "pykubelet/__init__.py").touch()
    (tmp_path / "pykubelet/rules.py").write_text(MODULE)
    (tmp_path / "test_rules.py").write_text(TESTS)
    (reader, requests), (answers, writer) = os.pipe(), os.pipe()
    with os.fdopen(requests, "w") as lines:
        for tests, old, new, _ in REQUESTS:
            names = [f"test_rules.py::{name}" for name in tests]
            print(json.dumps({"tests": names, "old": MODULE, "new": MODULE.replace(old, new)}), file=lines)
    paths = {"PYTHONPATH": f"{tmp_path}:{ROOT / 'tools'}", "MUTATION_SERVER": f"{reader},{writer}"}
    command = (
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-p",
        "mutation_server",
        "-p",
        "no:cacheprovider",
        "-o",
        "timeout=1",
    )
    done = subprocess.run(
        (*command, "--basetemp=temp", "test_rules.py"), cwd=tmp_path, env={**os.environ, **paths},
        pass_fds=(reader, writer), check=False, capture_output=True, text=True,
    )  # fmt: skip
    os.close(reader)
    os.close(writer)
    with os.fdopen(answers) as found:
        assert found.read().splitlines() == [answer for *_, answer in REQUESTS], done.stdout + done.stderr
