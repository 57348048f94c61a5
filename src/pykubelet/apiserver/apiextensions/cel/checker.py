"""Checks the types of a CEL expression and selects the candidate overloads of each call.

Upstream: vendor/github.com/google/cel-go/checker/checker.go
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pykubelet.apiserver.apiextensions.cel.ast import (
    Bind,
    CallExpr,
    Expr,
    Fold,
    FoldKind,
    Ident,
    ListNode,
    Literal,
    MapNode,
    MessageNode,
    Select,
    qualified_name,
)
from pykubelet.apiserver.apiextensions.cel.functions import FUNCTIONS, Overload
from pykubelet.apiserver.apiextensions.cel.parser import RESERVED, too_deep_error
from pykubelet.apiserver.apiextensions.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    TYPE_NAMES,
    UINT,
    Bindings,
    Signature,
    Type,
    is_dyn_or_error,
    list_of,
    map_of,
    most_general,
    optional_of,
    param,
    substitute,
    type_of,
    unify,
)
from pykubelet.apiserver.apiextensions.cel.validators import literal_issues
from pykubelet.apiserver.apiextensions.cel.values import ExpressionError, Issue, Uint

_LITERALS: dict[type, Type] = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}
_LOGIC = frozenset({"_&&_", "_||_"})


class CheckedExpr(NamedTuple):
    """The result type of an expression, and the overloads of its calls."""

    result: Type
    overloads: Mapping[Expr, Sequence[Overload]]
    """The candidate overloads of each call."""


def check_expression(source: str, root: Expr, variables: Mapping[str, Type]) -> CheckedExpr:
    """Checks an expression; raises ExpressionError with all errors."""
    checker = _Checker(variables)
    try:
        result = checker.check(root)
        if not checker.issues:
            checker.issues = literal_issues(root, checker.final)
    except RecursionError:
        checker.issues = [too_deep_error()]
    if checker.issues:
        raise ExpressionError(source, checker.issues)
    return CheckedExpr(checker.known(result, unknown_as_dyn=True), checker.overloads)


def called_function(node: CallExpr) -> tuple[str, tuple[Expr, ...], bool]:
    """Returns function name, arguments and whether the first is the receiver: `a.f()` may be `f` on `a`, or `a.f`."""
    if node.target is None:
        return node.function, node.args, False
    prefix = qualified_name(node.target)
    if prefix and (name := f"{prefix}.{node.function}") in FUNCTIONS:
        return name, node.args, False
    return node.function, (node.target, *node.args), True


class _Checker:
    """Infers types from the leaves upwards."""

    def __init__(self, variables: Mapping[str, Type]) -> None:
        self.issues: list[Issue] = []
        self.overloads: dict[Expr, list[Overload]] = {}
        self._types: dict[Expr, Type] = {}
        self._bindings: Bindings = {}
        self._scope = dict(variables)
        self._parameters = 0

    def check(self, node: Expr) -> Type:
        """Infers the type of a node."""
        match node:
            case Literal():
                result = _LITERALS[type(node.value)]
            case Ident() | MessageNode():
                result = self._ident(node)
            case Select():
                result = self._select(node)
            case CallExpr():
                result = self._call(node)
            case ListNode():
                result = self._list(node)
            case MapNode():
                result = self._map(node)
            case Fold():
                result = self._fold(node)
            case Bind():
                result = self._within({node.name: self.check(node.value)}, node.body)
            case _:
                raise AssertionError(node)
        self._types[node] = result
        return result

    def final(self, node: Expr) -> Type:
        """Returns the final type of a checked node, with all bindings applied."""
        return self.known(self._types[node], unknown_as_dyn=True)

    def known(self, given: Type, *, unknown_as_dyn: bool = False) -> Type:
        """Substitutes the bindings into a type."""
        return substitute(self._bindings, given, unknown_as_dyn=unknown_as_dyn)

    def _ident(self, node: Ident | MessageNode) -> Type:
        found = self._named(node.name) if isinstance(node, Ident) else None
        return found or self._issue(node, f"undeclared reference to '{node.name}' (in container '')", ERROR)

    def _issue(self, node: Expr, message: str, result: Type = DYN) -> Type:
        self.issues.append(Issue(node.at, message))
        return result

    def _fits(self, left: Sequence[Type], right: Sequence[Type]) -> bool:
        bindings = unify(self._bindings, left, right)
        if bindings is None:
            return False
        self._bindings = bindings
        return True

    def _new_parameter(self) -> Type:
        self._parameters += 1
        return param(f"_var{self._parameters - 1}")

    def _named(self, name: str) -> Type | None:
        if name in self._scope:
            return self._scope[name]
        return type_of(TYPE_NAMES[name]) if name in TYPE_NAMES else None

    def _within(self, names: Mapping[str, Type], body: Expr) -> Type:
        outer = self._scope
        self._scope = {**outer, **names}
        result = self.check(body)
        self._scope = outer
        return result

    def _select(self, node: Select) -> Type:
        name = qualified_name(node)
        if name and (found := self._named(name)):
            return found
        operand = self.known(self.check(node.operand))
        is_optional = node.is_optional
        if operand.kind == "optional":
            operand, is_optional = operand.params[0], True
        result = self._field(node, operand)
        if node.is_test:
            return BOOL
        return optional_of(result) if is_optional else self.known(result)

    def _field(self, node: Select, operand: Type) -> Type:
        match operand.kind:
            case "map":
                return operand.params[1]
            case "object":
                # After a dot, a reserved word needs no escaping.
                name = f"__{node.field}__" if node.field in RESERVED else node.field
                found = operand.fields.get(name)
                return found or self._issue(node, f"undefined field '{node.field}'", ERROR)
            case "param":
                self._fits((DYN,), (operand,))
                return DYN
        if is_dyn_or_error(operand):
            return DYN
        return self._issue(node, f"type '{operand}' does not support field selection")

    def _call(self, node: CallExpr) -> Type:
        name, args, is_member = called_function(node)
        # Without a helper function: each extra stack frame per level reduces the maximum depth.
        given = list(map(self.check, args))
        if name in _LOGIC:
            return self._logic(node.args, given)
        if name not in FUNCTIONS:
            return self._issue(node, f"undeclared reference to '{name}' (in container '')", ERROR)
        result: Type | None = None
        for overload in FUNCTIONS[name]:
            form = overload.signature
            if form.is_member != is_member or len(form.args) != len(given):
                continue
            wanted, gives = self._instance(form)
            if self._fits(given, wanted):
                found = self.known(gives)
                self.overloads.setdefault(node, []).append(overload)
                if result is None:
                    result = found
                elif result.kind != "dyn" and found != result:
                    result = DYN
        if result is None:
            shown = [str(self.known(each, unknown_as_dyn=True)) for each in given]
            on = f"{shown.pop(0)}." if is_member else ""
            return self._issue(node, _no_overload(name, f"{on}({', '.join(shown)})"), ERROR)
        return result

    def _instance(self, form: Signature) -> tuple[list[Type], Type]:
        """Returns a signature with fresh type parameters."""
        own: Bindings = {}
        for each in (*form.args, form.result):
            for name in _parameters(each):
                if name not in own:
                    own[name] = self._new_parameter()
        return [substitute(own, each) for each in form.args], substitute(own, form.result)

    def _logic(self, args: Sequence[Expr], given: Sequence[Type]) -> Type:
        result = BOOL
        for arg, found in zip(args, given, strict=True):
            if not self._fits((found,), (BOOL,)):
                result = self._issue(arg, _mismatch(BOOL, self.known(found)), ERROR)
        return result

    def _joined(self, before: Type | None, found: Type) -> Type:
        """Returns the common type of items, or dyn if they differ."""
        if before is None:
            return found
        return most_general(before, found) if self._fits((before,), (found,)) else DYN

    def _item(self, node: Expr, *, is_optional: bool) -> Type:
        found = self.check(node)
        if not is_optional:
            return found
        known = self.known(found)
        if known.kind == "optional":
            return known.params[0]
        return found if is_dyn_or_error(known) else self._issue(node, _mismatch(optional_of(known), known), known)

    def _list(self, node: ListNode) -> Type:
        item: Type | None = None
        for place, each in enumerate(node.items):
            item = self._joined(item, self._item(each, is_optional=place in node.optional))
        return list_of(item or self._new_parameter())

    def _map(self, node: MapNode) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._joined(key, self.check(entry.key))
            value = self._joined(value, self._item(entry.value, is_optional=entry.is_optional))
        return map_of(key or self._new_parameter(), value or self._new_parameter())

    def _fold(self, node: Fold) -> Type:
        names = self._loop_variables(node, self.known(self.check(node.range)))
        if node.filter is not None:
            found = self._within(names, node.filter)
            if not self._fits((found,), (BOOL,)):
                self._conditional(node, found)
        body = self._within(names, node.body)
        match node.kind:
            case FoldKind.LIST:
                return list_of(self.known(body))
            case FoldKind.MAP:
                return map_of(names[node.first], self.known(body))
            case FoldKind.MERGE:
                result = map_of(self._new_parameter(), self._new_parameter())
                if not self._fits((body,), (result,)):
                    shown = f"(map(dyn, dyn), {self.known(body, unknown_as_dyn=True)})"
                    return self._issue(node, _no_overload("cel.@mapInsert", shown), ERROR)
                return self.known(result)
            case FoldKind.EXISTS_ONE:
                if not self._fits((body,), (BOOL,)):
                    self._conditional(node, body)
                return BOOL
            case _:
                return self._logic((node.body,), (body,))

    def _conditional(self, node: Fold, found: Type) -> None:
        kept = {FoldKind.EXISTS_ONE: "int", FoldKind.LIST: "list(dyn)"}.get(node.kind, "map(dyn, dyn)")
        shown = f"({self.known(found, unknown_as_dyn=True)}, {kept}, {kept})"
        self._issue(node, _no_overload("_?_:_", shown))

    def _loop_variables(self, node: Fold, items: Type) -> dict[str, Type]:
        first: Type = DYN
        second: Type = DYN
        match items.kind:
            case "list":
                first = items.params[0]
                if node.second:
                    first, second = INT, first
            case "map":
                first, second = items.params
            case "dyn" | "error" | "param":
                self._fits((DYN,), (items,))
            case _:
                detail = "cannot be range of a comprehension (must be list, map, or dynamic)"
                self._issue(node.range, f"expression of type '{items}' {detail}")
                first = second = ERROR
        return {node.first: first, node.second: second} if node.second else {node.first: first}


def _parameters(given: Type) -> list[str]:
    if given.kind == "param":
        return [given.name]
    return [name for each in given.params for name in _parameters(each)]


def _mismatch(wanted: Type, found: Type) -> str:
    return f"expected type '{wanted}' but found '{found}'"


def _no_overload(name: str, shown: str) -> str:
    return f"found no matching overload for '{name}' applied to '{shown}'"
