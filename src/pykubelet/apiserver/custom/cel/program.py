"""An expression, compiled: what it gives and how to run it.

Upstream: cel/env.go (Compile) and cel/program.go of github.com/google/cel-go
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pykubelet.apiserver.custom.cel.checker import checked
from pykubelet.apiserver.custom.cel.evaluate import Compiler
from pykubelet.apiserver.custom.cel.faults import CelError, OutOfBudgetError
from pykubelet.apiserver.custom.cel.fold import Code
from pykubelet.apiserver.custom.cel.literal_rules import children
from pykubelet.apiserver.custom.cel.nodes import Call, Ident, Literal, Node
from pykubelet.apiserver.custom.cel.parser import parse
from pykubelet.apiserver.custom.cel.types import Type
from pykubelet.apiserver.custom.go_regex import PatternError, go_pattern


@dataclass(frozen=True, slots=True)
class Program:
    """A function of its variables."""

    result: Type
    names: frozenset[str]
    """The names that the expression uses."""
    _code: Code
    _size: int

    def run(self, values: Sequence[Any], steps: int) -> tuple[Any, int]:
        """What the expression gives, or the CelError that it failed with; and the steps that are left, if any are."""
        frame = [steps, *values]
        frame += [None] * (self._size - len(frame))
        try:
            result = self._code(frame)
        except CelError as error:
            return error, frame[0]
        except OutOfBudgetError:
            return None, -1
        except RecursionError:
            return CelError("max recursion depth exceeded"), frame[0]
        return result, frame[0]


class InstantiationError(ValueError):
    """The expression makes sense, but a pattern in it does not."""


def compile_expression(source: str, variables: Mapping[str, Type]) -> Program:
    """The program of an expression; ExpressionError if it makes no sense, or InstantiationError."""
    root = parse(source)
    result, overloads = checked(source, root, variables)
    try:
        _check_patterns(root)
    except PatternError as error:
        raise InstantiationError(str(error)) from None
    compiler = Compiler(list(variables), overloads)
    code = compiler.code(root)
    return Program(result, frozenset(_names(root)), code, compiler.size)


def _check_patterns(node: Node) -> None:
    if isinstance(node, Call) and node.function in {"find", "findAll"} and node.target and node.args:
        pattern = node.args[0]
        if isinstance(pattern, Literal) and isinstance(pattern.value, str):
            go_pattern(pattern.value)
    for inner in children(node):
        _check_patterns(inner)


def _names(node: Node) -> set[str]:
    found = {node.name} if isinstance(node, Ident) else set()
    for inner in children(node):
        found |= _names(inner)
    return found
