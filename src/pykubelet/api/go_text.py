"""Documents as text, to the letter as kubectl prints them: `-o json` and `-o yaml`.

In: dicts, lists and scalars. Out: JSON in Go's form (sorted keys, four spaces, signs that mean something in HTML escaped),
or YAML in that of go-yaml (keys in natural order, long texts folded at 80). `yaml_write.py` is for files, this is for eyes.

Upstream: cli-runtime/pkg/printers/{json,yaml}.go, encoding/json, go.yaml.in/yaml/v2/{encode,sorter}.go. libyaml, of which
go-yaml's emitter is a translation, writes the YAML.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from pykubelet.api.yaml_scalars import is_timestamp, resolve_plain

_HTML = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_ESCAPED = re.compile("[<>&\u2028\u2029]")
# go-yaml is wary of what older YAML took for numbers of base 60.
_BASE60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_DIGITS = re.compile(r"[0-9]*")
_WIDTH = 80


def json_text(document: Any) -> str:
    """JSON as kubectl prints it, with a line break at the end."""
    text = json.dumps(document, indent=4, sort_keys=True, ensure_ascii=False)
    # None of these signs stands outside of strings.
    return _ESCAPED.sub(lambda found: _HTML[found[0]], text) + "\n"


def yaml_text(document: Any) -> str:
    """YAML as kubectl prints it."""
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
    """The style that go-yaml asks for; where that cannot hold the text, the emitter takes another."""
    if "\n" in text:
        return "|"
    is_something_else = resolve_plain(text) is not text or _BASE60.fullmatch(text) or is_timestamp(text)
    return '"' if is_something_else else None


class _Natural:
    """Sorts keys as go-yaml does: numbers in them by their value, letters after everything else."""

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
    """The order of two keys that differ from here on, in digits or signs."""
    before = mine[:index]
    shared = before[len(before.rstrip("0123456789")) :]
    # Behind other digits a zero counts; without them it only fills up.
    lead = "1" if "0" in (mine[index], theirs[index]) and shared.strip("0") else "0"
    one, two = (_DIGITS.match(key, index)[0] for key in (mine, theirs))  # type: ignore[index]
    ranks = [(int(lead + digits), len(digits), key[index]) for digits, key in ((one, mine), (two, theirs))]
    return ranks[0] < ranks[1]


def natural_order(key: str) -> _Natural:
    """The place of a key among others."""
    return _Natural(key)
