"""Text with tabs as text with aligned columns.

A cell ends with a tab; cells of one column in lines that follow each other are as wide as the widest of them. What follows the
last tab of a line belongs to no column.

Upstream: Go's text/tabwriter, which kubectl uses with a padding of two spaces.
"""

_PADDING = 2


def aligned(text: str) -> str:
    """The same text, with spaces in the place of tabs."""
    lines = [line.split("\t") for line in text.split("\n")]
    widths: list[list[int]] = [[] for _ in lines]
    _measure(lines, widths, 0, len(lines))
    return "\n".join(
        "".join(cell.ljust(width) for cell, width in zip(cells, found, strict=False)) + cells[-1]
        for cells, found in zip(lines, widths, strict=True)
    )


def _measure(lines: list[list[str]], widths: list[list[int]], start: int, end: int) -> None:
    """Adds the width of the next column to those of lines that have it, and goes on to the right."""
    column = len(widths[start]) if start < end else 0
    at = start
    while at < end:
        if len(lines[at]) - 1 <= column:
            at += 1
            continue
        first = at
        while at < end and len(lines[at]) - 1 > column:
            at += 1
        width = max(len(lines[index][column]) for index in range(first, at)) + _PADDING
        for index in range(first, at):
            widths[index].append(width)
        _measure(lines, widths, first, at)
