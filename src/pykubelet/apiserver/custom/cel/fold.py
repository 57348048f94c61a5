"""Macros that go through the items of a list or a map.

Upstream: evalFold in interpreter/interpretable.go of github.com/google/cel-go
"""

from collections.abc import Callable, Sequence
from typing import Any

from pykubelet.apiserver.custom.cel.faults import CelError, no_such_overload
from pykubelet.apiserver.custom.cel.nodes import FoldKind
from pykubelet.apiserver.custom.cel.values import Frame, each, is_map, items, spend

Code = Callable[[Frame], Any]
# About what one round costs beside the calls in it, which are counted by themselves.
_ROUND = 2


def fold_code(kind: FoldKind, range_: Code, places: Sequence[int], filter: Code | None, body: Code) -> Code:
    """What evaluates a macro; its variables have these places in the frame."""
    step = _step(range_, places)
    match kind:
        case FoldKind.ALL:
            return _quantified(step, body, decisive=False)
        case FoldKind.EXISTS:
            return _quantified(step, body, decisive=True)
        case FoldKind.EXISTS_ONE:
            return lambda frame: sum(_truth(body(frame)) for _ in step(frame)) == 1
        case FoldKind.LIST:
            return _listed(step, filter, body)
        case _:
            return _mapped(step, filter, body, None if kind is FoldKind.MERGE else places[0])


def _step(range_: Code, places: Sequence[int]) -> Code:
    """What puts each item into the frame in turn."""
    first = places[0]

    def one_by_one(frame: Frame) -> Any:
        for item in each(range_(frame)):
            spend(frame, _ROUND)
            frame[first] = item
            yield

    if len(places) == 1:
        return one_by_one
    second = places[1]

    def in_pairs(frame: Frame) -> Any:
        values = range_(frame)
        if not isinstance(values, list) and not is_map(values):
            raise no_such_overload()
        for key, item in items(values):
            spend(frame, _ROUND)
            frame[first], frame[second] = key, item
            yield

    return in_pairs


def _truth(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise no_such_overload()


def _quantified(step: Code, body: Code, *, decisive: bool) -> Code:
    def quantified(frame: Frame) -> bool:
        failure: CelError | None = None
        for _ in step(frame):
            try:
                value = _truth(body(frame))
            except CelError as error:
                failure = failure or error
                continue
            if value is decisive:
                return decisive
        if failure is not None:
            raise failure
        return not decisive

    return quantified


def _listed(step: Code, filter: Code | None, body: Code) -> Code:
    if filter is None:
        return lambda frame: [body(frame) for _ in step(frame)]
    return lambda frame: [body(frame) for _ in step(frame) if _truth(filter(frame))]


def _mapped(step: Code, filter: Code | None, body: Code, key_place: int | None) -> Code:
    """A map of each key with its new value; without a place of keys, of all maps that the body gives."""

    def mapped(frame: Frame) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for _ in step(frame):
            if filter is not None and not _truth(filter(frame)):
                continue
            value = body(frame)
            if key_place is None and not is_map(value):
                raise no_such_overload()
            for key, item in items(value) if key_place is None else ((frame[key_place], value),):
                if key in found:
                    raise CelError(f"insert failed: key {key} already exists")
                found[key] = item
        return found

    return mapped
