"""Shell completion: the scripts, and completions without a server."""

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from pykubelet.cli.main import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_calls_pykubelet(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert f"_PYKUBELET_COMPLETE={shell}_complete" in done.output


def test_unknown_shell_is_a_usage_error() -> None:
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2


def offered(*words: str, typed: str = "") -> list[str]:
    """Returns the completions that a shell would show."""
    complete = ShellComplete(main, {}, "pykubelet", "_PYKUBELET_COMPLETE")
    return [item.value for item in complete.get_completions(list(words), typed)]


def test_commands_and_options_are_completed() -> None:
    assert offered(typed="ge") == ["get"]
    assert "--selector" in offered("get", typed="--sel")


def test_completion_is_silent_without_a_server(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No error message disturbs the command line that is being typed."""
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/nothing")
    assert offered("get") == []
    assert offered("logs") == []
    assert offered("get", "-n") == []
    assert capsys.readouterr() == ("", "")
