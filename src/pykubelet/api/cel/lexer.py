"""Tokens and literal values of CEL expressions.

Upstream: vendor/github.com/google/cel-go/parser/gen/CEL.g4, vendor/github.com/google/cel-go/parser/unescape.go
"""

import re
from typing import Any, NamedTuple

from pykubelet.api.cel.values import MAX_UINT64, Issue, Uint
from pykubelet.api.quantity import MAX_INT64

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_STRING = (
    r"[rR](?:\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|\"[^\"\n\r]*\"|'[^'\n\r]*')"
    rf"|\"{{3}}(?:{_ESCAPE}|[^\\])*?\"{{3}}|'{{3}}(?:{_ESCAPE}|[^\\])*?'{{3}}"
    rf"|\"(?:{_ESCAPE}|[^\\\"\n\r])*\"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
)
_TOKEN = re.compile(
    r"(?P<space>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<bytes>[bB](?:{_STRING}))"
    rf"|(?P<string>{_STRING})"
    r"|(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?P<uint>(?:0x[0-9a-fA-F]+|\d+)[uU])"
    r"|(?P<int>0x[0-9a-fA-F]+|\d+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])",
    re.ASCII,
)
_WORDS = frozenset({"in", "true", "false", "null"})


class Token(NamedTuple):
    """One token of an expression."""

    kind: str
    """name, string, bytes, int, uint, float, sign or end; keywords are signs."""
    text: str
    at: int

    @property
    def shown(self) -> str:
        """The token as messages show it."""
        return "<EOF>" if self.kind == "end" else self.text


def tokens(source: str) -> tuple[list[Token], list[Issue]]:
    """Splits an expression into tokens, the last of which is `end`, and reports invalid characters."""
    found: list[Token] = []
    issues: list[Issue] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            issues.append(Issue(at, f"Syntax error: token recognition error at: '{source[at]}'"))
            at += 1
            continue
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(Token("sign" if match[0] in _WORDS else kind, match[0], at))
        at = match.end()
    return [*found, Token("end", "", len(source))], issues


_ESCAPE_SEQUENCE = re.compile(r"\\(?:([xX])(..)|u(.{4})|U(.{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_PLAIN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SURROGATES = range(0xD800, 0xE000)
_LAST_CODE_POINT = 0x10FFFF


class LiteralError(ValueError):
    """A literal is out of range or has an invalid escape."""


def literal_value(token: Token, *, negative: bool = False) -> Any:
    """Returns the value of a literal; raises LiteralError."""
    match token.kind:
        case "int":
            return _integer(token.text, negative=negative)
        case "uint":
            return _unsigned(token.text[:-1])
        case "float":
            number = float(token.text)
            if number in (float("inf"), float("-inf")):
                raise LiteralError("invalid double literal")
            return -number if negative else number
        case "string":
            return _text(token.text)
        case _:
            return _bytes(token.text[1:])


def _number(text: str) -> int:
    # Avoids converting numbers with more digits than 64 bits allow.
    return MAX_UINT64 + 1 if len(text) > 1000 else int(text, 16 if text.startswith("0x") else 10)


def _integer(text: str, *, negative: bool) -> int:
    number = -_number(text) if negative else _number(text)
    if not -MAX_INT64 - 1 <= number <= MAX_INT64:
        raise LiteralError("invalid int literal")
    return number


def _unsigned(text: str) -> Uint:
    number = _number(text)
    if number > MAX_UINT64:
        raise LiteralError("invalid uint literal")
    return Uint(number)


def _content(text: str) -> tuple[str, bool]:
    """Returns the text between the quotes, and whether it is raw."""
    is_raw = text[0] in "rR"
    text = text[1:] if is_raw else text
    size = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[size:-size], is_raw


def _text(quoted: str) -> str:
    content, is_raw = _content(quoted)
    return content if is_raw or "\\" not in content else _ESCAPE_SEQUENCE.sub(_character, content)


def _character(match: re.Match[str]) -> str:
    _, byte, short, long, octal, plain = match.groups()
    if plain is not None:
        return _PLAIN.get(plain, plain)
    code = int(octal, 8) if octal else int(byte or short or long, 16)
    if code in _SURROGATES or code > _LAST_CODE_POINT:
        raise LiteralError("invalid unicode code point")
    return chr(code)


def _bytes(quoted: str) -> bytes:
    content, is_raw = _content(quoted)
    if is_raw or "\\" not in content:
        return content.encode()
    parts: list[bytes] = []
    at = 0
    for match in _ESCAPE_SEQUENCE.finditer(content):
        _, byte, short, long, octal, plain = match.groups()
        if short or long:
            # In bytes literals an escape is a byte, not a character.
            raise LiteralError("unable to unescape string")
        parts.append(content[at : match.start()].encode())
        parts.append(_PLAIN.get(plain, plain).encode() if plain else bytes([int(octal, 8) if octal else int(byte, 16)]))
        at = match.end()
    return b"".join([*parts, content[at:].encode()])
