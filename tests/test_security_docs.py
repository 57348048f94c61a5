"""Checks the claims of the security documents against the files of the repository."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/pykubelet"
ROWS = [line for line in (ROOT / "docs/security.md").read_text().splitlines() if line.startswith("| ")]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", "\n".join(ROWS))))
LOADERS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "runpy"}
RUNNERS = {"eval", "exec", "compile", "__import__"}


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[f"{path}::{name}" for path, name in NAMED])
def test_every_test_of_the_table_exists(path: str, name: str) -> None:
    """The named file defines a function with that name."""
    tree = ast.parse((ROOT / path).read_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in defined


def test_every_row_has_a_test_or_a_reason() -> None:
    """Each row has three cells with text, and more than 60 tests are named in the form that is read."""
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in ROWS]
    assert len(rows) > 40
    for row in rows:
        assert len(row) == 3, row
        assert all(row), row
    assert len(NAMED) > 60


def test_documents_say_first_that_processes_are_no_sandbox() -> None:
    """The first paragraph of each document has the warning."""
    for name, words in (("process-runtime.md", "not a sandbox"), ("threat-model.md", "not confined")):
        first = (ROOT / "docs" / name).read_text().split("\n\n")[1]
        assert words in first


def test_nothing_is_loaded_from_data() -> None:
    """The package uses no pickle, no eval or exec, and no import_module."""
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not {alias.name.split(".")[0] for alias in node.names} & LOADERS, path
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in LOADERS, path
            elif isinstance(node, ast.Attribute):
                assert node.attr != "import_module", path
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in RUNNERS, path


def test_dependencies_are_pinned_with_hashes() -> None:
    """Each has one version and hashes, and none comes from its own URL or index."""
    lock = (ROOT / "requirements.lock").read_text()
    pinned = re.findall(r"^[\w.\[\], -]+==", lock, re.MULTILINE)
    entries = re.split(r"^(?=[\w.\[\], -]+==)", lock, flags=re.MULTILINE)[1:]
    assert len(pinned) == len(entries) > 10
    assert all("--hash=sha256:" in entry for entry in entries)
    assert not re.search(r"https?://|--index-url|--extra-index-url", lock)
