"""`pykubelet check`: file, line, field and reason of everything that is wrong in manifests.

Exit code 0 if all is well, 1 if anything is wrong.
"""

import sys
from pathlib import Path

import click

_SUFFIXES = (".json", ".yaml", ".yml")
Text = tuple[str, bytes | str]
"""A file's name and what is in it, or why that cannot be read."""


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
def check(paths: tuple[str, ...]) -> None:
    """Validate manifests: files, folders of .yaml, .yml and .json files, or - for standard input."""
    from pykubelet.app.manifest_check import problems_in

    bad = 0
    for origin, data in (text for name in paths for text in _texts(name)):
        problems = [f"{origin}: {data}"] if isinstance(data, str) else [*map(str, problems_in(data, origin))]
        bad += len(problems)
        for problem in problems:
            click.echo(problem)
    if bad:
        click.echo(f"{bad} {'problem' if bad == 1 else 'problems'} found", err=True)
        raise SystemExit(1)


def _texts(name: str) -> list[Text]:
    """The texts at a path with their names; why not, where a text cannot be had."""
    if name == "-":
        return [("standard input", sys.stdin.buffer.read())]
    path = Path(name)
    try:
        files = sorted(found for found in path.iterdir() if found.suffix in _SUFFIXES) if path.is_dir() else [path]
    except OSError as error:
        return [(name, error.strerror or str(error))]
    if not files:
        return [(name, "there is no .yaml, .yml or .json file in this folder")]
    return [(str(file), _read(file)) for file in files]


def _read(path: Path) -> bytes | str:
    try:
        return path.read_bytes()
    except OSError as error:
        return error.strerror or str(error)
