"""The field that a rule is about, if not the one that it stands at: `.spec.labels['a.b']`.

In: a path and a schema. Out: the path as complaints show it, or FieldPathError.

Upstream: ValidFieldPath in staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

Node = TypeVar("Node")
_NO_FIELD = "does not refer to a valid field"

_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\['(?P<key>(?:[^'\\]|\\.)*)'\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PLAIN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class FieldPathError(ValueError):
    """The path leads nowhere."""


def shown_field_path(
    path: str, root: Node, inside: Callable[[Node], tuple[Mapping[str, Node], Node | bool | None]]
) -> str:
    """The path from a schema to one of its fields, as complaints show it; `inside` tells properties and the rest."""
    shown = ""
    known: Node | bool | None = root
    for name in _steps(path):
        if known is None or isinstance(known, bool):
            raise FieldPathError(_NO_FIELD)
        properties, additional = inside(known)
        if properties:
            if name not in properties:
                raise FieldPathError(_NO_FIELD)
            known = properties[name]
            shown += f".{name}" if shown else name
        elif additional is not None:
            known = additional
            shown += f"[{name}]"
        else:
            raise FieldPathError(_NO_FIELD)
    return shown


def _steps(path: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise FieldPathError(f"expected [ or . but got: {path[at:]}")
        found.append(match["name"] if match["name"] is not None else _unescaped(match["key"]))
        at = match.end()
    return found


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1] not in _PLAIN:
            raise FieldPathError(f"invalid string literal: invalid escape char {match[0]}")
        return _PLAIN[match[1]]

    return _ESCAPE.sub(plain, text)
