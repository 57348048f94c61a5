"""A tree to a program of small steps, which can be followed along all ways at once (pure).

Upstream: regexp/syntax/compile.go of Go's standard library; after Ken Thompson, Regular Expression Search Algorithm (1968)
"""

from dataclasses import dataclass

from pykubelet.apiserver.custom.regex.tree import Chars, Choice, Node, Place, Repeat, Row

MAX_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Take:
    """Take one character, and go on."""

    chars: Chars
    then: int


@dataclass(frozen=True, slots=True)
class At:
    """Go on if the place is right."""

    place: Place
    then: int


@dataclass(frozen=True, slots=True)
class Either:
    """Go on in several ways, the best first."""

    ways: tuple[int, ...]


Step = Take | At | Either | None
"""None is a match."""


class TooLong(ValueError):
    """A program of more than `MAX_STEPS` steps."""


@dataclass(frozen=True, slots=True)
class Program:
    """The steps, and which is the first."""

    steps: tuple[Step, ...]
    first: int


def compiled(node: Node) -> Program:
    """The program of a tree; TooLong if it has too many steps."""
    steps: list[Step] = [None]
    return Program(first=_emit(node, 0, steps), steps=tuple(steps))


def _emit(node: Node, then: int, steps: list[Step]) -> int:
    """Add the steps of a node that go on at `then`; where they start."""
    match node:
        case Chars():
            return _add(Take(node, then), steps)
        case Place():
            return _add(At(node, then), steps)
        case Row():
            for part in reversed(node.parts):
                then = _emit(part, then, steps)
            return then
        case Choice():
            return _add(Either(tuple(_emit(part, then, steps) for part in node.parts)), steps)
        case Repeat():
            return _emit_repeat(node, then, steps)


def _emit_repeat(node: Repeat, then: int, steps: list[Step]) -> int:
    start = then
    if node.most is None:
        start = _add(None, steps)
        steps[start] = _more(_emit(node.part, start, steps), then, lazy=node.lazy)
    else:
        for _ in range(node.most - node.least):
            start = _add(_more(_emit(node.part, start, steps), then, lazy=node.lazy), steps)
    for _ in range(node.least):
        start = _emit(node.part, start, steps)
    return start


def _more(again: int, then: int, *, lazy: bool) -> Either:
    return Either((then, again) if lazy else (again, then))


def _add(step: Step, steps: list[Step]) -> int:
    if len(steps) >= MAX_STEPS:
        raise TooLong
    steps.append(step)
    return len(steps) - 1
