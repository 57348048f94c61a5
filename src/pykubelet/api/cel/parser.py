"""Parses CEL expressions into a syntax tree, and expands macros such as `has`, `all` and `map`.

Syntax errors have cel-go's form; where several tokens could be blamed, the choice is our own.

Upstream: vendor/github.com/google/cel-go/parser/parser.go, vendor/github.com/google/cel-go/parser/gen/CEL.g4,
vendor/github.com/google/cel-go/parser/macro.go, vendor/github.com/google/cel-go/ext/comprehensions.go
"""

from collections.abc import Callable, Sequence

from pykubelet.api.cel import ast
from pykubelet.api.cel.lexer import LiteralError, Token, literal_value, tokens
from pykubelet.api.cel.values import ExpressionError, Issue

_RESULT = "__result__"
_SORTED = "@sorted"
_KINDS = {
    "all": ast.FoldKind.ALL,
    "exists": ast.FoldKind.EXISTS,
    "exists_one": ast.FoldKind.EXISTS_ONE,
    "existsOne": ast.FoldKind.EXISTS_ONE,
    "map": ast.FoldKind.LIST,
    "filter": ast.FoldKind.LIST,
    "transformList": ast.FoldKind.LIST,
    "transformMap": ast.FoldKind.MAP,
    "transformMapEntry": ast.FoldKind.MERGE,
}


class MacroError(ValueError):
    """The arguments of a macro are invalid."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at
        self.message = message


def expand_macro(function: str, target: ast.Expr | None, args: Sequence[ast.Expr], at: int) -> ast.Expr | None:
    """Expands a macro call."""
    if target is None:
        return _has(args[0], at) if function == "has" and len(args) == 1 else None
    macro = _MACROS.get((function, len(args)))
    return None if macro is None else macro(function, target, args, at)


def _has(arg: ast.Expr, at: int) -> ast.Expr:
    if not isinstance(arg, ast.Select) or arg.is_optional or arg.is_test:
        raise MacroError(arg.at, "invalid argument to has() macro")
    return ast.Select(at, arg.operand, arg.field, is_test=True)


def _variable(node: ast.Expr, message: str = "argument must be a simple name") -> str:
    if not isinstance(node, ast.Ident):
        raise MacroError(node.at, message)
    if node.name == _RESULT:
        raise MacroError(node.at, "iteration variable overwrites accumulator variable")
    return node.name


def _quantified(function: str, target: ast.Expr, args: Sequence[ast.Expr], at: int) -> ast.Expr:
    return ast.Fold(at, _KINDS[function], target, _variable(args[0]), "", None, args[1])


def _mapped(_function: str, target: ast.Expr, args: Sequence[ast.Expr], at: int) -> ast.Expr:
    name = _variable(args[0], "argument is not an identifier")
    return ast.Fold(at, ast.FoldKind.LIST, target, name, "", args[1] if len(args) == 3 else None, args[-1])


def _filtered(_function: str, target: ast.Expr, args: Sequence[ast.Expr], at: int) -> ast.Expr:
    name = _variable(args[0], "argument is not an identifier")
    return ast.Fold(at, ast.FoldKind.LIST, target, name, "", args[1], args[0])


def _in_pairs(function: str, target: ast.Expr, args: Sequence[ast.Expr], at: int) -> ast.Expr:
    first, second = _variable(args[0]), _variable(args[1])
    if first == second:
        raise MacroError(args[1].at, f"duplicate variable name: {first}")
    return ast.Fold(at, _KINDS[function], target, first, second, args[2] if len(args) == 4 else None, args[-1])


def _optional(function: str, target: ast.Expr, args: Sequence[ast.Expr], at: int) -> ast.Expr:
    name = _variable(args[0], f"{function}() variable name must be a simple identifier")
    value: ast.Expr = ast.Bind(at, name, ast.CallExpr(at, "value", target, ()), args[1])
    if function == "optMap":
        value = ast.CallExpr(at, "optional.of", None, (value,))
    return ast.CallExpr(
        at,
        "_?_:_",
        None,
        (ast.CallExpr(at, "hasValue", target, ()), value, ast.CallExpr(at, "optional.none", None, ())),
    )


def _sorted_by(_function: str, target: ast.Expr, args: Sequence[ast.Expr], at: int) -> ast.Expr:
    items = ast.Ident(at, _SORTED)
    keys = _mapped("map", items, args, at)
    return ast.Bind(at, _SORTED, target, ast.CallExpr(at, "@sortByAssociatedKeys", items, (keys,)))


_Macro = Callable[[str, ast.Expr, Sequence[ast.Expr], int], ast.Expr]
_MACROS: dict[tuple[str, int], _Macro] = {
    **{(name, 2): _quantified for name in ("all", "exists", "exists_one", "existsOne")},
    **{(name, 3): _in_pairs for name in ("all", "exists", "exists_one", "existsOne")},
    **{(name, count): _in_pairs for name in ("transformList", "transformMap", "transformMapEntry") for count in (3, 4)},
    ("map", 2): _mapped,
    ("map", 3): _mapped,
    ("filter", 2): _filtered,
    ("optMap", 2): _optional,
    ("optFlatMap", 2): _optional,
    ("sortBy", 2): _sorted_by,
}


_WORDS = "as break const continue else false for function if import in let loop package namespace null return true"
RESERVED = frozenset((*_WORDS.split(), "var", "void", "while"))
"""Reserved words, which cannot be identifiers."""
_RELATIONS = {"<": "_<_", "<=": "_<=_", ">=": "_>=_", ">": "_>_", "==": "_==_", "!=": "_!=_", "in": "@in"}
_BINARY = (_RELATIONS, {"+": "_+_", "-": "_-_"}, {"*": "_*_", "/": "_/_", "%": "_%_"})
_CONSTANTS = {"true": True, "false": False, "null": None}
_NUMBERS = frozenset({"int", "float"})
_LITERALS = _NUMBERS | {"uint", "string", "bytes"}
_OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_MAX_CHARACTERS = 100_000
# Upstream's limit, not counting the root; depth beyond Python's stack limit is rejected the same way.
_MAX_DEPTH = 251


class _CelSyntaxError(Exception):
    """A syntax error and its position."""

    def __init__(self, at: int, message: str) -> None:
        self.issue = Issue(at, message)


def parse(source: str) -> ast.Expr:
    """Parses an expression; raises ExpressionError."""
    if len(source) > _MAX_CHARACTERS:
        limit = f"expression code point size exceeds limit: size: {len(source)}, limit {_MAX_CHARACTERS}"
        raise ExpressionError(source, [Issue(-1, limit)])
    found, issues = tokens(source)
    try:
        node = _CelParser(found).whole()
    except _CelSyntaxError as error:
        raise ExpressionError(source, [*issues, error.issue]) from None
    except RecursionError:
        raise ExpressionError(source, [too_deep_error()]) from None
    if issues:
        raise ExpressionError(source, issues)
    return node


def too_deep_error() -> Issue:
    """Creates the error for an expression that is nested too deeply."""
    return Issue(-1, "max recursion depth exceeded")


class _CelParser:
    """Recursive descent parser over the tokens."""

    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._at = 0
        self._depth = 0

    def whole(self) -> ast.Expr:
        node = self._expression()
        if self._next.kind != "end":
            raise self._unexpected("<EOF>")
        return node

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _accepts(self, sign: str) -> bool:
        if self._next.kind == "sign" and self._next.text == sign:
            self._at += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._accepts(sign):
            raise self._unexpected(f"'{sign}'")

    def _name(self) -> Token:
        if self._next.kind != "name":
            raise self._unexpected("IDENTIFIER")
        return self._take()

    def _unexpected(self, wanted: str) -> _CelSyntaxError:
        token = self._next
        return _CelSyntaxError(token.at, f"Syntax error: mismatched input '{token.shown}' expecting {wanted}")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise RecursionError

    def _expression(self) -> ast.Expr:
        self._deeper()
        node = self._either()
        at = self._next.at
        if self._accepts("?"):
            chosen = self._either()
            self._expect(":")
            node = ast.CallExpr(at, "_?_:_", None, (node, chosen, self._expression()))
        self._depth -= 1
        return node

    def _either(self) -> ast.Expr:
        return self._joined("||", "_||_", self._both)

    def _both(self) -> ast.Expr:
        return self._joined("&&", "_&&_", lambda: self._binary(0))

    def _joined(self, sign: str, function: str, part: Callable[[], ast.Expr]) -> ast.Expr:
        parts = [part()]
        at = self._next.at
        while self._accepts(sign):
            parts.append(part())
        return parts[0] if len(parts) == 1 else ast.CallExpr(at, function, None, tuple(parts))

    def _binary(self, level: int) -> ast.Expr:
        if level == len(_BINARY):
            return self._unary()
        node = self._binary(level + 1)
        depth = self._depth
        while self._next.kind == "sign" and (function := _BINARY[level].get(self._next.text)):
            self._deeper()
            token = self._take()
            node = ast.CallExpr(token.at, function, None, (node, self._binary(level + 1)))
        self._depth = depth
        return node

    def _unary(self) -> ast.Expr:
        token = self._next
        if token.kind == "sign" and token.text in {"!", "-"}:
            if token.text == "-" and self._tokens[self._at + 1].kind in _NUMBERS:
                return self._member()
            count = 0
            while self._accepts(token.text):
                count += 1
            node = self._member()
            function = "!_" if token.text == "!" else "-_"
            # A double negation cancels out.
            return ast.CallExpr(token.at, function, None, (node,)) if count % 2 else node
        return self._member()

    def _member(self) -> ast.Expr:
        node = self._primary()
        depth = self._depth
        while self._next.kind == "sign" and self._next.text in {".", "["}:
            self._deeper()
            token = self._take()
            node = self._selected(node, token.at) if token.text == "." else self._indexed(node, token.at)
        self._depth = depth
        return node

    def _selected(self, node: ast.Expr, at: int) -> ast.Expr:
        is_optional = self._accepts("?")
        name = self._name().text
        opening = self._next.at
        if not is_optional and self._accepts("("):
            return self._called(name, node, opening)
        return ast.Select(at, node, name, is_optional=is_optional)

    def _indexed(self, node: ast.Expr, at: int) -> ast.Expr:
        function = "_[?_]" if self._accepts("?") else "_[_]"
        index = self._expression()
        self._expect("]")
        return ast.CallExpr(at, function, None, (node, index))

    def _called(self, function: str, target: ast.Expr | None, at: int) -> ast.Expr:
        args: list[ast.Expr] = []
        if not self._accepts(")"):
            args.append(self._expression())
            while self._accepts(","):
                args.append(self._expression())
            self._expect(")")
        try:
            return expand_macro(function, target, args, at) or ast.CallExpr(at, function, target, tuple(args))
        except MacroError as error:
            raise _CelSyntaxError(error.at, error.message) from None

    def _primary(self) -> ast.Expr:
        token = self._next
        is_negative_number = token.text == "-" and self._tokens[self._at + 1].kind in _NUMBERS
        if token.kind in _LITERALS or (token.kind == "sign" and is_negative_number):
            return self._literal()
        if token.kind == "name":
            return self._named(token.at)
        if token.kind == "sign":
            self._at += 1
            if token.text in _CONSTANTS:
                return ast.Literal(token.at, _CONSTANTS[token.text])
            match token.text:
                case ".":
                    return self._named(token.at)
                case "(":
                    node = self._expression()
                    self._expect(")")
                    return node
                case "[":
                    return self._list(token.at)
                case "{":
                    return self._map(token.at)
            self._at -= 1
        raise self._unexpected(_OPERAND)

    def _literal(self) -> ast.Literal:
        at = self._next.at
        negative = self._accepts("-")
        try:
            return ast.Literal(at, literal_value(self._take(), negative=negative))
        except LiteralError as error:
            raise _CelSyntaxError(at, str(error)) from None

    def _named(self, at: int) -> ast.Expr:
        token = self._name()
        if token.text in RESERVED:
            raise _CelSyntaxError(at, f"reserved identifier: {token.text}")
        opening = self._next.at
        if self._accepts("("):
            return self._called(token.text, None, opening)
        return self._message(ast.Ident(token.at, token.text))

    def _message(self, name: ast.Expr) -> ast.Expr:
        """Parses what follows a name in braces, as in `a.b{...}`, if anything."""
        ahead = self._at
        while self._tokens[ahead].text == "." and self._tokens[ahead + 1].kind == "name":
            ahead += 2
        if self._tokens[ahead].text != "{" or self._tokens[ahead].kind != "sign":
            return name
        while self._accepts("."):
            name = ast.Select(self._next.at, name, self._name().text)
        at = self._take().at
        while not self._accepts("}"):
            self._accepts("?")
            self._name()
            self._expect(":")
            self._expression()
            if not self._accepts(","):
                self._expect("}")
                break
        return ast.MessageNode(at, ast.qualified_name(name))

    def _list(self, at: int) -> ast.Expr:
        items: list[ast.Expr] = []
        optional: set[int] = set()
        while not self._accepts("]"):
            if self._accepts("?"):
                optional.add(len(items))
            items.append(self._expression())
            if not self._accepts(","):
                self._expect("]")
                break
        return ast.ListNode(at, tuple(items), frozenset(optional))

    def _map(self, at: int) -> ast.Expr:
        entries: list[ast.MapEntry] = []
        while not self._accepts("}"):
            is_optional = self._accepts("?")
            key = self._expression()
            self._expect(":")
            entries.append(ast.MapEntry(key, self._expression(), is_optional))
            if not self._accepts(","):
                self._expect("}")
                break
        return ast.MapNode(at, tuple(entries))
