"""JSON texts to documents, with Go's idea of numbers and strings.

A text of one or more JSON objects comes in, as Go's stream decoder takes it; the objects come out with their offsets.
Whole numbers of 64 bits are ints, all others floats, also when a float is whole: a Go int field refuses `8.0`.

Upstream: k8s.io/apimachinery/pkg/util/yaml/decoder.go, sigs.k8s.io/json.
"""

import json
import math
import re
from typing import Any, NamedTuple, NoReturn

from pykubelet.api.yaml_build import MAX_DEPTH, MAX_NODES
from pykubelet.api.yaml_events import YamlError
from pykubelet.api.yaml_scalars import INT_MAX, INT_MIN, without_surrogates

_SPACE = re.compile(r"[ \t\r\n]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# int64 has at most 19 digits and a sign.
_LONGEST_INT = 20


class JsonObject(NamedTuple):
    """One object of a stream, where its text starts and ends, and whether a key in it is repeated."""

    value: Any
    start: int
    end: int
    repeats_key: bool


def read_json_stream(text: str, max_objects: int) -> list[JsonObject] | None:
    """Every object of the text, or None if the text is not JSON; YamlError if it is, but cannot be used."""
    repeated: list[bool] = []
    decoder = _decoder(repeated)
    found: list[JsonObject] = []
    nodes = 0
    start = _skip_space(text, 0)
    try:
        while start < len(text):
            if len(found) == max_objects:
                raise YamlError(f"the text has more than {max_objects} documents")
            repeated.clear()
            value, end = decoder.raw_decode(text, start)
            nodes += _count_nodes(value)
            if nodes > MAX_NODES:
                raise YamlError(f"the text has more than {MAX_NODES} nodes")
            if _SURROGATE.search(text, start, end):
                value = _without_lone_surrogates(value)
            found.append(JsonObject(value, start, end, bool(repeated)))
            start = _skip_space(text, end)
    except json.JSONDecodeError:
        return None
    except RecursionError as error:
        raise _too_deep() from error
    return found


def _too_deep() -> YamlError:
    return YamlError(f"nested more than {MAX_DEPTH} levels deep")


def _decoder(repeated: list[bool]) -> json.JSONDecoder:
    def unite(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        united = dict(pairs)
        if len(united) != len(pairs):
            repeated.append(True)
        return united

    return json.JSONDecoder(
        object_pairs_hook=unite, parse_int=_integer, parse_float=_floating, parse_constant=_refuse_constant
    )


def _skip_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _integer(digits: str) -> int | float:
    if len(digits) <= _LONGEST_INT and INT_MIN <= (number := int(digits)) <= INT_MAX:
        return number
    return _floating(digits)


def _floating(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise YamlError(f"the number {digits:.20} is too large")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is not JSON", name, 0)


def _count_nodes(value: Any) -> int:
    """How many values and keys a value consists of; YamlError if they are nested too deep."""
    nodes, level = 1, [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH + 1):
        children = [parent.values() if isinstance(parent, dict) else parent for parent in level]
        nodes += sum(len(parent) * (2 if isinstance(parent, dict) else 1) for parent in level)
        level = [child for family in children for child in family if isinstance(child, dict | list)]
        if not level:
            return nodes
    raise _too_deep()


def _without_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [_without_lone_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {without_surrogates(key): _without_lone_surrogates(item) for key, item in value.items()}
    return value
