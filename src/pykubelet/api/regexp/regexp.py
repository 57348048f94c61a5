"""Matches Go's regular expressions (RE2 syntax) in linear time, for patterns in schemas and CEL.

Time is proportional to text length times pattern size for any input, as users of a cluster supply both; Python's
backtracking matcher would take exponential time on hostile patterns. The program (Thompson's construction, as in Go's
regexp/syntax/compile.go) runs on all alternatives at once, and state transitions are cached, so that most characters
cost one dict lookup.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from pykubelet.api.regexp.syntax import (
    Alternate,
    Chars,
    Concat,
    EmptyWidth,
    Node,
    PatternError,
    Repeat,
    parse,
)

MAX_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class RuneInst:
    """Consumes one character of a class."""

    chars: Chars
    then: int


@dataclass(frozen=True, slots=True)
class EmptyWidthInst:
    """Continues if an empty-width assertion holds."""

    place: EmptyWidth
    then: int


@dataclass(frozen=True, slots=True)
class AltInst:
    """Continues on several branches, preferred ones first."""

    branches: tuple[int, ...]


Step = RuneInst | EmptyWidthInst | AltInst | None
"""None is a match."""


class PatternTooLargeError(ValueError):
    """The pattern compiles to more than `MAX_STEPS` instructions."""


@dataclass(frozen=True, slots=True)
class RegexpProgram:
    """The instructions and the index of the first."""

    steps: tuple[Step, ...]
    first: int


def compile_program(node: Node) -> RegexpProgram:
    """Compiles a syntax tree; raises PatternTooLargeError."""
    steps: list[Step] = [None]
    return RegexpProgram(first=_emit(node, 0, steps), steps=tuple(steps))


def _emit(node: Node, then: int, steps: list[Step]) -> int:
    """Emits the instructions of a node that continue at `then`; returns their entry point."""
    match node:
        case Chars():
            return _add(RuneInst(node, then), steps)
        case EmptyWidth():
            return _add(EmptyWidthInst(node, then), steps)
        case Concat():
            for part in reversed(node.parts):
                then = _emit(part, then, steps)
            return then
        case Alternate():
            return _add(AltInst(tuple(_emit(part, then, steps) for part in node.parts)), steps)
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


def _more(again: int, then: int, *, lazy: bool) -> AltInst:
    return AltInst((then, again) if lazy else (again, then))


def _add(step: Step, steps: list[Step]) -> int:
    if len(steps) >= MAX_STEPS:
        raise PatternTooLargeError
    steps.append(step)
    return len(steps) - 1


# Cache size of one pattern: a few states with the characters of ordinary texts.
_MAX_CACHED = 4000


class _State:
    """The pending instructions, and the class of the previous character."""

    __slots__ = ("before", "following", "pending")

    def __init__(self, pending: frozenset[int], before: str) -> None:
        self.pending, self.before = pending, before
        self.following: dict[str, _State] = {}


_MATCHED = _State(frozenset(), "")


class GoPattern:
    """A compiled pattern with its cached states."""

    def __init__(self, program: RegexpProgram) -> None:
        self._steps, self._first = program.steps, program.first
        self._states: dict[tuple[frozenset[int], str], _State] = {}
        self._cached = 0

    def matches(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the text."""
        state = self._state(frozenset((self._first,)), "")
        for char in text:
            state = state.following.get(char) or self._next(state, char)
            if state is _MATCHED:
                return True
        return self._next(state, "") is _MATCHED

    def find(self, text: str) -> str | None:
        """Returns the leftmost match; of several at one position, the one the pattern prefers."""
        found = self._find(text, 0) if self.matches(text) else None
        return None if found is None else text[found[0] : found[1]]

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """Returns all non-overlapping matches, without an empty one right after another."""
        found: list[str] = []
        at, last_end = 0, -1
        while len(found) != limit and at <= len(text) and (match := self._find(text, at)) is not None:
            start, end = match
            if start < end or start != last_end:
                found.append(text[start:end])
            at = end + 1 if end == at else end
            last_end = end
        return found

    def _next(self, state: _State, char: str) -> _State:
        """Returns the state after a character, or at the end of the text for an empty one."""
        pending = {self._first}
        for step, _ in self._reachable(((index, 0) for index in state.pending), state.before, char):
            if step is None:
                following = _MATCHED
                break
            if char and step.chars.has(char):
                pending.add(step.then)
        else:
            following = self._state(frozenset(pending), _kind(char))
        if self._cached >= _MAX_CACHED:
            self._states.clear()
            self._cached = 0
        self._cached += 1
        state.following[char] = following
        return following

    def _state(self, pending: frozenset[int], before: str) -> _State:
        known = self._states.get((pending, before))
        if known is None:
            known = self._states[pending, before] = _State(pending, before)
        return known

    def _find(self, text: str, start: int) -> tuple[int, int] | None:
        """Returns start and end of the first match from `start` on."""
        best: tuple[int, int] | None = None
        pending: list[tuple[int, int]] = []
        for at in range(start, len(text) + 1):
            if best is None:
                pending.append((self._first, at))
            if not pending:
                break
            char = text[at : at + 1]
            continuing: list[tuple[int, int]] = []
            for step, begin in self._reachable(pending, text[at - 1 : at] if at else "", char):
                if step is None:
                    # Later branches have lower priority.
                    best = (begin, at)
                    break
                if char and step.chars.has(char):
                    continuing.append((step.then, begin))
            pending = continuing
        return best

    def _reachable(
        self, pending: Iterable[tuple[int, int]], before: str, after: str
    ) -> Iterator[tuple[RuneInst | None, int]]:
        """Returns character instructions and matches (None), each once in priority order, with their start."""
        seen: set[int] = set()
        for index, begin in pending:
            stack = [index]
            while stack:
                now = stack.pop()
                if now in seen:
                    continue
                seen.add(now)
                step = self._steps[now]
                if isinstance(step, AltInst):
                    stack.extend(reversed(step.branches))
                elif not isinstance(step, EmptyWidthInst):
                    yield step, begin
                elif _is_at(step.place, before, after):
                    stack.append(step.then)


@lru_cache(maxsize=256)
def go_pattern(pattern: str) -> GoPattern:
    """Compiles a pattern; raises PatternError if Go would reject it."""
    try:
        return GoPattern(compile_program(parse(pattern)))
    except PatternTooLargeError:
        raise PatternError("expression is too large", pattern[:100]) from None


def _is_at(place: EmptyWidth, before: str, after: str) -> bool:
    match place:
        case EmptyWidth.TEXT_START:
            return not before
        case EmptyWidth.TEXT_END:
            return not after
        case EmptyWidth.LINE_START:
            return before in ("", "\n")
        case EmptyWidth.LINE_END:
            return after in ("", "\n")
    is_edge = (_kind(before) == "a") != (_kind(after) == "a")
    return is_edge == (place is EmptyWidth.WORD_EDGE)


def _kind(char: str) -> str:
    """Returns a representative of the character's class: word, line end, other or none."""
    if char in ("", "\n"):
        return char
    return "a" if char.isascii() and (char.isalnum() or char == "_") else " "
