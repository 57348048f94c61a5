"""Documents to YAML that kubectl reads back as the same document.

In: dicts, lists and scalars as JSON has them. Out: block YAML in the layout of `kubectl get -o yaml`, keys in the
order given. A string that go-yaml would take for something else (`y`, `1e3`, `089`, `0o14`) is quoted; the reader's own
table decides. Texts of several lines are literal blocks where that loses nothing.

Upstream: go.yaml.in/yaml/v2/encode.go.
"""

import math
import re
from typing import Any

from pykubelet.api.yaml_scalars import INT_MAX, INT_MIN, resolve_plain

# Words, paths, options and sentences without any of YAML's indicators where they would count.
_PLAIN = re.compile(r"(?:[A-Za-z0-9_/$(]|\.[A-Za-z0-9_/]|--?[A-Za-z])[!-~]*(?: +[!-~]+)*")
_INDICATOR = re.compile(r":(?: |\Z)| #")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
# A key that stands on the line of its colon has at most 1024 characters.
_LONGEST_KEY = 1000


def to_yaml(document: Any) -> str:
    """The YAML text of a document; ValueError if it holds something that JSON, or a 64-bit integer, cannot."""
    return "\n".join(_lines(document)) + "\n"


def _lines(value: Any) -> list[str]:
    """The lines of a value that starts at the left margin."""
    if isinstance(value, dict) and value:
        return [line for key, item in value.items() for line in _entry(key, item)]
    if isinstance(value, list | tuple) and value:
        return [line for item in value for line in _element(item)]
    return [_scalar(value)]


def _entry(key: Any, value: Any) -> list[str]:
    if not isinstance(key, str):
        raise ValueError(f"the key {key!r} is not a string")  # noqa: TRY004  one error for whatever YAML cannot hold
    name = _string(key)
    before, head = ([], f"{name}:") if len(name) <= _LONGEST_KEY else ([f"? {name}"], ":")
    if isinstance(value, dict) and value:
        return [*before, head, *_indented(_lines(value))]
    if isinstance(value, list | tuple) and value:
        return [*before, head, *_lines(value)]
    first, *rest = _text(value)
    return [*before, f"{head} {first}", *_indented(rest)]


def _element(value: Any) -> list[str]:
    first, *rest = _lines(value) if isinstance(value, dict | list | tuple) and value else _text(value)
    return [f"- {first}", *_indented(rest)]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" if line else line for line in lines]


def _text(value: Any) -> list[str]:
    """A scalar behind a key or a dash: one line, or the head and the lines of a literal block."""
    if not isinstance(value, str) or not _fits_literal(value):
        return [_scalar(value)]
    head = "|" if value.endswith("\n") else "|-"
    return [head, *value.removesuffix("\n").split("\n")]


def _fits_literal(text: str) -> bool:
    body = text.removesuffix("\n")
    lines = body.split("\n")
    if text[-1:] != "\n" and len(lines) == 1:
        return False
    # A blank at the start would hide the indentation; a blank last line would be lost.
    return body[:1] not in ("", " ", "\t", "\n") and bool(lines[-1].strip()) and _is_shown(body)


def _is_shown(text: str) -> bool:
    return text.replace("\n", "").replace("\t", "").isprintable()


def _scalar(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value)
        case int() if INT_MIN <= value <= INT_MAX:
            return str(value)
        case float() if math.isfinite(value):
            return repr(value)
        case dict():
            return "{}"
        case list() | tuple():
            return "[]"
        case _:
            raise ValueError(f"{value!r} has no place in a document")


def _string(text: str) -> str:
    if _PLAIN.fullmatch(text) and not _INDICATOR.search(text) and resolve_plain(text) is text:
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        raise ValueError("a lone surrogate has no place in a document")
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
