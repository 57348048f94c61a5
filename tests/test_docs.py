"""What docs say about the code is true: generated pages are current, named paths and commands exist."""

import re
import sys
from pathlib import Path

import click
import pytest

from pykubelet.cli.main import main as pykubelet

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from generate_upstream_map import upstream_paths  # noqa: E402  tools is no package

COMMANDS = [
    "apiserver",
    "apply",
    "check",
    "completion",
    "controllers",
    "delete",
    "describe",
    "exec",
    "get",
    "logs",
    "node",
    "port-forward",
    "up",
    "why",
]


def test_commands_of_the_reference_are_those_of_the_program() -> None:
    """A list of its own, so that an empty program cannot agree with an empty page."""
    context = click.Context(pykubelet)
    assert pykubelet.list_commands(context) == COMMANDS
    page = (ROOT / "docs/reference/commands.md").read_text()
    assert re.findall(r"^## pykubelet (\S+)$", page, re.MULTILINE) == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_reference_has_every_option_of_a_command(name: str) -> None:
    """In the section of the command, in the form in which the command takes it."""
    page = (ROOT / "docs/reference/commands.md").read_text()
    section = page.partition(f"\n## pykubelet {name}\n")[2].partition("\n## ")[0]
    command = pykubelet.get_command(click.Context(pykubelet), name)
    assert command is not None
    shown = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    assert [option.opts[-1] for option in shown if f"`{option.opts[-1]}`" not in section] == []
    assert len(re.findall(r"^\| `-", section, re.MULTILINE)) == len(shown)


def test_upstream_line_with_prose_is_found() -> None:
    """The form is checked, not assumed."""
    assert upstream_paths("Does it.\n\nUpstream: pkg/a/{b,c}.go, pkg/d") == (["pkg/a/b.go", "pkg/a/c.go", "pkg/d"], [])
    assert upstream_paths("Does it.\n\nUpstream: merge in pkg/a/b.go")[1] == ["merge in pkg/a/b.go"]
    assert upstream_paths("Does it.\n\nUpstream: pkg/a.go\n\nMore.")[1] == [
        "not the last paragraph: Upstream: pkg/a.go"
    ]
