"""Checks the types of a CEL expression and selects the candidate overloads of each call.

Upstream: vendor/github.com/google/cel-go/checker/checker.go
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pykubelet.api.cel import ast, types
from pykubelet.api.cel.functions import FUNCTIONS, Overload
from pykubelet.api.cel.parser import RESERVED, too_deep_error
from pykubelet.api.cel.validators import literal_issues
from pykubelet.api.cel.values import ExpressionError, Issue, Uint

_LITERALS = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
}
_LOGIC = frozenset({"_&&_", "_||_"})


class CheckedExpr(NamedTuple):
    """The result type of an expression, and the overloads of its calls."""

    result: types.Type
    overloads: Mapping[ast.Expr, Sequence[Overload]]
    """The candidate overloads of each call."""


def check_expression(source: str, root: ast.Expr, variables: Mapping[str, types.Type]) -> CheckedExpr:
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


def called_function(node: ast.CallExpr) -> tuple[str, tuple[ast.Expr, ...], bool]:
    """Returns function name, arguments and whether the first is the receiver: `a.f()` may be `f` on `a`, or `a.f`."""
    if node.target is None:
        return node.function, node.args, False
    prefix = ast.qualified_name(node.target)
    if prefix and (name := f"{prefix}.{node.function}") in FUNCTIONS:
        return name, node.args, False
    return node.function, (node.target, *node.args), True


class _Checker:
    """Infers types from the leaves upwards."""

    def __init__(self, variables: Mapping[str, types.Type]) -> None:
        self.issues: list[Issue] = []
        self.overloads: dict[ast.Expr, list[Overload]] = {}
        self._types: dict[ast.Expr, types.Type] = {}
        self._bindings: types.Bindings = {}
        self._scope = dict(variables)
        self._parameters = 0

    def check(self, node: ast.Expr) -> types.Type:
        match node:
            case ast.Literal():
                result = _LITERALS[type(node.value)]
            case ast.Ident() | ast.MessageNode():
                result = self._ident(node)
            case ast.Select():
                result = self._select(node)
            case ast.CallExpr():
                result = self._call(node)
            case ast.ListNode():
                result = self._list(node)
            case ast.MapNode():
                result = self._map(node)
            case ast.Fold():
                result = self._fold(node)
            case ast.Bind():
                result = self._within({node.name: self.check(node.value)}, node.body)
            case _:
                raise AssertionError(node)
        self._types[node] = result
        return result

    def final(self, node: ast.Expr) -> types.Type:
        """Returns the final type of a checked node, with all bindings applied."""
        return self.known(self._types[node], unknown_as_dyn=True)

    def known(self, given: types.Type, *, unknown_as_dyn: bool = False) -> types.Type:
        return types.substitute(self._bindings, given, unknown_as_dyn=unknown_as_dyn)

    def _ident(self, node: ast.Ident | ast.MessageNode) -> types.Type:
        found = self._named(node.name) if isinstance(node, ast.Ident) else None
        return found or self._issue(node, f"undeclared reference to '{node.name}' (in container '')", types.ERROR)

    def _issue(self, node: ast.Expr, message: str, result: types.Type = types.DYN) -> types.Type:
        self.issues.append(Issue(node.at, message))
        return result

    def _fits(self, left: Sequence[types.Type], right: Sequence[types.Type]) -> bool:
        bindings = types.unify(self._bindings, left, right)
        if bindings is None:
            return False
        self._bindings = bindings
        return True

    def _new_parameter(self) -> types.Type:
        self._parameters += 1
        return types.param(f"_var{self._parameters - 1}")

    def _named(self, name: str) -> types.Type | None:
        if name in self._scope:
            return self._scope[name]
        return types.type_of(types.TYPE_NAMES[name]) if name in types.TYPE_NAMES else None

    def _within(self, names: Mapping[str, types.Type], body: ast.Expr) -> types.Type:
        outer = self._scope
        self._scope = {**outer, **names}
        result = self.check(body)
        self._scope = outer
        return result

    def _select(self, node: ast.Select) -> types.Type:
        name = ast.qualified_name(node)
        if name and (found := self._named(name)):
            return found
        operand = self.known(self.check(node.operand))
        is_optional = node.is_optional
        if operand.kind == "optional":
            operand, is_optional = operand.params[0], True
        result = self._field(node, operand)
        if node.is_test:
            return types.BOOL
        return types.optional_of(result) if is_optional else self.known(result)

    def _field(self, node: ast.Select, operand: types.Type) -> types.Type:
        match operand.kind:
            case "map":
                return operand.params[1]
            case "object":
                # After a dot, a reserved word needs no escaping.
                name = f"__{node.field}__" if node.field in RESERVED else node.field
                found = operand.fields.get(name)
                return found or self._issue(node, f"undefined field '{node.field}'", types.ERROR)
            case "param":
                self._fits((types.DYN,), (operand,))
                return types.DYN
        if types.is_dyn_or_error(operand):
            return types.DYN
        return self._issue(node, f"type '{operand}' does not support field selection")

    def _call(self, node: ast.CallExpr) -> types.Type:
        name, args, is_member = called_function(node)
        # Without a helper function: each extra stack frame per level reduces the maximum depth.
        given = list(map(self.check, args))
        if name in _LOGIC:
            return self._logic(node.args, given)
        if name not in FUNCTIONS:
            return self._issue(node, f"undeclared reference to '{name}' (in container '')", types.ERROR)
        result: types.Type | None = None
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
                    result = types.DYN
        if result is None:
            shown = [str(self.known(each, unknown_as_dyn=True)) for each in given]
            on = f"{shown.pop(0)}." if is_member else ""
            return self._issue(node, _no_overload(name, f"{on}({', '.join(shown)})"), types.ERROR)
        return result

    def _instance(self, form: types.Signature) -> tuple[list[types.Type], types.Type]:
        """Returns a signature with fresh type parameters."""
        own: types.Bindings = {}
        for each in (*form.args, form.result):
            for name in _parameters(each):
                if name not in own:
                    own[name] = self._new_parameter()
        return [types.substitute(own, each) for each in form.args], types.substitute(own, form.result)

    def _logic(self, args: Sequence[ast.Expr], given: Sequence[types.Type]) -> types.Type:
        result = types.BOOL
        for arg, found in zip(args, given, strict=True):
            if not self._fits((found,), (types.BOOL,)):
                result = self._issue(arg, _mismatch(types.BOOL, self.known(found)), types.ERROR)
        return result

    def _joined(self, before: types.Type | None, found: types.Type) -> types.Type:
        """Returns the common type of items, or dyn if they differ."""
        if before is None:
            return found
        return types.most_general(before, found) if self._fits((before,), (found,)) else types.DYN

    def _item(self, node: ast.Expr, *, is_optional: bool) -> types.Type:
        found = self.check(node)
        if not is_optional:
            return found
        known = self.known(found)
        if known.kind == "optional":
            return known.params[0]
        return (
            found
            if types.is_dyn_or_error(known)
            else self._issue(node, _mismatch(types.optional_of(known), known), known)
        )

    def _list(self, node: ast.ListNode) -> types.Type:
        item: types.Type | None = None
        for place, each in enumerate(node.items):
            item = self._joined(item, self._item(each, is_optional=place in node.optional))
        return types.list_of(item or self._new_parameter())

    def _map(self, node: ast.MapNode) -> types.Type:
        key: types.Type | None = None
        value: types.Type | None = None
        for entry in node.entries:
            key = self._joined(key, self.check(entry.key))
            value = self._joined(value, self._item(entry.value, is_optional=entry.is_optional))
        return types.map_of(key or self._new_parameter(), value or self._new_parameter())

    def _fold(self, node: ast.Fold) -> types.Type:
        names = self._loop_variables(node, self.known(self.check(node.range)))
        if node.filter is not None:
            found = self._within(names, node.filter)
            if not self._fits((found,), (types.BOOL,)):
                self._conditional(node, found)
        body = self._within(names, node.body)
        match node.kind:
            case ast.FoldKind.LIST:
                return types.list_of(self.known(body))
            case ast.FoldKind.MAP:
                return types.map_of(names[node.first], self.known(body))
            case ast.FoldKind.MERGE:
                result = types.map_of(self._new_parameter(), self._new_parameter())
                if not self._fits((body,), (result,)):
                    shown = f"(map(dyn, dyn), {self.known(body, unknown_as_dyn=True)})"
                    return self._issue(node, _no_overload("cel.@mapInsert", shown), types.ERROR)
                return self.known(result)
            case ast.FoldKind.EXISTS_ONE:
                if not self._fits((body,), (types.BOOL,)):
                    self._conditional(node, body)
                return types.BOOL
            case _:
                return self._logic((node.body,), (body,))

    def _conditional(self, node: ast.Fold, found: types.Type) -> None:
        kept = {ast.FoldKind.EXISTS_ONE: "int", ast.FoldKind.LIST: "list(dyn)"}.get(node.kind, "map(dyn, dyn)")
        shown = f"({self.known(found, unknown_as_dyn=True)}, {kept}, {kept})"
        self._issue(node, _no_overload("_?_:_", shown))

    def _loop_variables(self, node: ast.Fold, items: types.Type) -> dict[str, types.Type]:
        first: types.Type = types.DYN
        second: types.Type = types.DYN
        match items.kind:
            case "list":
                first = items.params[0]
                if node.second:
                    first, second = types.INT, first
            case "map":
                first, second = items.params
            case "dyn" | "error" | "param":
                self._fits((types.DYN,), (items,))
            case _:
                detail = "cannot be range of a comprehension (must be list, map, or dynamic)"
                self._issue(node.range, f"expression of type '{items}' {detail}")
                first = second = types.ERROR
        return {node.first: first, node.second: second} if node.second else {node.first: first}


def _parameters(given: types.Type) -> list[str]:
    if given.kind == "param":
        return [given.name]
    return [name for each in given.params for name in _parameters(each)]


def _mismatch(wanted: types.Type, found: types.Type) -> str:
    return f"expected type '{wanted}' but found '{found}'"


def _no_overload(name: str, shown: str) -> str:
    return f"found no matching overload for '{name}' applied to '{shown}'"
