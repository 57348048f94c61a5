"""The command as a whole: its help has examples and starts fast."""

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
    shown = CliRunner().invoke(main, [*words, "--help"])
    assert shown.exit_code == 0
    assert "Examples:" in shown.output
    assert "Exit codes:" in shown.output


@pytest.mark.parametrize(
    "words", [(), ("get",), ("apply",), ("up",), ("exec",)], ids=lambda words: "-".join(words) or "all"
)
def test_help_imports_nothing_heavy(words: tuple[str, ...]) -> None:
    """Clients, parsers and servers are imported on use, so that help starts fast."""
    script = (
        "import sys; from click.testing import CliRunner; from pykubelet.cli.main import main;"
        f"done = CliRunner().invoke(main, [*{words!r}, '--help']); assert done.exit_code == 0, done.output;"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


def test_every_command_has_the_name_it_is_listed_under() -> None:
    context = click.Context(main)
    assert [command.name for name in COMMANDS if (command := main.get_command(context, name))] == COMMANDS


def test_unknown_command_is_a_usage_error() -> None:
    """The message names the unknown command."""
    done = CliRunner().invoke(main, ["gett"])
    assert done.exit_code == 2
    assert "gett" in done.output
