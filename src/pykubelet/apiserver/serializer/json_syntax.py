"""Go's message for invalid JSON. Slow, so it runs only after a decoder rejected the text.

It follows scanner.go of Go's encoding/json.
"""

import re

from pykubelet.api.field_errors import go_quote

END = "unexpected end of JSON input"
MAX_DEPTH = 10_000
_SPACE = b" \t\r\n"
_DIGITS = b"0123456789"
_HEX = b"0123456789abcdefABCDEF"
_ESCAPES = b'bfnrt\\/"'
_CLOSING = {ord("{"): ord("}"), ord("["): ord("]")}
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_LITERALS = {ord("t"): "true", ord("f"): "false", ord("n"): "null"}


class _JsonSyntaxError(Exception):
    """Carries the message out of the scanner."""


def syntax_error(text: bytes) -> str | None:
    """Go's syntax error for the text; None if it is valid."""
    try:
        _Scanner(text).run()
    except _JsonSyntaxError as error:
        return str(error)
    return None


class _Scanner:
    """Scans a text once; a stack holds the closing characters of the open containers."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._at = 0
        self._open: list[int] = []

    def run(self) -> None:
        self._value()
        while self._open:
            self._next_item()
        if (char := self._skip_space()) is not None:
            raise self._refused(char, "after top-level value")

    def _next_item(self) -> None:
        """Scans what follows a value in a container."""
        closing = self._open[-1]
        char = self._needed(self._skip_space())
        if char == closing:
            self._at += 1
            self._open.pop()
        elif char != ord(","):
            raise self._refused(char, "after object key:value pair" if closing == ord("}") else "after array element")
        else:
            self._at += 1
            if closing == ord("}"):
                self._key()
            self._value()

    def _value(self) -> None:
        """Scans a value, or a container up to its first value."""
        while True:
            char = self._needed(self._skip_space())
            self._at += 1
            if char not in _CLOSING:
                self._scalar(char)
                return
            closing = _CLOSING[char]
            self._open.append(closing)
            if len(self._open) > MAX_DEPTH:
                raise self._refused(char, "exceeded max depth")
            if self._needed(self._skip_space()) == closing:
                return
            if closing == ord("}"):
                self._key()

    def _scalar(self, char: int) -> None:
        if char == ord('"'):
            self._string()
        elif char == ord("-") or char in _DIGITS:
            self._number(char)
        elif char in _LITERALS:
            self._literal(_LITERALS[char])
        else:
            raise self._refused(char, "looking for beginning of value")

    def _key(self) -> None:
        char = self._needed(self._skip_space())
        if char != ord('"'):
            raise self._refused(char, "looking for beginning of object key string")
        self._at += 1
        self._string()
        char = self._needed(self._skip_space())
        if char != ord(":"):
            raise self._refused(char, "after object key")
        self._at += 1

    def _string(self) -> None:
        while True:
            if (plain := _PLAIN.match(self._text, self._at)) is not None:
                self._at = plain.end()
            if (char := self._take()) == ord('"'):
                return
            if char < 0x20:
                raise self._refused(char, "in string literal")
            escape = self._take()
            if escape == ord("u"):
                for _ in range(4):
                    if (digit := self._take()) not in _HEX:
                        raise self._refused(digit, "in \\u hexadecimal character escape")
            elif escape not in _ESCAPES:
                raise self._refused(escape, "in string escape code")

    def _number(self, first: int) -> None:
        if first == ord("-"):
            first = self._take()
            if first not in _DIGITS:
                raise self._refused(first, "in numeric literal")
        if first != ord("0"):
            self._digits()
        if self._peek() == ord("."):
            self._at += 1
            self._needed_digit("after decimal point in numeric literal")
        if self._peek() in (ord("e"), ord("E")):
            self._at += 1
            if self._peek() in (ord("+"), ord("-")):
                self._at += 1
            self._needed_digit("in exponent of numeric literal")

    def _needed_digit(self, context: str) -> None:
        if (char := self._take()) not in _DIGITS:
            raise self._refused(char, context)
        self._digits()

    def _digits(self) -> None:
        while (char := self._peek()) is not None and char in _DIGITS:
            self._at += 1

    def _literal(self, word: str) -> None:
        for letter in word[1:]:
            if (char := self._take()) != ord(letter):
                raise self._refused(char, f"in literal {word} (expecting '{letter}')")

    def _skip_space(self) -> int | None:
        while (char := self._peek()) is not None and char in _SPACE:
            self._at += 1
        return char

    def _peek(self) -> int | None:
        return self._text[self._at] if self._at < len(self._text) else None

    def _take(self) -> int:
        char = self._needed(self._peek())
        self._at += 1
        return char

    @staticmethod
    def _needed(char: int | None) -> int:
        if char is None:
            raise _JsonSyntaxError(END)
        return char

    @staticmethod
    def _refused(char: int, context: str) -> _JsonSyntaxError:
        special = {"'": r"'\''", '"': "'\"'"}
        shown = special.get(chr(char)) or f"'{go_quote(chr(char))[1:-1]}'"
        return _JsonSyntaxError(f"invalid character {shown} {context}")
