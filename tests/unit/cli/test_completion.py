"""Scripts for shells, and what they offer without a server."""

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from pykubelet.cli.main import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_asks_this_program(shell: str) -> None:
    """Each shell gets a script that calls pykubelet back."""
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert f"_PYKUBELET_COMPLETE={shell}_complete" in done.output


def test_unknown_shell_is_a_mistake_of_usage() -> None:
    """Exit code 2."""
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2


def offered(*words: str, typed: str = "") -> list[str]:
    """What a shell would show."""
    complete = ShellComplete(main, {}, "pykubelet", "_PYKUBELET_COMPLETE")
    return [item.value for item in complete.get_completions(list(words), typed)]


def test_commands_and_options_are_offered() -> None:
    """By their first letters."""
    assert offered(typed="ge") == ["get"]
    assert "--selector" in offered("get", typed="--sel")


def test_nothing_is_offered_and_nothing_said_without_a_server(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No message disturbs whoever types."""
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/nothing")
    assert offered("get") == []
    assert offered("logs") == []
    assert offered("get", "-n") == []
    assert capsys.readouterr() == ("", "")
