"""The parts of an expression, as a tree of frozen values.

What macros stand for is in the tree already: `has` is a `Select` that tests, the others are a `Fold` or a `Bind`.
Nodes are told apart by identity, so that what is found out about one can be kept beside the tree.

Upstream: common/ast of github.com/google/cel-go
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """Any part of an expression, and the place in its text where complaints about it point."""

    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expr):
    """A constant."""

    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Ident(Expr):
    """A name: a variable or a type."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select(Expr):
    """`operand.field`, `operand.?field`, or with `is_test` whether the field is there."""

    operand: Expr
    field: str
    is_test: bool = False
    is_optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class CallExpr(Expr):
    """A function or an operator; operators have names like `_+_`. `&&` and `||` take any number of arguments."""

    function: str
    target: Expr | None
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListNode(Expr):
    """`[a, ?b]`."""

    items: tuple[Expr, ...]
    optional: frozenset[int] = frozenset()
    """The places of items that are left out if they have no value."""


@dataclass(frozen=True, slots=True, eq=False)
class MapEntry:
    """`key: value` of a map."""

    key: Expr
    value: Expr
    is_optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class MapNode(Expr):
    """`{a: b, ?c: d}`."""

    entries: tuple[MapEntry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MessageNode(Expr):
    """`Name{field: value}`; Kubernetes has no type that could be made this way."""

    name: str


class FoldKind(StrEnum):
    """What a macro makes of the items it goes through."""

    ALL = "all"
    EXISTS = "exists"
    EXISTS_ONE = "exists_one"
    LIST = "list"
    MAP = "map"
    MERGE = "merge"


@dataclass(frozen=True, slots=True, eq=False)
class Fold(Expr):
    """A macro that evaluates `body` for each item of a range; with `second`, for each key or index and its value."""

    kind: FoldKind
    range: Expr
    first: str
    second: str
    filter: Expr | None
    body: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Bind(Expr):
    """`body` with a name for a value."""

    name: str
    value: Expr
    body: Expr


def qualified_name(node: Expr | None) -> str:
    """`a.b.c` if the node is nothing but names; empty otherwise."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.is_test and not node.is_optional:
        prefix = qualified_name(node.operand)
        return f"{prefix}.{node.field}" if prefix else ""
    return ""
