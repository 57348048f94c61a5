"""Writes documents as YAML and JSON: for files (`to_yaml`) and exactly as kubectl prints them.

`to_yaml` writes block YAML in the given key order that kubectl reads back as the same document: strings that go-yaml
would read as something else (`y`, `1e3`, `089`, `0o14`) are quoted, multi-line texts are literal blocks where that is
lossless. `json_text` and `yaml_text` match `-o json` (sorted keys, four spaces, HTML escapes) and `-o yaml` (natural
key order, folding at 80 columns); libyaml, of which go-yaml's emitter is a translation, writes the latter.

Upstream: staging/src/k8s.io/cli-runtime/pkg/printers/json.go, staging/src/k8s.io/cli-runtime/pkg/printers/yaml.go,
vendor/go.yaml.in/yaml/v2/encode.go, vendor/go.yaml.in/yaml/v2/sorter.go
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from pykubelet.api.field_errors import go_escaped
from pykubelet.api.quantity import MAX_INT64, MIN_INT64
from pykubelet.api.yaml.scalars import is_timestamp, resolve_plain

# go-yaml quotes what older YAML read as base-60 numbers.
_BASE60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_DIGITS = re.compile(r"[0-9]*")
_WIDTH = 80


def json_text(document: Any) -> str:
    """Returns JSON exactly as `kubectl -o json` prints it."""
    text = json.dumps(document, indent=4, sort_keys=True, ensure_ascii=False)
    # These characters occur only within strings.
    return go_escaped(text) + "\n"


def yaml_text(document: Any) -> str:
    """Returns YAML exactly as `kubectl -o yaml` prints it."""
    events = [
        yaml.StreamStartEvent(),
        yaml.DocumentStartEvent(explicit=False),
        *_events(document),
        yaml.DocumentEndEvent(explicit=False),
        yaml.StreamEndEvent(),
    ]
    text: str = yaml.emit(events, Dumper=yaml.CDumper, allow_unicode=True, width=_WIDTH)
    return text.removesuffix("...\n")


def _events(value: Any) -> Iterator[yaml.Event]:
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, implicit=True, flow_style=not value)
        for key in sorted(value, key=natural_order):
            yield _scalar(key)
            yield from _events(value[key])
        yield yaml.MappingEndEvent()
    elif isinstance(value, list | tuple):
        yield yaml.SequenceStartEvent(None, None, implicit=True, flow_style=not value)
        for item in value:
            yield from _events(item)
        yield yaml.SequenceEndEvent()
    else:
        yield _scalar(value)


def _scalar(value: Any) -> yaml.ScalarEvent:
    if isinstance(value, str):
        return yaml.ScalarEvent(None, None, (True, True), value, style=_style(value))
    text = json.dumps(value) if value is None or isinstance(value, bool | int) else repr(value)
    return yaml.ScalarEvent(None, None, (True, False), text)


def _style(text: str) -> str | None:
    """Returns the style that go-yaml requests; the emitter picks another where it cannot hold the text."""
    if "\n" in text:
        return "|"
    is_something_else = resolve_plain(text) is not text or _BASE60.fullmatch(text) or is_timestamp(text)
    return '"' if is_something_else else None


class _Natural:
    """Sort key of go-yaml: numbers by value, letters after everything else."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: "_Natural") -> bool:
        mine, theirs = self.text, other.text
        in_digits = False
        for index, (one, two) in enumerate(zip(mine, theirs, strict=False)):
            if one == two:
                in_digits = one.isdigit()
                continue
            letters = one.isalpha(), two.isalpha()
            if all(letters):
                return one < two
            if any(letters):
                return letters[0] if in_digits else letters[1]
            return _by_number(mine, theirs, index)
        return len(mine) < len(theirs)


def _by_number(mine: str, theirs: str, index: int) -> bool:
    """Compares two keys that differ from `index` on in digits or other non-letters."""
    before = mine[:index]
    shared = before[len(before.rstrip("0123456789")) :]
    # A zero after other digits counts; leading zeros do not.
    lead = "1" if "0" in (mine[index], theirs[index]) and shared.strip("0") else "0"
    one, two = (_DIGITS.match(key, index)[0] for key in (mine, theirs))  # type: ignore[index]
    # The number itself, by the count of its digits first: a key may have thousands of them.
    numbers = [(lead + digits).lstrip("0") for digits in (one, two)]
    ranks = [
        (len(number), number, len(digits), key[index])
        for number, digits, key in ((numbers[0], one, mine), (numbers[1], two, theirs))
    ]
    return ranks[0] < ranks[1]


def natural_order(key: str) -> _Natural:
    return _Natural(key)


# Words, paths, options and sentences without YAML indicators in significant places.
_PLAIN = re.compile(r"(?:[A-Za-z0-9_/$(]|\.[A-Za-z0-9_/]|--?[A-Za-z])[!-~]*(?: +[!-~]+)*")
_INDICATOR = re.compile(r":(?: |\Z)| #")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
# A key on the line of its colon has at most 1024 characters.
_LONGEST_KEY = 1000


def to_yaml(document: Any) -> str:
    """Returns the YAML text of a document; raises ValueError for values outside JSON or 64-bit integers."""
    return "\n".join(_lines(document)) + "\n"


def _lines(value: Any) -> list[str]:
    """Returns the lines of a value that starts at the left margin."""
    if isinstance(value, dict) and value:
        return [line for key, item in value.items() for line in _entry(key, item)]
    if isinstance(value, list | tuple) and value:
        return [line for item in value for line in _element(item)]
    return [_plain_scalar(value)]


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
    """Returns a scalar after a key or dash: one line, or the head and lines of a literal block."""
    if not isinstance(value, str) or not _fits_literal(value):
        return [_plain_scalar(value)]
    head = "|" if value.endswith("\n") else "|-"
    return [head, *value.removesuffix("\n").split("\n")]


def _fits_literal(text: str) -> bool:
    body = text.removesuffix("\n")
    lines = body.split("\n")
    if text[-1:] != "\n" and len(lines) == 1:
        return False
    # A leading blank would hide the indentation; a blank last line would be lost.
    return body[:1] not in ("", " ", "\t", "\n") and bool(lines[-1].strip()) and _is_shown(body)


def _is_shown(text: str) -> bool:
    return text.replace("\n", "").replace("\t", "").isprintable()


def _plain_scalar(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value)
        case int() if MIN_INT64 <= value <= MAX_INT64:
            return str(value)
        case float() if math.isfinite(value):
            return repr(value)
        case dict():
            return "{}"
        case list() | tuple():
            return "[]"
        case _:
            raise ValueError(f"{value!r} cannot be represented in YAML")


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
        raise ValueError("a lone surrogate cannot be represented in YAML")
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
