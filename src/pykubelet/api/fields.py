r"""Parses and matches field selectors such as `metadata.name=a,spec.nodeName!=b`.

Values may contain the escapes `\,`, `\=` and `\\`; a field that an object lacks has the empty value.

Upstream: staging/src/k8s.io/apimachinery/pkg/fields/selector.go
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pykubelet.api.labels import SelectorError

_ESCAPE_OR_COMMA = re.compile(r"\\.|,", re.DOTALL)
_OPERATOR = re.compile("!=|==|=")
_ESCAPED_OR_SPECIAL = re.compile(r"\\(.)|[\\,=]", re.DOTALL)
_SPECIAL = re.compile(r"[\\,=]")


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """A field that must equal, or must not equal, a value."""

    field: str
    value: str
    equal: bool = True

    def matches(self, fields: Mapping[str, str]) -> bool:
        return (fields.get(self.field, "") == self.value) == self.equal

    def __str__(self) -> str:
        return f"{self.field}{'=' if self.equal else '!='}{escape_value(self.value)}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A conjunction of field requirements."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all(requirement.matches(fields) for requirement in self.requirements)

    def empty(self) -> bool:
        """Whether the selector has no requirements and matches every object."""
        return not self.requirements

    def required_value(self, field: str) -> str | None:
        """Returns the value that the field must have, if there is one; it allows the use of an index."""
        return next((one.value for one in self.requirements if one.equal and one.field == field), None)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def parse_field_selector(text: str) -> FieldSelector:
    """Parses a field selector string; raises SelectorError with Kubernetes' message."""
    requirements: list[FieldRequirement] = []
    for term in sorted(filter(None, _terms(text))):
        match = _OPERATOR.search(term)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, value = term[: match.start()], unescape_value(term[match.end() :])
        if field or value:
            requirements.append(FieldRequirement(field, value, equal=match[0] != "!="))
    return FieldSelector(tuple(requirements))


def escape_value(value: str) -> str:
    """Escapes a value for use in a field selector."""
    return _SPECIAL.sub(r"\\\g<0>", value)


def unescape_value(text: str) -> str:
    """Reverses `escape_value`; raises SelectorError at an unescaped special character."""

    def plain(match: re.Match[str]) -> str:
        character: str | None = match[1]
        if match[0] in {",", "="}:
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(match[0])}")
        if character is None or character not in "\\,=":
            raise SelectorError(f"invalid field selector: invalid escape sequence: {match[0]}")
        return character

    return _ESCAPED_OR_SPECIAL.sub(plain, text)


def _terms(text: str) -> list[str]:
    """Splits the text at commas that are not escaped."""
    terms: list[str] = []
    start = 0
    for match in _ESCAPE_OR_COMMA.finditer(text):
        if match[0] == ",":
            terms.append(text[start : match.start()])
            start = match.end()
    return [*terms, text[start:]]
