"""What is wrong with a manifest, with the lines of the file that are meant.

In: a problem as a source tells it, and the text of its file. Out: each mistake with line, field, reason and the lines
around it. Of a file that holds a Secret no line is shown.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from pykubelet.kube.manifests.documents import DocumentProblem, told_problems

_FIELD = re.compile(r"([A-Za-z_$][\w$/-]*(?:\.[\w$/-]+|\[[^\]]*\])*): (.+)", re.DOTALL)
_SECRET = re.compile(r"""kind["']?\s*:\s*["']?Secret\b""")
_AROUND = 2
_LONGEST_LINE = 200
MOST_MISTAKES = 50
"""Of one file."""


class Line(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A line of the file, cut if it is very long."""

    number: int
    text: str
    is_meant: bool = False


class Mistake(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One thing that is wrong; line and column are 0 where there is no such place."""

    reason: str
    line: int = 0
    column: int = 0
    field: str = ""
    lines: tuple[Line, ...] = ()


class BrokenManifest(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Everything that is wrong with one file or URL."""

    where: str
    mistakes: tuple[Mistake, ...]
    hides_lines: bool = False
    """Whether its lines are not shown because it holds a Secret."""


def broken_manifest(where: str, message: str, text: str | None) -> BrokenManifest:
    """A problem with the lines it is about; None for a text that is not to be had."""
    hides = text is not None and _SECRET.search(text) is not None
    lines = text.splitlines() if text is not None and not hides else ()
    found = told_problems(message)[:MOST_MISTAKES]
    return BrokenManifest(where, tuple(_mistake(one, lines) for one in found), hides)


def _mistake(problem: DocumentProblem, lines: Sequence[str]) -> Mistake:
    named = _FIELD.fullmatch(problem.message)
    field, reason = named.groups() if named is not None else ("", problem.message)
    return Mistake(reason, problem.line, problem.column, field, _around(problem.line, lines))


def _around(number: int, lines: Sequence[str]) -> tuple[Line, ...]:
    if not 1 <= number <= len(lines):
        return ()
    first, last = max(number - _AROUND, 1), min(number + _AROUND, len(lines))
    return tuple(Line(place, lines[place - 1][:_LONGEST_LINE], place == number) for place in range(first, last + 1))
