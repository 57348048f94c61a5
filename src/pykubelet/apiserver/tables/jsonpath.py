"""kubectl's JSONPath, compiled once and evaluated on documents.

A path has no braces: `.status.conditions[?(@.type=="Ready")].status`. It supports fields, quoted keys, indexes, slices,
unions, wildcards, recursive descent (`..`) and filters. A missing key is not an error. Each object or list is found once
per step, so that the time grows with the document, not with its power; upstream repeats them.

Upstream: staging/src/k8s.io/client-go/util/jsonpath/parser.go, staging/src/k8s.io/client-go/util/jsonpath/jsonpath.go
"""

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

Values = list[Any]
_Step = Callable[[Values], Values]

# No path of a printer column is nearly as long; each step may visit the whole document.
_MAX_STEPS = 100
_FIELD = re.compile(r"(?:\\.|[^\\\s.,\[\]$@{}])*")
_BRACKET = re.compile(r"\[([^\]\n]*)\]")
_QUOTED_KEY = re.compile(r"'([^']*)'")
_SLICE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_FILTER = re.compile(r"\[\?\(((?:\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[^)\"'\n])*)\)\]")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+?)")
_TEXT = re.compile(r"\"((?:\\.|[^\"\\\n])*)\"|'((?:\\.|[^'\\\n])*)'")
_NUMBER = re.compile(r"[+-]?[\d.]+")
_WORD = re.compile(r"\w[^\s.,\[\]$@{}]*")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JsonPathError(ValueError):
    """The path is invalid, or cannot be evaluated on this document."""


@lru_cache(maxsize=1024)
def json_path(text: str) -> _Step:
    """Compiles a path into a function from documents to values; JsonPathError if it is invalid."""
    steps = _parse(text)
    if len(steps) > _MAX_STEPS:
        raise JsonPathError(f"a path has at most {_MAX_STEPS} steps")

    def follow(values: Values) -> Values:
        for step in steps:
            values = step(values)
            if len(values) > 1:
                values = _distinct(values)
        return values

    return follow


def _distinct(values: Values) -> Values:
    """The values without objects and lists that appeared before: several `..` find them again and again."""
    seen: set[int] = set()
    found: Values = []
    for value in values:
        if isinstance(value, dict | list):
            if id(value) in seen:
                continue
            seen.add(id(value))
        found.append(value)
    return found


def find(path: str, document: Any) -> Values:
    """The values at a path; JsonPathError if the path, an index or a comparison is invalid."""
    return json_path(path)([document])


def _parse(text: str) -> tuple[_Step, ...]:
    steps: list[_Step] = []
    at = 0
    while at < len(text):
        found, at = _next(text, at)
        steps += found
    return tuple(steps)


def _next(text: str, at: int) -> tuple[Sequence[_Step], int]:
    """The steps at a position of the text, and the position after them."""
    if text.startswith("[?(", at):
        match = _FILTER.match(text, at)
        if match is None:
            raise JsonPathError("unterminated filter")
        return (_filter(match[1]),), match.end()
    if text.startswith("..", at):
        name = _field_at(text, at + 2)
        return (_descend, *(_named(name) if name else ())), at + 2 + len(name)
    match text[at]:
        case " " | "@" | "$":
            return (), at + 1
        case "[":
            bracket = _BRACKET.match(text, at)
            if bracket is None:
                raise JsonPathError("unterminated array")
            return _bracket(bracket[1]), bracket.end()
        case ".":
            name = _field_at(text, at + 1)
            return _named(name), at + 1 + len(name)
        case _:
            return _constant(text, at)


def _field_at(text: str, at: int) -> str:
    match = _FIELD.match(text, at)
    return match[0] if match else ""


def _constant(text: str, at: int) -> tuple[Sequence[_Step], int]:
    if match := _TEXT.match(text, at):
        value = re.sub(r"\\(.)", r"\1", match[1] if match[1] is not None else match[2])
        return (_always(value),), match.end()
    if match := _NUMBER.match(text, at):
        try:
            return (_always(float(match[0]) if "." in match[0] else int(match[0])),), match.end()
        except ValueError:
            raise JsonPathError(f"cannot parse number {match[0]}") from None
    if (match := _WORD.match(text, at)) and match[0] in {"true", "false"}:
        return (_always(match[0] == "true"),), match.end()
    raise JsonPathError(f"unrecognized text in a path: {text[at:]}")


def _named(name: str) -> tuple[_Step, ...]:
    if name == "*":
        return (_children,)
    plain = name.replace("\\", "")
    return (lambda values: [value[plain] for value in values if isinstance(value, dict) and plain in value],)


def _always(constant: Any) -> _Step:
    return lambda values: [constant for _ in values]


def _children(values: Values) -> Values:
    return [child for value in values for child in _parts(value)]


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _descend(values: Values) -> Values:
    """Every object and list within the values, outer ones first."""
    found: Values = []
    seen: set[int] = set()
    left = values[::-1]
    while left:
        value = left.pop()
        if value and isinstance(value, dict | list) and id(value) not in seen:
            seen.add(id(value))
            found.append(value)
            left += reversed([*_parts(value)])
    return found


def _bracket(text: str) -> tuple[_Step, ...]:
    parts = text.split(",")
    if len(parts) > 1:
        branches = [json_path(f"[{part.strip(' ')}]") for part in parts]
        return (lambda values: [found for branch in branches for found in branch(values)],)
    if key := _QUOTED_KEY.fullmatch(text):
        return _parse(f".{key[1]}")
    if text == "*":
        return (_slice(None, None, None),)
    match = _SLICE.fullmatch(text)
    if match is None:
        raise JsonPathError(f"invalid array index {text}")
    start, end, step = match.groups()
    first = _number(start) if start not in {"", "-"} else None
    if end is None and step is None:
        return (_index(first or 0),)
    return (_slice(first, _bound(end), _bound(step)),)


def _bound(text: str | None) -> int | None:
    return _number(text[1:]) if text and text not in {":", ":-"} else None


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise JsonPathError(f"cannot parse number {text}") from None


def _index(index: int) -> _Step:
    def pick(values: Values) -> Values:
        found: Values = []
        for value in _lists(values):
            if not -len(value) <= index < len(value):
                raise JsonPathError(f"array index out of bounds: index {index}, length {len(value)}")
            found.append(value[index])
        return found

    return pick


def _slice(start: int | None, end: int | None, step: int | None) -> _Step:
    if step is not None and step <= 0:
        raise JsonPathError("step must be > 0")

    def cut(values: Values) -> Values:
        found: Values = []
        for value in _lists(values):
            first, last = start or 0, len(value) if end is None else end
            first, last = first + len(value) * (first < 0), last + len(value) * (last < 0)
            if first != last and not 0 <= first < last <= len(value):
                raise JsonPathError(f"array index out of bounds: {first}:{last}, length {len(value)}")
            found += value[first:last:step]
        return found

    return cut


def _lists(values: Values) -> Iterable[list[Any]]:
    for value in values:
        if value is None:
            continue
        if not isinstance(value, list):
            raise JsonPathError(f"{type(value).__name__} is not array or slice")
        yield value


def _filter(text: str) -> _Step:
    match = _COMPARISON.fullmatch(text)
    if match is None:
        condition = json_path(text)
        return lambda values: [item for value in _lists(values) for item in value if condition([item])]
    compare = _OPERATORS.get(match[2])
    if compare is None:
        raise JsonPathError(f"unrecognized filter operator {match[2]}")
    left, right = json_path(match[1]), json_path(match[3])

    def passes(item: Any) -> bool:
        lefts, rights = left([item]), right([item])
        if not lefts or not rights:
            return False
        if len(lefts) > 1 or len(rights) > 1:
            raise JsonPathError("can only compare one element at a time")
        if type(lefts[0]) is not type(rights[0]) or not isinstance(lefts[0], str | int | float):
            raise JsonPathError("incompatible types for comparison")
        return compare(lefts[0], rights[0])

    return lambda values: [item for value in _lists(values) for item in value if passes(item)]
