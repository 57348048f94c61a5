"""The tours in docs/ name real places: each file exists, and each function or class that they name in it is there."""

import ast
from pathlib import Path

import pytest

from markdown_blocks import read_places

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/pykubelet"
TOURS = sorted((ROOT / "docs").glob("path-of-a-*.md"))


def names_in(path: Path) -> set[str]:
    """Functions and classes of a module, methods as `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{m.name}" for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return found


@pytest.mark.parametrize("tour", TOURS, ids=lambda tour: tour.name)
def test_tour_names_real_places(tour: Path) -> None:
    """A file that moved or a function that was renamed makes the tour wrong, and this test fail."""
    places = read_places(tour.read_text())
    assert places, "a tour names files"
    for file, name in places:
        path = next((root / file for root in (SOURCE, ROOT) if (root / file).exists()), None)
        assert path is not None, file
        assert not name or name in names_in(path), f"{file}: {name}"
