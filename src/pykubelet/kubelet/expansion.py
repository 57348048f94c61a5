"""Expands `$(NAME)` references in commands, arguments and environment values.

`$$` becomes `$`; an unknown or malformed reference stays as it is, and inserted values are not expanded again. A text
may not become longer than the kernel accepts; upstream has no limit.

Upstream: third_party/forked/golang/expansion/expand.go
"""

import re
from collections.abc import Callable, Iterable, Mapping

MappingFunc = Callable[[str], str]
"""Returns the value of a name, or the reference itself if it is unknown."""

MAX_EXPANDED_CHARACTERS = 128 * 1024
"""Linux starts no process with a longer argument or variable (MAX_ARG_STRLEN)."""
MAX_EXEC_CHARACTERS = 6 * 1024 * 1024
"""Linux starts no process with more arguments and variables in all (three quarters of `_STK_LIM`)."""
# Either `$$`, or a reference up to the first closing parenthesis; any other `$` is literal.
_OPERATOR = re.compile(r"\$(?:\$|\(([^)]*)\))")


class ExpansionTooLongError(ValueError):
    """A text becomes longer than the kernel accepts."""


def expand(text: str, value_of: MappingFunc) -> str:
    """Replaces references from left to right; raises ExpansionTooLongError."""
    room = MAX_EXPANDED_CHARACTERS

    def replace(found: re.Match[str]) -> str:
        nonlocal room
        value = "$" if found[1] is None else value_of(found[1])
        room -= len(value)
        if room < 0:
            raise ExpansionTooLongError(f"references expand to more than {MAX_EXPANDED_CHARACTERS} characters")
        return value

    return _OPERATOR.sub(replace, text) if "$" in text else text


def expand_all(texts: Iterable[str], value_of: MappingFunc) -> tuple[str, ...]:
    """Replaces references in a command or its arguments; raises ExpansionTooLongError."""
    expanded: list[str] = []
    room = MAX_EXEC_CHARACTERS
    for text in texts:
        expanded.append(expand(text, value_of))
        room -= len(expanded[-1])
        if room < 0:
            raise ExpansionTooLongError(f"the command expands to more than {MAX_EXEC_CHARACTERS} characters")
    return tuple(expanded)


def mapping_func_for(*variables: Mapping[str, str]) -> MappingFunc:
    """A function that finds a name in several maps, in order."""

    def value_of(name: str) -> str:
        return next((known[name] for known in variables if name in known), f"$({name})")

    return value_of
