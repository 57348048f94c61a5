"""Which files are still being changed, and when they may be read.

In: hints that a name changed, each with how long it must then stay quiet. Out: the names that have been quiet long
enough. So a burst of edits is read once, and a file in the middle of being written is not read at all. Times are
numbers from one clock that only grows.
"""

from collections.abc import Set as AbstractSet

TOGETHER_SECONDS = 0.1
"""What becomes due within this of the first is taken with it: the two halves of a rename are one change."""


class Settling:
    """Names that changed; owned by one task."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def note(self, name: str, now: float, quiet_seconds: float) -> None:
        """The name changed; it is due after so long without another change."""
        self._due[name] = now + quiet_seconds

    def take_due(self, now: float) -> frozenset[str]:
        """The names that are due by now; they are forgotten."""
        due = frozenset(name for name, at in self._due.items() if at <= now)
        for name in due:
            del self._due[name]
        return due

    def unsettled(self) -> AbstractSet[str]:
        """The names that are not due yet."""
        return frozenset(self._due)

    def next_due(self) -> float | None:
        """When to take the next names, those that are due soon after included; None if none waits."""
        if not self._due:
            return None
        first = min(self._due.values())
        return max(at for at in self._due.values() if at <= first + TOGETHER_SECONDS)
