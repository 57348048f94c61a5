"""An expression cut into tokens: names, numbers, texts, signs.

Upstream: parser/gen/CEL.g4 of github.com/google/cel-go (its lexer)
"""

import re
from typing import NamedTuple

from pykubelet.apiserver.custom.cel.faults import Issue

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
    """A piece of an expression."""

    kind: str
    """name, string, bytes, int, uint, float, sign, or end; a word with a meaning of its own is a sign."""
    text: str
    at: int

    @property
    def shown(self) -> str:
        """The token as complaints name it."""
        return "<EOF>" if self.kind == "end" else self.text


def tokens(source: str) -> tuple[list[Token], list[Issue]]:
    """The tokens of an expression with an end, and what in it is no token."""
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
