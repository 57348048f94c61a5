"""The record of a simulation: one line for everything that happens, and the random numbers that decide it.

The same seed gives the same lines. A violation names the line at which an invariant broke.
"""

import asyncio
import hashlib
import random  # noqa: TID251  a seed decides everything here
from collections import Counter, deque
from collections.abc import Callable

LAST_LINES = 40
"""The number of lines that are printed before a violation."""


class Violation(Exception):
    """An invariant does not hold."""


class Trace:
    """The lines of one run; keeps their number, their hash, and the last of them."""

    def __init__(self, seed: int, echo: Callable[[str], None] | None = None) -> None:
        self.seed, self._echo = seed, echo
        self.faults: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.lines = 0
        self.last: deque[str] = deque(maxlen=LAST_LINES)
        self.violation: Violation | None = None
        self.broken = asyncio.Event()
        self._hash = hashlib.sha256()

    def note(self, what: str) -> None:
        """Record something that happens."""
        self.lines += 1
        line = f"{self.lines} {asyncio.get_running_loop().time():.3f} {what}"
        self._hash.update(line.encode())
        self.last.append(line)
        if self._echo is not None:
            self._echo(line)

    def fault(self, kind: str, what: str) -> None:
        """Record a fault that is injected."""
        self.faults[kind] += 1
        self.note(f"FAULT {kind}: {what}")

    def violated(self, what: str) -> None:
        """Record that an invariant is broken; the first one ends the run."""
        self.note(f"VIOLATION {what}")
        if self.violation is None:
            self.violation = Violation(f"seed {self.seed}, line {self.lines}: {what}")
            self.broken.set()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()[:16]


def random_for(seed: int, purpose: str) -> random.Random:
    """Random numbers for one purpose: more draws for one do not change those for another."""
    return random.Random(f"{seed}/{purpose}")
