"""Compiles a checked CEL expression into a function.

Each node becomes a closure over its parts, so evaluation does no lookups in the tree. Closures work on a frame: the
remaining steps, then the variables by position. A failed evaluation raises CelError, which `&&`, `||` and macros may
absorb; one that exceeds its steps raises OutOfBudgetError. Step costs are our own measure: one per iteration and call,
more for long strings and lists.

Upstream: vendor/github.com/google/cel-go/interpreter/planner.go,
vendor/github.com/google/cel-go/interpreter/interpretable.go,
vendor/github.com/google/cel-go/interpreter/runtimecost.go, vendor/github.com/google/cel-go/cel/env.go,
vendor/github.com/google/cel-go/cel/program.go
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pykubelet.api.cel import ast
from pykubelet.api.cel.checker import called_function, check_expression
from pykubelet.api.cel.functions import Overload, resolve_overload
from pykubelet.api.cel.library.authz import CHECK_STEPS, AccessDecision
from pykubelet.api.cel.library.lists import QUADRATIC
from pykubelet.api.cel.library.operators import element, optional_element
from pykubelet.api.cel.parser import parse
from pykubelet.api.cel.types import TYPE_NAMES, Type
from pykubelet.api.cel.validators import children
from pykubelet.api.cel.values import (
    MISSING,
    NONE,
    CelError,
    Duration,
    Frame,
    Optional,
    OutOfBudgetError,
    Timestamp,
    Uint,
    elements,
    equal,
    is_map,
    items,
    lookup,
    no_such_overload,
    spend_steps,
)
from pykubelet.api.regexp.regexp import go_pattern
from pykubelet.api.regexp.syntax import PatternError

Code = Callable[[Frame], Any]
# The approximate cost of an iteration, besides its calls, which are counted separately.
_ROUND = 2


def compile_fold(kind: ast.FoldKind, range_: Code, places: Sequence[int], filter: Code | None, body: Code) -> Code:
    """Returns the closure of a comprehension; `places` are the frame positions of its variables."""
    step = _step(range_, places)
    match kind:
        case ast.FoldKind.ALL:
            return _quantified(step, body, decisive=False)
        case ast.FoldKind.EXISTS:
            return _quantified(step, body, decisive=True)
        case ast.FoldKind.EXISTS_ONE:
            return lambda frame: sum(_truth(body(frame)) for _ in step(frame)) == 1
        case ast.FoldKind.LIST:
            return _listed(step, filter, body)
        case _:
            return _mapped(step, filter, body, None if kind is ast.FoldKind.MERGE else places[0])


def _step(range_: Code, places: Sequence[int]) -> Code:
    """Returns a generator function that stores each item in the frame."""
    first = places[0]

    def one_by_one(frame: Frame) -> Any:
        for item in elements(range_(frame)):
            spend_steps(frame, _ROUND)
            frame[first] = item
            yield

    if len(places) == 1:
        return one_by_one
    second = places[1]

    def in_pairs(frame: Frame) -> Any:
        values = range_(frame)
        if not isinstance(values, list) and not is_map(values):
            raise no_such_overload()
        for key, item in items(values):
            spend_steps(frame, _ROUND)
            frame[first], frame[second] = key, item
            yield

    return in_pairs


def _truth(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise no_such_overload()


def _quantified(step: Code, body: Code, *, decisive: bool) -> Code:
    def quantified(frame: Frame) -> bool:
        failure: CelError | None = None
        for _ in step(frame):
            try:
                value = _truth(body(frame))
            except CelError as error:
                failure = failure or error
                continue
            if value is decisive:
                return decisive
        if failure is not None:
            raise failure
        return not decisive

    return quantified


def _listed(step: Code, filter: Code | None, body: Code) -> Code:
    if filter is None:
        return lambda frame: [body(frame) for _ in step(frame)]
    return lambda frame: [body(frame) for _ in step(frame) if _truth(filter(frame))]


def _mapped(step: Code, filter: Code | None, body: Code, key_place: int | None) -> Code:
    """Builds a map of keys and new values; without a key position, merges the maps that the body returns."""

    def mapped(frame: Frame) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for _ in step(frame):
            if filter is not None and not _truth(filter(frame)):
                continue
            value = body(frame)
            if key_place is None and not is_map(value):
                raise no_such_overload()
            for key, item in items(value) if key_place is None else ((frame[key_place], value),):
                if key in found:
                    raise CelError(f"insert failed: key {key} already exists")
                found[key] = item
        return found

    return mapped


_SIZED = frozenset({str, bytes, list, dict})
_SCALARS = frozenset({bool, int, Uint, float, Timestamp, Duration})
_PATTERNS = frozenset({"matches", "find", "findAll"})


class Compiler:
    """Compiles nodes to closures; assigns frame positions to variables."""

    def __init__(self, variables: Sequence[str], overloads: Mapping[ast.Expr, Sequence[Overload]]) -> None:
        self._overloads = overloads
        self._places = {name: place for place, name in enumerate(variables, 1)}
        self.size = len(variables) + 1
        """The size of the frame."""

    def code(self, node: ast.Expr) -> Code:
        match node:
            case ast.Literal():
                return _constant(node.value)
            case ast.Ident():
                return self._named(node.name)
            case ast.Select():
                return self._select(node)
            case ast.CallExpr():
                return self._call(node)
            case ast.ListNode():
                return self._list(node)
            case ast.MapNode():
                return self._map(node)
            case ast.Fold():
                return self._fold(node)
            case ast.Bind():
                return self._bind(node)
        raise AssertionError(node)

    def _named(self, name: str) -> Code:
        if name in self._places:
            place = self._places[name]
            return lambda frame: frame[place]
        return _constant(TYPE_NAMES[name])

    def _select(self, node: ast.Select) -> Code:
        name = ast.qualified_name(node)
        if name in self._places:
            # A variable with a dot: `authorizer.requestResource`.
            return self._named(name)
        if name in TYPE_NAMES and name.partition(".")[0] not in self._places:
            return _constant(TYPE_NAMES[name])
        operand, field = self.code(node.operand), node.field
        if node.is_test:
            return lambda frame: _has_field(operand(frame), field)
        if node.is_optional:
            return lambda frame: _optional_field(operand(frame), field)
        return lambda frame: _field(operand(frame), field)

    def _call(self, node: ast.CallExpr) -> Code:
        name, args, _ = called_function(node)
        codes = list(map(self.code, args))
        if name in _SPECIAL:
            return _SPECIAL[name](codes)
        return _called(name, codes, self._overloads[node])

    def _list(self, node: ast.ListNode) -> Code:
        codes = [self.code(item) for item in node.items]
        if not node.optional:
            if all(isinstance(item, ast.Literal) for item in node.items):
                return _constant([code([]) for code in codes])
            return lambda frame: [code(frame) for code in codes]
        optional = node.optional

        def made(frame: Frame) -> list[Any]:
            found: list[Any] = []
            for place, code in enumerate(codes):
                value = code(frame)
                if place not in optional:
                    found.append(value)
                elif _has_value(value):
                    found.append(value.value)
            return found

        return made

    def _map(self, node: ast.MapNode) -> Code:
        entries = [(self.code(entry.key), self.code(entry.value), entry.is_optional) for entry in node.entries]

        def made(frame: Frame) -> dict[Any, Any]:
            found: dict[Any, Any] = {}
            for key_code, value_code, is_optional in entries:
                key, value = key_code(frame), value_code(frame)
                if is_optional:
                    if not _has_value(value):
                        continue
                    value = value.value
                try:
                    found[key] = value
                except TypeError:
                    raise CelError("unsupported key type") from None
            return found

        return made

    def _fold(self, node: ast.Fold) -> Code:
        items = self.code(node.range)
        places = [self.size + index for index, name in enumerate((node.first, node.second)) if name]
        self.size += len(places)
        outer = self._places
        self._places = {**outer, **dict(zip((node.first, node.second), places, strict=False))}
        filter = self.code(node.filter) if node.filter else None
        body = self.code(node.body)
        self._places = outer
        return compile_fold(node.kind, items, places, filter, body)

    def _bind(self, node: ast.Bind) -> Code:
        value = self.code(node.value)
        place = self.size
        self.size += 1
        outer = self._places
        self._places = {**outer, node.name: place}
        body = self.code(node.body)
        self._places = outer

        def bound(frame: Frame) -> Any:
            frame[place] = value(frame)
            return body(frame)

        return bound


def _constant(value: Any) -> Code:
    return lambda _frame: value


def _called(name: str, codes: list[Code], candidates: Sequence[Overload]) -> Code:
    # Fast path: the argument types have constant cost and determine the overload.
    known: dict[tuple[type, ...], Callable[..., Any]] = {}
    cost = _product if name in QUADRATIC else _matching if name in _PATTERNS else _sum

    def called(frame: Frame) -> Any:
        values = [code(frame) for code in codes]
        classes = tuple(map(type, values))
        compute = known.get(classes)
        if compute is not None:
            spend_steps(frame, 1)
        else:
            compute = resolve_overload(name, candidates, values)
            spend_steps(frame, cost(values))
            if _SCALARS.issuperset(classes):
                known[classes] = compute
        result = compute(*values)
        if type(result) in _SIZED:
            spend_steps(frame, len(result) // 10)
        elif type(result) is AccessDecision:
            spend_steps(frame, CHECK_STEPS)
        return result

    return called


def _length(value: Any) -> int:
    return len(value) if type(value) in _SIZED or isinstance(value, list) else 0


def _sum(values: Sequence[Any]) -> int:
    return 1 + sum(map(_length, values)) // 10


def _product(values: Sequence[Any]) -> int:
    """Cost of functions that compare each item of a list with each of another."""
    return 1 + _length(values[0]) * _length(values[-1])


def _matching(values: Sequence[Any]) -> int:
    """Cost of patterns: like upstream's estimate, four characters of a pattern count as one instruction."""
    return 1 + (1 + _length(values[0])) * _length(values[1]) // 40


def _field(value: Any, field: str) -> Any:
    if type(value) is Optional:
        return _optional_field(value, field)
    found = lookup(value, field) if is_map(value) else MISSING
    if found is MISSING:
        raise CelError(f"no such key: {field}")
    return found


def _optional_field(value: Any, field: str) -> Optional:
    if type(value) is Optional:
        if not value.has_value:
            return NONE
        value = value.value
    return Optional(lookup(value, field) if is_map(value) else MISSING)


def _has_field(value: Any, field: str) -> bool:
    if isinstance(value, Optional):
        return value.has_value and _has_field(value.value, field)
    return is_map(value) and lookup(value, field) is not MISSING


def _has_value(value: Any) -> bool:
    if not isinstance(value, Optional):
        raise CelError(f"cannot initialize optional list element from non-optional value {value}")
    return value.has_value


def _short_circuit(codes: list[Code], decisive: bool) -> Code:
    """Compiles `&&` or `||`: one decisive value suffices, even if other operands fail."""

    def evaluated(frame: Frame) -> bool:
        failure: CelError | None = None
        for code in codes:
            try:
                value = _truth(code(frame))
            except CelError as error:
                failure = failure or error
                continue
            if value is decisive:
                return decisive
        if failure is not None:
            raise failure
        return not decisive

    return evaluated


def _conditional(codes: list[Code]) -> Code:
    condition, yes, no = codes
    return lambda frame: yes(frame) if _truth(condition(frame)) else no(frame)


def _indexed(codes: list[Code], compute: Callable[[Any, Any], Any]) -> Code:
    """Compiles an index: the overload depends on the runtime value, so none is selected."""
    values, index = codes
    return lambda frame: compute(values(frame), index(frame))


def _equality(codes: list[Code], wanted: bool) -> Code:
    left, right = codes
    return lambda frame: equal(left(frame), right(frame), frame) is wanted


def _membership(codes: list[Code]) -> Code:
    item, container = codes

    def contained(frame: Frame) -> bool:
        wanted, values = item(frame), container(frame)
        if isinstance(values, list):
            spend_steps(frame, 1 + len(values) // 10)
            return any(equal(value, wanted, frame) for value in values)
        if not is_map(values):
            raise no_such_overload()
        return lookup(values, wanted) is not MISSING

    return contained


def _alternative(codes: list[Code], *, unwraps: bool) -> Code:
    first, second = codes

    def alternative(frame: Frame) -> Any:
        value = first(frame)
        if type(value) is not Optional:
            return value
        if not value.has_value:
            return second(frame)
        return value.value if unwraps else value

    return alternative


_SPECIAL: dict[str, Callable[[list[Code]], Code]] = {
    "_&&_": lambda codes: _short_circuit(codes, False),
    "_||_": lambda codes: _short_circuit(codes, True),
    "_?_:_": _conditional,
    "_==_": lambda codes: _equality(codes, True),
    "_!=_": lambda codes: _equality(codes, False),
    "@in": _membership,
    "_[_]": lambda codes: _indexed(codes, element),
    "_[?_]": lambda codes: _indexed(codes, optional_element),
    "or": lambda codes: _alternative(codes, unwraps=False),
    "orValue": lambda codes: _alternative(codes, unwraps=True),
}


@dataclass(frozen=True, slots=True)
class CelProgram:
    """A compiled expression, ready to run."""

    result: Type
    names: frozenset[str]
    """The variables that the expression uses."""
    _code: Code
    _size: int

    def run(self, values: Sequence[Any], steps: int) -> tuple[Any, int]:
        """Evaluates the expression; returns the result or CelError, and the remaining steps."""
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
    """The expression is valid, but a pattern in it is not."""


def compile_expression(source: str, variables: Mapping[str, Type]) -> CelProgram:
    """Compiles an expression; raises ExpressionError or InstantiationError."""
    root = parse(source)
    result, overloads = check_expression(source, root, variables)
    try:
        _check_patterns(root)
    except PatternError as error:
        raise InstantiationError(str(error)) from None
    compiler = Compiler(list(variables), overloads)
    code = compiler.code(root)
    return CelProgram(result, frozenset(_names(root)), code, compiler.size)


def _check_patterns(node: ast.Expr) -> None:
    if isinstance(node, ast.CallExpr) and node.function in {"find", "findAll"} and node.target and node.args:
        pattern = node.args[0]
        if isinstance(pattern, ast.Literal) and isinstance(pattern.value, str):
            go_pattern(pattern.value)
    for inner in children(node):
        _check_patterns(inner)


def _names(node: ast.Expr) -> set[str]:
    found = {node.name} if isinstance(node, ast.Ident) else set()
    for inner in children(node):
        found |= _names(inner)
    return found
