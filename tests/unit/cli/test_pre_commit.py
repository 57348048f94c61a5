"""The pre-commit hook checks the files it is given and is silent if they are valid."""

import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from pykubelet.cli.main import main

HOOKS = Path(__file__).parents[3] / ".pre-commit-hooks.yaml"
GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: words}\n"


@pytest.fixture
def words() -> list[str]:
    """Returns the command of the hook without the program's name."""
    (hook,) = yaml.safe_load(HOOKS.read_text())
    assert hook["language"] == "python"
    program, *rest = shlex.split(hook["entry"])
    assert program == "pykubelet"
    return rest


def test_hook_is_quiet_on_good_files(words: list[str], tmp_path: Path) -> None:
    """pre-commit passes several files as arguments."""
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file in files:
        file.write_text(GOOD)
    done = CliRunner().invoke(main, [*words, *map(str, files)])
    assert (done.exit_code, done.output) == (0, "")


def test_hook_fails_on_a_bad_file(words: list[str], tmp_path: Path) -> None:
    """The output has file, line and field."""
    (tmp_path / "a.yaml").write_text(GOOD + "dota: {}\n")
    done = CliRunner().invoke(main, [*words, str(tmp_path / "a.yaml")])
    assert done.exit_code == 1
    assert f"{tmp_path}/a.yaml:4:1: dota: unknown field" in done.output
