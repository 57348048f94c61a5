"""The abstract syntax tree of CEL expressions, as frozen nodes.

Macros are already expanded: `has` is a `Select` with `is_test`, the others are a `Fold` or a `Bind`. Nodes compare by
identity, so that types can be recorded beside the tree.

Upstream: vendor/github.com/google/cel-go/common/ast/ast.go
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """Any node, with the offset in the source that errors point to."""

    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expr):
    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Ident(Expr):
    """The name of a variable or type."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select(Expr):
    """`operand.field`, `operand.?field`, or with `is_test` whether the field exists."""

    operand: Expr
    field: str
    is_test: bool = False
    is_optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class CallExpr(Expr):
    """A call of a function or an operator such as `_+_`. `&&` and `||` take any number of arguments."""

    function: str
    target: Expr | None
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListNode(Expr):
    """A list literal: `[a, ?b]`."""

    items: tuple[Expr, ...]
    optional: frozenset[int] = frozenset()
    """Indexes of optional items, which are dropped if they have no value."""


@dataclass(frozen=True, slots=True, eq=False)
class MapEntry:
    """One `key: value` of a map literal."""

    key: Expr
    value: Expr
    is_optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class MapNode(Expr):
    """A map literal: `{a: b, ?c: d}`."""

    entries: tuple[MapEntry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MessageNode(Expr):
    """`Name{field: value}`; Kubernetes has no type that can be created this way."""

    name: str


class FoldKind(StrEnum):
    """The result that a comprehension computes."""

    ALL = "all"
    EXISTS = "exists"
    EXISTS_ONE = "exists_one"
    LIST = "list"
    MAP = "map"
    MERGE = "merge"


@dataclass(frozen=True, slots=True, eq=False)
class Fold(Expr):
    """A comprehension: evaluates `body` for each item, or with `second` for each key or index and value."""

    kind: FoldKind
    range: Expr
    first: str
    second: str
    filter: Expr | None
    body: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Bind(Expr):
    """Evaluates `body` with a variable bound to a value."""

    name: str
    value: Expr
    body: Expr


def qualified_name(node: Expr | None) -> str:
    """Returns `a.b.c` if the node consists only of names; empty otherwise."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.is_test and not node.is_optional:
        prefix = qualified_name(node.operand)
        return f"{prefix}.{node.field}" if prefix else ""
    return ""
