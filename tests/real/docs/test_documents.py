"""Runs every command and every program in the README and the guides as written."""

import re
from pathlib import Path
from pwd import getpwnam
from tempfile import TemporaryDirectory

import pytest

from document_session import ROOT, type_document
from markdown_blocks import Block, read_blocks
from requirements import needs_root

pytestmark = pytest.mark.timeout(240)

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = {str(path.relative_to(ROOT)): read_blocks(path.read_text()) for path in DOCUMENTS}
LANGUAGES = {"sh", "python", "yaml", "console"}
WORDS = {"not-run", "stays", "after-ctrl-c", "pytest", "file"}
# Blocks that one machine without a network cannot run.
MOST_NOT_RUN = 6
PATH = re.compile(r"[`(]((?:bench|deploy|docs|examples|scripts|src|tests|tools)/[\w./-]+)[`)]")
# The user ID of an ordinary user.
ORDINARY = 12345


def is_run(block: Block) -> bool:
    return bool(block.language) and "not-run" not in block.options


@pytest.mark.parametrize("name", [name for name, blocks in BLOCKS.items() if any(map(is_run, blocks))])
def test_what_the_document_says_works(name: str, tmp_path: Path) -> None:
    """Its blocks run in order in one shell and give the documented output."""
    problems = type_document(ROOT / name, tmp_path)
    assert not problems, "\n\n".join(problems)


@needs_root
@pytest.mark.parametrize("guide", ["run-pods-on-one-machine", "run-an-app-on-one-machine"])
def test_one_machine_is_enough_for_an_ordinary_user(guide: str) -> None:
    """These guides with all of their examples work without root. PostgreSQL wants its user to have an account."""
    uid = getpwnam("postgres").pw_uid if "app" in guide else ORDINARY
    with TemporaryDirectory() as folder:
        problems = type_document(ROOT / "docs/guides" / f"{guide}.md", Path(folder), uid=uid)
    assert not problems, "\n\n".join(problems)


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_say_what_they_are(name: str) -> None:
    """Blocks with commands have a language that is run, and only known options; diagrams have no language."""
    for block in BLOCKS[name]:
        where = f"{name}:{block.line}"
        if not block.language:
            assert not block.looks_like_commands, f"{where} has commands, but no language: nobody would run it"
        else:
            assert block.language in LANGUAGES, where
            assert set(block.options) <= WORDS, where


@pytest.mark.parametrize("name", [name for name in BLOCKS if name == "README.md" or name.startswith("docs/guides/")])
def test_files_that_are_named_exist(name: str) -> None:
    """Paths of this project in README and the guides must exist."""
    named = set(PATH.findall((ROOT / name).read_text()))
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    """A reason has at least three words."""
    reasons = [block.options["not-run"] for blocks in BLOCKS.values() for block in blocks if "not-run" in block.options]
    assert len(reasons) <= MOST_NOT_RUN
    assert [reason for reason in reasons if len(reason.split()) < 3] == []
