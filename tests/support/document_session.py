"""Runs the code blocks of a document in one shell, in a copy of the tree, on an isolated machine."""

import os
import shutil
import sys
from pathlib import Path

from document_script import answer_file, script_of
from isolated_machine import run_alone
from markdown_blocks import read_blocks, read_console

ROOT = Path(__file__).parents[2]
_COPIED = ("examples", "deploy", "scripts", "pyproject.toml", "requirements.lock")
_SHARED = (".venv", "src", "tests")
_SECONDS = 170.0


def type_document(document: Path, folder: Path, uid: int = 0) -> list[str]:
    """Run all code blocks of a document as this user; returns what failed or printed something else, with lines."""
    blocks = read_blocks(document.read_text())
    tree = folder / "pykubelet"
    _plant(tree)
    (tree / ".blocks.sh").write_text(script_of(blocks))
    if uid:
        for path in (folder, tree, *(path for path in tree.rglob("*") if not path.is_symlink())):
            os.chown(path, uid, uid)
    environment = _environment(tree)
    done = run_alone(["bash", ".blocks.sh"], folder=tree, environment=environment, seconds=_SECONDS, uid=uid)
    if done.returncode:
        return [f"exit code {done.returncode} at the last of these lines of the document:\n{done.stdout}"]
    exchanges = [
        exchange
        for block in blocks
        if block.language == "console" and "not-run" not in block.options
        for exchange in read_console(block)
    ]
    said = {exchange.line: (tree / answer_file(exchange.line)).read_text() for exchange in exchanges}
    return [
        f"line {one.line}: $ {one.command}\nshown:\n{one.answer}\nsaid:\n{said[one.line]}"
        for one in exchanges
        if not one.fits(said[one.line])
    ]


def _plant(tree: Path) -> None:
    """Copy the files that a reader may edit, link those that are only read."""
    tree.mkdir()
    for name in _COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tree / name)
    for name in _SHARED:
        (tree / name).symlink_to(ROOT / name)


def _environment(tree: Path) -> dict[str, str]:
    programs = Path(sys.executable).parent
    path = f"{programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        "PATH": path,
        "HOME": str(tree.parent),
        "LANG": "C.UTF-8",
        "TMPDIR": str(tree.parent),
        "PYTHONWARNINGS": "error",
        "PYTHONFAULTHANDLER": "1",
    }
