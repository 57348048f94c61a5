"""References to variables in commands, arguments and values: `$(NAME)`.

A text and a function from names to values in, text out; pure. `$$` is a plain `$`; what is no reference stays as it is,
and a value that was put in is not looked at again.

Upstream: third_party/forked/golang/expansion/expand.go
"""

import re
from collections.abc import Callable, Mapping

MappingFunc = Callable[[str], str]
"""The value of a name; the reference itself if there is none."""

# Either `$$`, or a reference up to the first closing parenthesis; any other `$` stands for itself.
_OPERATOR = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, value_of: MappingFunc) -> str:
    """The text with its references replaced, from left to right."""
    return _OPERATOR.sub(lambda found: "$" if found[1] is None else value_of(found[1]), text)


def mapping_func_for(*variables: Mapping[str, str]) -> MappingFunc:
    """Values from several maps, the first that has the name; an unknown name stays a reference."""

    def value_of(name: str) -> str:
        return next((known[name] for known in variables if name in known), f"$({name})")

    return value_of
