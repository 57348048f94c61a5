"""Answers kept for a while, and never too many of them.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/cache/{lruexpirecache,expiring}.go
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """At most `limit` answers, each until its time; the one not asked for the longest goes first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._answers: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def get(self, key: Hashable, now: float) -> T | None:
        """The answer, if there is one that holds now."""
        found = self._answers.get(key)
        if found is None:
            return None
        until, answer = found
        if now >= until:
            del self._answers[key]
            return None
        self._answers.move_to_end(key)
        return answer

    def put(self, key: Hashable, answer: T, until: float) -> None:
        """Keep an answer until a time."""
        self._answers[key] = until, answer
        self._answers.move_to_end(key)
        while len(self._answers) > self._limit:
            self._answers.popitem(last=False)

    def __len__(self) -> int:
        return len(self._answers)
