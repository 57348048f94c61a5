"""Checks docs against the code: generated pages are current, and named paths and commands exist."""

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from pykubelet.cli.main import main as pykubelet

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from generate_upstream_map import expand, read_modules, upstream_paths  # noqa: E402  tools is no package

COMMANDS = [
    "apiserver",
    "apply",
    "check",
    "completion",
    "controllers",
    "delete",
    "describe",
    "down",
    "exec",
    "get",
    "logs",
    "node",
    "port-forward",
    "proxy",
    "token create",
    "top",
    "up",
    "why",
]
_GO_FILE = re.compile(r"\b(?:pkg|staging|cmd|plugin)/[A-Za-z0-9_./{},-]+\.go\b")


def test_commands_of_the_reference_are_those_of_the_program() -> None:
    """Both are compared with a third list, so that an empty program and an empty page do not pass."""
    context = click.Context(pykubelet)
    assert pykubelet.list_commands(context) == list(dict.fromkeys(name.partition(" ")[0] for name in COMMANDS))
    page = (ROOT / "docs/reference/commands.md").read_text()
    assert re.findall(r"^## pykubelet (.+)$", page, re.MULTILINE) == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_reference_has_every_option_of_a_command(name: str) -> None:
    """The section of each command has one row for each visible option, with its last spelling."""
    page = (ROOT / "docs/reference/commands.md").read_text()
    section = page.partition(f"\n## pykubelet {name}\n")[2].partition("\n## ")[0]
    command: click.Command | None = pykubelet
    for word in name.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    shown = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    assert [option.opts[-1] for option in shown if f"`{option.opts[-1]}`" not in section] == []
    assert len(re.findall(r"^\| `-", section, re.MULTILINE)) == len(shown)


_GUIDED = sorted(
    {
        name
        for path in (ROOT / "docs/guides").glob("*.md")
        for name in re.findall(r"`(pykubelet(?:\.\w+)+)`", path.read_text())
    }
)


@pytest.mark.parametrize("name", _GUIDED)
def test_dotted_name_of_a_guide_exists(name: str) -> None:
    """A guide names modules of the package, or what a module defines."""
    assert pkgutil.resolve_name(name) is not None


def test_upstream_map_is_current_and_well_formed() -> None:
    """Every `Upstream:` line is a list of paths, and the page shows them all."""
    command = [sys.executable, "tools/generate_upstream_map.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_upstream_line_with_prose_is_found() -> None:
    """The check returns what is not a path, and a line that is not in the last paragraph."""
    assert upstream_paths("Does it.\n\nUpstream: pkg/a/{b,c}.go, pkg/d") == (["pkg/a/b.go", "pkg/a/c.go", "pkg/d"], [])
    assert upstream_paths("Does it.\n\nUpstream: merge in pkg/a/b.go")[1] == ["merge in pkg/a/b.go"]
    assert upstream_paths("Does it.\n\nUpstream: pkg/a.go\n\nMore.")[1] == [
        "not the last paragraph: Upstream: pkg/a.go"
    ]


def test_upstream_files_of_the_specification_have_their_place() -> None:
    """Every Go file that a page of the specification describes is in the map, itself or by its folder."""
    texts = [path.read_text() for path in sorted((ROOT / "docs/spec").glob("*.md"))]
    named = {path for text in texts for found in _GO_FILE.findall(text) for path in expand(found)}
    assert len(named) > 20
    mapped = set(read_modules()[0])
    assert sorted(path for path in named if path not in mapped and path.rpartition("/")[0] not in mapped) == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "README.md"])
def test_paths_that_a_page_names_exist(page: str) -> None:
    """Every path in backticks is a file or folder of the repository, or of the package."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    named = re.findall(r"`(?!pkg/)([a-z_][\w.-]*/(?:[\w.-]+/?)*)`", text)
    assert len(named) > 5
    places = (ROOT, ROOT / "src/pykubelet")
    assert sorted({name for name in named if not any((place / name).exists() for place in places)}) == []
