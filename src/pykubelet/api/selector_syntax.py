"""Label selector strings: `a=1,b in (x,y),!c` in, a Selector out.

Upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go (Lexer, Parser)
"""

import re
from typing import NamedTuple

from pykubelet.api.names import qualified_name_errors
from pykubelet.api.selector import Operator, Requirement, Selector, SelectorError, requirement, sorted_selector
from pykubelet.api.validation.field_errors import invalid

# Upstream's scanner reads a NUL as the end of a token, and as the end of everything where a token should start.
_TOKEN = re.compile(r"[ \t\r\n]*+(?:(?P<symbol>[=!]=|[=!(),<>])|(?P<word>[^\0=!(),<> \t\r\n]++))\0?+")
_OPERATORS = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}


class _Token(NamedTuple):
    text: str
    is_word: bool = False


_END = _Token("")


def parse_selector(text: str) -> Selector:
    """The selector that a text stands for; SelectorError with Kubernetes' message if none."""
    tokens = _Tokens(text)
    requirements: list[Requirement] = []
    while tokens.next != _END:
        if not _starts_requirement(tokens.next):
            raise SelectorError(f"found '{tokens.next.text}', expected: !, identifier, or 'end of string'")
        try:
            requirements.append(_requirement(tokens))
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from error
        separator = tokens.take()
        if separator == _END:
            break
        if separator.text != ",":
            raise SelectorError(f"found '{separator.text}', expected: ',' or 'end of string'")
        if not _starts_requirement(tokens.next):
            raise SelectorError(f"found '{tokens.next.text}', expected: identifier after ','")
    return sorted_selector(requirements)


class _Tokens:
    """The tokens of a text, the one that comes next in view; after the last comes the end, again and again."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self.next = self._scan()

    def take(self) -> _Token:
        token, self.next = self.next, self._scan()
        return token

    def _scan(self) -> _Token:
        match = _TOKEN.match(self._text, self._position)
        if match is None:
            return _END
        self._position = match.end()
        return _Token(match["symbol"] or match["word"], match["word"] is not None)


def _starts_requirement(token: _Token) -> bool:
    return token.is_word or token.text == "!"


def _requirement(tokens: _Tokens) -> Requirement:
    negated = tokens.next.text == "!"
    if negated:
        tokens.take()
    key = tokens.take()
    if not key.is_word:
        raise SelectorError(f"found '{key.text}', expected: identifier")
    if messages := qualified_name_errors(key.text):
        raise SelectorError(str(invalid("<nil>", key.text, "; ".join(messages))))
    if negated:
        return requirement(key.text, Operator.DOES_NOT_EXIST)
    if tokens.next == _END or tokens.next.text == ",":
        return requirement(key.text, Operator.EXISTS)
    sign = tokens.take()
    operator = _OPERATORS.get(sign.text)
    if operator is None:
        raise SelectorError(f"found '{sign.text}', expected: in, notin, =, ==, !=, gt, lt")
    values = _value_set(tokens) if sign.is_word else {_exact_value(tokens)}
    return requirement(key.text, operator, sorted(values))


def _exact_value(tokens: _Tokens) -> str:
    if tokens.next == _END or tokens.next.text == ",":
        return ""
    value = tokens.take()
    if not value.is_word:
        raise SelectorError(f"found '{value.text}', expected: identifier")
    return value.text


def _value_set(tokens: _Tokens) -> set[str]:
    """The values between parentheses, where nothing between commas is the empty value."""
    opening = tokens.take()
    if opening.text != "(":
        raise SelectorError(f"found '{opening.text}' expected: '('")
    if tokens.next.text == ")":
        tokens.take()
        return {""}
    if not tokens.next.is_word and tokens.next.text != ",":
        raise SelectorError(f"found '{tokens.next.text}', expected: ',', ')' or identifier")
    values: set[str] = set()
    while tokens.next.text != ")":
        _one_value(tokens, values)
    tokens.take()
    return values


def _one_value(tokens: _Tokens, values: set[str]) -> None:
    token = tokens.take()
    if token.is_word:
        values.add(token.text)
        if tokens.next.text not in {",", ")"}:
            raise SelectorError(f"found '{tokens.next.text}', expected: ',' or ')'")
        return
    if token.text != ",":
        raise SelectorError(f"found '{token.text}', expected: ',', or identifier")
    if not values or tokens.next.text in {",", ")"}:
        values.add("")
    if tokens.next.text == ",":
        tokens.take()
        if tokens.next.text == ")":  # upstream wants a value behind two commas
            raise SelectorError("found ')', expected: ',', or identifier")
