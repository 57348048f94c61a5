"""What is wrong with an expression, and what goes wrong when it is evaluated.

Upstream: common/error.go, common/errors.go and common/types/err.go of github.com/google/cel-go
"""

from collections.abc import Iterable
from typing import NamedTuple


class CelError(Exception):
    """An evaluation failed; the message is cel-go's. `&&` and `||` can do without the failed side."""

    @property
    def message(self) -> str:
        """What went wrong."""
        return str(self.args[0])


class OutOfBudgetError(Exception):
    """An evaluation takes more steps than it may: no operator absorbs this."""


class Issue(NamedTuple):
    """One complaint about an expression."""

    at: int
    """Which character it is about; negative if none in particular."""
    message: str


class ExpressionError(ValueError):
    """An expression that cannot be compiled; the message shows where, as cel-go does."""

    def __init__(self, source: str, issues: Iterable[Issue]) -> None:
        self.issues = sorted(issues, key=lambda issue: issue.at)
        super().__init__("\n".join(_shown(source, issue) for issue in self.issues))


def no_such_overload(what: str = "") -> CelError:
    """Nothing takes these arguments."""
    return CelError(f"no such overload: {what}" if what else "no such overload")


def _shown(source: str, issue: Issue) -> str:
    if issue.at < 0:
        return f"ERROR: <input>:-1:0: {issue.message}"
    before = source[: issue.at]
    start = before.rfind("\n") + 1
    line, column = before.count("\n") + 1, issue.at - start
    snippet = source[start:].partition("\n")[0].replace("\t", " ")
    # Characters beyond ASCII are taken for wide ones, and so are the marks below them.
    dots = "".join("." if char.isascii() else "\uff0e" for char in snippet[:column])
    mark = "^" if snippet[column : column + 1].isascii() else "\uff3e"
    return f"ERROR: <input>:{line}:{column + 1}: {issue.message}\n | {snippet}\n | {dots}{mark}"
