"""The text of an expression as a tree.

In: an expression. Out: its root node, or an ExpressionError that says where it stops making sense.

Upstream: parser/parser.go and parser/gen/CEL.g4 of github.com/google/cel-go. Complaints about syntax have its form; which
token they name where several could be blamed is our own choice.
"""

from collections.abc import Callable

from pykubelet.apiserver.custom.cel.faults import ExpressionError, Issue
from pykubelet.apiserver.custom.cel.literals import LiteralError, literal_value
from pykubelet.apiserver.custom.cel.macros import MacroError, expanded
from pykubelet.apiserver.custom.cel.nodes import (
    Call,
    Entry,
    Ident,
    ListNode,
    Literal,
    MapNode,
    MessageNode,
    Node,
    Select,
    qualified_name,
)
from pykubelet.apiserver.custom.cel.tokens import Token, tokens

_WORDS = "as break const continue else false for function if import in let loop package namespace null return true"
RESERVED = frozenset((*_WORDS.split(), "var", "void", "while"))
"""Words that are no names."""
_RELATIONS = {"<": "_<_", "<=": "_<=_", ">=": "_>=_", ">": "_>_", "==": "_==_", "!=": "_!=_", "in": "@in"}
_BINARY = (
    _RELATIONS,
    {"+": "_+_", "-": "_-_"},
    {"*": "_*_", "/": "_/_", "%": "_%_"},
)
_CONSTANTS = {"true": True, "false": False, "null": None}
_NUMBERS = frozenset({"int", "float"})
_LITERALS = _NUMBERS | {"uint", "string", "bytes"}
_OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_MAX_CHARACTERS = 100_000
# Upstream's bound, which does not count the whole; what is deeper than Python's stack allows is refused likewise.
_MAX_DEPTH = 251


class _SyntaxError(Exception):
    """Where the expression stops making sense."""

    def __init__(self, at: int, message: str) -> None:
        self.issue = Issue(at, message)


def parse(source: str) -> Node:
    """The tree of an expression."""
    if len(source) > _MAX_CHARACTERS:
        limit = f"expression code point size exceeds limit: size: {len(source)}, limit {_MAX_CHARACTERS}"
        raise ExpressionError(source, [Issue(-1, limit)])
    found, issues = tokens(source)
    try:
        node = _Parser(found).whole()
    except _SyntaxError as error:
        raise ExpressionError(source, [*issues, error.issue]) from None
    except RecursionError:
        raise ExpressionError(source, [too_deep()]) from None
    if issues:
        raise ExpressionError(source, issues)
    return node


def too_deep() -> Issue:
    """The complaint about an expression with too many parts inside each other."""
    return Issue(-1, "max recursion depth exceeded")


class _Parser:
    """Goes through the tokens once, from left to right."""

    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
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

    def _unexpected(self, wanted: str) -> _SyntaxError:
        token = self._next
        return _SyntaxError(token.at, f"Syntax error: mismatched input '{token.shown}' expecting {wanted}")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise RecursionError

    def _expression(self) -> Node:
        self._deeper()
        node = self._either()
        at = self._next.at
        if self._accepts("?"):
            chosen = self._either()
            self._expect(":")
            node = Call(at, "_?_:_", None, (node, chosen, self._expression()))
        self._depth -= 1
        return node

    def _either(self) -> Node:
        return self._joined("||", "_||_", self._both)

    def _both(self) -> Node:
        return self._joined("&&", "_&&_", lambda: self._binary(0))

    def _joined(self, sign: str, function: str, part: Callable[[], Node]) -> Node:
        parts = [part()]
        at = self._next.at
        while self._accepts(sign):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Call(at, function, None, tuple(parts))

    def _binary(self, level: int) -> Node:
        if level == len(_BINARY):
            return self._unary()
        node = self._binary(level + 1)
        depth = self._depth
        while self._next.kind == "sign" and (function := _BINARY[level].get(self._next.text)):
            self._deeper()
            token = self._take()
            node = Call(token.at, function, None, (node, self._binary(level + 1)))
        self._depth = depth
        return node

    def _unary(self) -> Node:
        token = self._next
        if token.kind == "sign" and token.text in {"!", "-"}:
            if token.text == "-" and self._tokens[self._at + 1].kind in _NUMBERS:
                return self._member()
            count = 0
            while self._accepts(token.text):
                count += 1
            node = self._member()
            function = "!_" if token.text == "!" else "-_"
            # Two of a kind are none.
            return Call(token.at, function, None, (node,)) if count % 2 else node
        return self._member()

    def _member(self) -> Node:
        node = self._primary()
        depth = self._depth
        while self._next.kind == "sign" and self._next.text in {".", "["}:
            self._deeper()
            token = self._take()
            node = self._selected(node, token.at) if token.text == "." else self._indexed(node, token.at)
        self._depth = depth
        return node

    def _selected(self, node: Node, at: int) -> Node:
        is_optional = self._accepts("?")
        name = self._name().text
        opening = self._next.at
        if not is_optional and self._accepts("("):
            return self._called(name, node, opening)
        return Select(at, node, name, is_optional=is_optional)

    def _indexed(self, node: Node, at: int) -> Node:
        function = "_[?_]" if self._accepts("?") else "_[_]"
        index = self._expression()
        self._expect("]")
        return Call(at, function, None, (node, index))

    def _called(self, function: str, target: Node | None, at: int) -> Node:
        args: list[Node] = []
        if not self._accepts(")"):
            args.append(self._expression())
            while self._accepts(","):
                args.append(self._expression())
            self._expect(")")
        try:
            return expanded(function, target, args, at) or Call(at, function, target, tuple(args))
        except MacroError as error:
            raise _SyntaxError(error.at, error.message) from None

    def _primary(self) -> Node:
        token = self._next
        if token.kind in _LITERALS or (token.kind == "sign" and token.text == "-"):
            return self._literal()
        if token.kind == "name":
            return self._named(token.at)
        if token.kind == "sign":
            self._at += 1
            if token.text in _CONSTANTS:
                return Literal(token.at, _CONSTANTS[token.text])
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

    def _literal(self) -> Literal:
        at = self._next.at
        negative = self._accepts("-")
        try:
            return Literal(at, literal_value(self._take(), negative=negative))
        except LiteralError as error:
            raise _SyntaxError(at, str(error)) from None

    def _named(self, at: int) -> Node:
        token = self._name()
        if token.text in RESERVED:
            raise _SyntaxError(at, f"reserved identifier: {token.text}")
        opening = self._next.at
        if self._accepts("("):
            return self._called(token.text, None, opening)
        return self._message(Ident(token.at, token.text))

    def _message(self, name: Node) -> Node:
        """The name, or what is made of it if braces follow: `a.b{...}`."""
        ahead = self._at
        while self._tokens[ahead].text == "." and self._tokens[ahead + 1].kind == "name":
            ahead += 2
        if self._tokens[ahead].text != "{" or self._tokens[ahead].kind != "sign":
            return name
        while self._accepts("."):
            name = Select(self._next.at, name, self._name().text)
        at = self._take().at
        while not self._accepts("}"):
            self._accepts("?")
            self._name()
            self._expect(":")
            self._expression()
            if not self._accepts(","):
                self._expect("}")
                break
        return MessageNode(at, qualified_name(name))

    def _list(self, at: int) -> Node:
        items: list[Node] = []
        optional: set[int] = set()
        while not self._accepts("]"):
            if self._accepts("?"):
                optional.add(len(items))
            items.append(self._expression())
            if not self._accepts(","):
                self._expect("]")
                break
        return ListNode(at, tuple(items), frozenset(optional))

    def _map(self, at: int) -> Node:
        entries: list[Entry] = []
        while not self._accepts("}"):
            is_optional = self._accepts("?")
            key = self._expression()
            self._expect(":")
            entries.append(Entry(key, self._expression(), is_optional))
            if not self._accepts(","):
                self._expect("}")
                break
        return MapNode(at, tuple(entries))
