"""The texts of manifests that a command line names: files, folders, standard input."""

import sys
from pathlib import Path

_SUFFIXES = (".json", ".yaml", ".yml")
Text = tuple[str, bytes | str]
"""A file's name and what is in it, or why that cannot be read."""


def texts_at(name: str, *, recursive: bool = False) -> list[Text]:
    """The texts at a path with their names; why not, where a text cannot be had."""
    if name == "-":
        return [("standard input", sys.stdin.buffer.read())]
    path = Path(name)
    try:
        files = _files(path, recursive=recursive) if path.is_dir() else [path]
    except OSError as error:
        return [(name, error.strerror or str(error))]
    if not files:
        return [(name, "there is no .yaml, .yml or .json file in this folder")]
    return [(str(file), _read(file)) for file in files]


def _files(folder: Path, *, recursive: bool) -> list[Path]:
    inside = folder.rglob("*") if recursive else folder.iterdir()
    return sorted(found for found in inside if found.suffix in _SUFFIXES and not found.is_dir())


def _read(path: Path) -> bytes | str:
    try:
        return path.read_bytes()
    except OSError as error:
        return error.strerror or str(error)
