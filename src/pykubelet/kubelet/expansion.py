"""Expands `$(NAME)` references in commands, arguments and environment values.

`$$` becomes `$`; an unknown or malformed reference stays as it is, and inserted values are not expanded again.

Upstream: third_party/forked/golang/expansion/expand.go
"""

import re
from collections.abc import Callable, Mapping

MappingFunc = Callable[[str], str]
"""Returns the value of a name, or the reference itself if it is unknown."""

# Either `$$`, or a reference up to the first closing parenthesis; any other `$` is literal.
_OPERATOR = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, value_of: MappingFunc) -> str:
    """Replaces references from left to right."""
    return _OPERATOR.sub(lambda found: "$" if found[1] is None else value_of(found[1]), text)


def mapping_func_for(*variables: Mapping[str, str]) -> MappingFunc:
    """A function that finds a name in several maps, in order."""

    def value_of(name: str) -> str:
        return next((known[name] for known in variables if name in known), f"$({name})")

    return value_of
