"""Regular expressions as Go runs them, for patterns in schemas and rules.

In: a pattern of Go's syntax (RE2), then texts. Out: whether and where it matches. All ways through the pattern are followed
at once, so the time is that of the text times that of the pattern, whoever wrote them: Python's own would try one way after
the other, for years if somebody means harm. Sets of ways are remembered with what each character makes of them, so that
most characters cost a look into a table.

Upstream: regexp of Go's standard library
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from pykubelet.apiserver.custom.regex.program import At, Either, Program, Take, TooLong, compiled
from pykubelet.apiserver.custom.regex.syntax import PatternError, parse
from pykubelet.apiserver.custom.regex.tree import Place

__all__ = ["GoPattern", "PatternError", "go_pattern"]

# What one pattern remembers: a few states with the characters of everyday texts.
_MOST_REMEMBERED = 4000


class _State:
    """The steps that may come next, and the kind of character before them."""

    __slots__ = ("before", "following", "pending")

    def __init__(self, pending: frozenset[int], before: str) -> None:
        self.pending, self.before = pending, before
        self.following: dict[str, _State] = {}


_MATCHED = _State(frozenset(), "")


class GoPattern:
    """A pattern to match texts with."""

    def __init__(self, program: Program) -> None:
        self._steps, self._first = program.steps, program.first
        self._states: dict[tuple[frozenset[int], str], _State] = {}
        self._remembered = 0

    def matches(self, text: str) -> bool:
        """Whether the pattern matches somewhere in the text."""
        state = self._state(frozenset((self._first,)), "")
        for char in text:
            state = state.following.get(char) or self._next(state, char)
            if state is _MATCHED:
                return True
        return self._next(state, "") is _MATCHED

    def find(self, text: str) -> str | None:
        """The first match; of several at the same place the one that the pattern prefers."""
        found = self._find(text, 0) if self.matches(text) else None
        return None if found is None else text[found[0] : found[1]]

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """Every match, none of which overlap; no empty one right behind another."""
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
        """The state after a character, or at the end of the text if there is none."""
        pending = {self._first}
        for step, _ in self._ways(((index, 0) for index in state.pending), state.before, char):
            if step is None:
                following = _MATCHED
                break
            if char and step.chars.has(char):
                pending.add(step.then)
        else:
            following = self._state(frozenset(pending), _kind(char))
        if self._remembered >= _MOST_REMEMBERED:
            self._states.clear()
            self._remembered = 0
        self._remembered += 1
        state.following[char] = following
        return following

    def _state(self, pending: frozenset[int], before: str) -> _State:
        known = self._states.get((pending, before))
        if known is None:
            known = self._states[pending, before] = _State(pending, before)
        return known

    def _find(self, text: str, start: int) -> tuple[int, int] | None:
        """Where the first match from there on starts and ends."""
        best: tuple[int, int] | None = None
        pending: list[tuple[int, int]] = []
        for at in range(start, len(text) + 1):
            if best is None:
                pending.append((self._first, at))
            if not pending:
                break
            char = text[at : at + 1]
            going_on: list[tuple[int, int]] = []
            for step, begin in self._ways(pending, text[at - 1 : at] if at else "", char):
                if step is None:
                    # The ways that come after this one are worse.
                    best = (begin, at)
                    break
                if char and step.chars.has(char):
                    going_on.append((step.then, begin))
            pending = going_on
        return best

    def _ways(self, pending: Iterable[tuple[int, int]], before: str, after: str) -> Iterator[tuple[Take | None, int]]:
        """The steps that take a character, and matches (None), each once and the best first, with where they began."""
        seen: set[int] = set()
        for index, begin in pending:
            stack = [index]
            while stack:
                now = stack.pop()
                if now in seen:
                    continue
                seen.add(now)
                step = self._steps[now]
                if isinstance(step, Either):
                    stack.extend(reversed(step.ways))
                elif not isinstance(step, At):
                    yield step, begin
                elif _is_at(step.place, before, after):
                    stack.append(step.then)


@lru_cache(maxsize=256)
def go_pattern(pattern: str) -> GoPattern:
    """The pattern of a text; PatternError if Go would not take it."""
    try:
        return GoPattern(compiled(parse(pattern)))
    except TooLong:
        raise PatternError("expression is too large", pattern[:100]) from None


def _is_at(place: Place, before: str, after: str) -> bool:
    match place:
        case Place.TEXT_START:
            return not before
        case Place.TEXT_END:
            return not after
        case Place.LINE_START:
            return before in ("", "\n")
        case Place.LINE_END:
            return after in ("", "\n")
    is_edge = (_kind(before) == "a") != (_kind(after) == "a")
    return is_edge == (place is Place.WORD_EDGE)


def _kind(char: str) -> str:
    """A character that stands for all of its kind: of words, ends of lines, others, none."""
    if char in ("", "\n"):
        return char
    return "a" if char.isascii() and (char.isalnum() or char == "_") else " "
