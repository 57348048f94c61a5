"""Tab-separated text aligned in columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.cli.printers.describe.describer import aligned


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("plain", "plain"),
        ("a:\tb\nlong:\tc\n", "a:     b\nlong:  c\n"),
        ("a\tb\n\nlong\tc", "a  b\n\nlong  c"),
        ("a\tb\tc\nd\te\nlong\tf\tg", "a     b  c\nd     e\nlong  f  g"),
        ("x\t\ty", "x    y"),
        ("x\t", "x  "),
        ("title\na\tb\nlonger\tc\nend", "title\na       b\nlonger  c\nend"),
    ],
)
def test_cells_of_neighbouring_lines_share_a_width(text: str, shown: str) -> None:
    """A line without the cell ends the column; text after the last tab belongs to no column."""
    assert aligned(text) == shown


@given(st.lists(st.lists(st.text("ab ", max_size=5), min_size=1, max_size=4), max_size=8))
def test_alignment_changes_only_spaces(lines: list[list[str]]) -> None:
    """Without spaces and tabs the text is unchanged, with the same number of lines."""
    text = "\n".join("\t".join(cells) for cells in lines)
    shown = aligned(text)
    assert shown.replace(" ", "") == text.replace(" ", "").replace("\t", "")
    assert shown.count("\n") == text.count("\n")
