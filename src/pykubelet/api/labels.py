"""Label selectors: parsing, requirements and matching.

Builds a frozen `Selector` from a map of labels, a LabelSelector (Struct, document or null) or a string such as `a=1,b
in (x,y),!c`. Matching takes time proportional to the number of requirements.

Upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go,
staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from pykubelet.api.field_errors import FieldError, aggregate_text, go_quote, invalid
from pykubelet.api.generated.meta import LabelSelector
from pykubelet.api.names import label_value_errors, qualified_name_errors
from pykubelet.api.quantity import parse_int64
from pykubelet.api.serializer import Document, from_document


class SelectorError(ValueError):
    """The selector is invalid; the message is Kubernetes' own."""


class Operator(StrEnum):
    """The operator of a requirement; the value is its name in messages."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    GREATER_THAN = "gt"
    LESS_THAN = "lt"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"


_SETS = frozenset({Operator.IN, Operator.NOT_IN})
_EXACT = frozenset({Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS})
_UNARY = frozenset({Operator.EXISTS, Operator.DOES_NOT_EXIST})
_COMPARISONS = frozenset({Operator.GREATER_THAN, Operator.LESS_THAN})
_POSITIVE = frozenset({Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS})
OBJECT_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_SIGNS = {Operator.IN: " in ", Operator.NOT_IN: " notin ", Operator.GREATER_THAN: ">", Operator.LESS_THAN: "<"}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label; `requirement` creates and validates it."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    _members: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_members", frozenset(self.values))

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator in _UNARY:
            return (value is not None) == (self.operator is Operator.EXISTS)
        if self.operator in _COMPARISONS:
            return value is not None and self._compares(value)
        if self.operator in _POSITIVE:
            return value is not None and value in self._members
        return value is None or value not in self._members

    def _compares(self, value: str) -> bool:
        number, bound = parse_int64(value), parse_int64(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator is Operator.GREATER_THAN else number < bound

    def __str__(self) -> str:
        if self.operator in _UNARY:
            return f"!{self.key}" if self.operator is Operator.DOES_NOT_EXIST else self.key
        values = ",".join(sorted(self.values))
        sign = _SIGNS.get(self.operator, self.operator.value)
        return f"{self.key}{sign}({values})" if self.operator in _SETS else f"{self.key}{sign}{values}"


@dataclass(frozen=True, slots=True)
class Selector:
    """A conjunction of requirements; `nothing` marks the selector that matches no object."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.nothing and all(requirement.matches(labels) for requirement in self.requirements)

    def empty(self) -> bool:
        """Whether the selector has no requirements and matches every object."""
        return not self.requirements and not self.nothing

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


def requirement(key: str, operator: Operator, values: Sequence[str] = ()) -> Requirement:
    """Creates a valid requirement; raises SelectorError if key, operator and values do not fit together."""
    errors: list[FieldError] = []
    if messages := qualified_name_errors(key):
        errors.append(invalid("key", key, "; ".join(messages)))
    errors += _values_errors(operator, values)
    for index, value in enumerate(values):
        if messages := label_value_errors(value):
            errors.append(invalid(f"values[{index}][{key}]", value, "; ".join(messages)))
    if errors:
        raise SelectorError(aggregate_text(errors))
    return Requirement(key, operator, tuple(values))


def sorted_selector(requirements: Iterable[Requirement]) -> Selector:
    """Creates a selector whose requirements, and thus its string form, are sorted by key."""
    return Selector(tuple(sorted(requirements, key=lambda one: one.key)))


def selector_from_labels(labels: Mapping[str, str]) -> Selector:
    """Creates a selector that requires all these labels, without validating them."""
    return sorted_selector(Requirement(key, Operator.EQUALS, (value,)) for key, value in labels.items())


def selector_from_object(label_selector: LabelSelector | None) -> Selector:
    """Converts a LabelSelector: None matches nothing, an empty one everything; raises SelectorError."""
    if label_selector is None:
        return NOTHING
    requirements = [requirement(key, Operator.EQUALS, (value,)) for key, value in label_selector.match_labels.items()]
    for expression in label_selector.match_expressions:
        operator = OBJECT_OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(f"{go_quote(expression.operator)} is not a valid label selector operator")
        requirements.append(requirement(expression.key, operator, expression.values))
    return sorted_selector(requirements)


def selector_from_document(document: Document | None) -> Selector:
    """Converts a LabelSelector given as a document, like `selector_from_object`."""
    return selector_from_object(None if document is None else from_document(document, LabelSelector))


def _values_errors(operator: Operator, values: Sequence[str]) -> list[FieldError]:
    """Checks the number and the type of values that an operator takes."""
    shown = list(values) or None
    if operator in _SETS and not values:
        return [invalid("values", shown, "for 'in', 'notin' operators, values set can't be empty")]
    if operator in _EXACT and len(values) != 1:
        return [invalid("values", shown, "exact-match compatibility requires one single value")]
    if operator in _UNARY and values:
        return [invalid("values", shown, "values set must be empty for exists and does not exist")]
    errors: list[FieldError] = []
    if operator in _COMPARISONS:
        if len(values) != 1:
            errors.append(invalid("values", shown, "for 'Gt', 'Lt' operators, exactly one value is required"))
        errors += [
            invalid(f"values[{index}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
            for index, value in enumerate(values)
            if parse_int64(value) is None
        ]
    return errors


# Upstream's lexer treats NUL as the end of a token, and as the end of the text where a token should start.
_TOKEN = re.compile(r"[ \t\r\n]*+(?:(?P<symbol>[=!]=|[=!(),<>])|(?P<word>[^\0=!(),<> \t\r\n]++))\0?+")
_OPERATORS = {operator.value: operator for operator in _SETS | _EXACT} | {
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}


class _Token(NamedTuple):
    text: str
    is_word: bool = False


_END = _Token("")


def parse_selector(text: str) -> Selector:
    """Parses a selector string; raises SelectorError with Kubernetes' message."""
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
    """The lexer, with one token of lookahead; past the end it keeps returning the end token."""

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
    """Parses the values in parentheses; nothing between two commas is the empty value."""
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
        if tokens.next.text == ")":  # Upstream requires a value after two commas.
            raise SelectorError("found ')', expected: ',', or identifier")
