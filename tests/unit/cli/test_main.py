"""The command as a whole: its help teaches, and asking for it is quick."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from pykubelet.cli.main import main

COMMANDS = main.list_commands(click.Context(main))
HEAVY = ("aiohttp", "msgspec", "cryptography", "grpc", "yaml", "prometheus_client")


@pytest.mark.parametrize(
    "words", [(), *((name,) for name in COMMANDS)], ids=lambda words: " ".join(words) or "pykubelet"
)
def test_help_has_examples_and_exit_codes(words: tuple[str, ...]) -> None:
    """Whoever asks for help sees how it is used, and what an exit code means."""
    shown = CliRunner().invoke(main, [*words, "--help"])
    assert shown.exit_code == 0
    assert "Examples:" in shown.output
    assert "Exit codes:" in shown.output


@pytest.mark.parametrize(
    "words", [(), ("get",), ("apply",), ("up",), ("exec",)], ids=lambda words: "-".join(words) or "all"
)
def test_help_imports_nothing_heavy(words: tuple[str, ...]) -> None:
    """What talks, parses and serves is imported when it is used, so that help is there at once."""
    script = (
        "import sys; from click.testing import CliRunner; from pykubelet.cli.main import main;"
        f"done = CliRunner().invoke(main, [*{words!r}, '--help']); assert done.exit_code == 0, done.output;"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


def test_every_command_is_called_as_it_is_listed() -> None:
    """The table of names leads to the command of that name."""
    context = click.Context(main)
    assert [command.name for name in COMMANDS if (command := main.get_command(context, name))] == COMMANDS


def test_unknown_command_is_a_mistake_of_usage() -> None:
    """Exit code 2, and the word is named."""
    done = CliRunner().invoke(main, ["gett"])
    assert done.exit_code == 2
    assert "gett" in done.output
