"""Escapes control characters in the texts of objects and servers for terminals.

Pods, events and errors carry text that others chose. An escape sequence in it could hide or forge output, or change
settings of the user's terminal. Upstream escapes ESC and CR only; here every control character is escaped, in Unicode's second
range too (U+009B starts a sequence as well), and so are the characters that reverse the order of text.

Upstream: staging/src/k8s.io/cli-runtime/pkg/printers/terminal.go
"""

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
# Embeddings, overrides and isolates of bidirectional text.
_REORDERING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_KEPT = {ord("\n"), ord("\t")}
_AS_TEXT = {
    **{number: f"\\x{number:02x}" for number in _CONTROLS if number not in _KEPT},
    **{number: f"\\u{number:04x}" for number in _REORDERING},
    # As kubectl shows them.
    0x1B: "^[",
    0x0D: "\\r",
}
# JSON itself escapes the first 32.
_AS_JSON = {number: f"\\u{number:04x}" for number in (*_CONTROLS, *_REORDERING) if number >= 0x7F}


def escape_terminal(text: str) -> str:
    """The text with visible escapes for control characters, except line breaks and tabs."""
    return text if text.isprintable() else text.translate(_AS_TEXT)


def escape_json(text: str) -> str:
    """A JSON document with the same value and without raw control characters."""
    return text.translate(_AS_JSON)
