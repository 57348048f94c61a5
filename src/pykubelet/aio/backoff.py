"""How long to wait before the next try.

The delay grows by a factor up to a limit, with jitter so that many clients do not come back in step, and starts over
once things have gone well for a while. Randomness is passed in, so a test can fix it.
"""

import random  # noqa: TID251  this is the door
from collections.abc import Callable
from dataclasses import dataclass

Random = Callable[[], float]
"""Gives a number in [0, 1)."""

system_random: Random = random.Random().random  # noqa: S311  spreads load, guards nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A rule: first delay, growth, limit, jitter as a share of the delay added on top."""

    first_seconds: float
    limit_seconds: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay_seconds(self, failures: int, rand: Random = system_random) -> float:
        """The wait after so many failures in a row (1 = the first)."""
        # The exponent is capped: a year of failures must not overflow a float.
        grown = self.first_seconds * self.factor ** min(max(failures, 1) - 1, 64)
        return min(grown, self.limit_seconds) * (1 + self.jitter * rand())


class Retries:
    """Counts failures in a row under one `Backoff` rule; owned by one task."""

    def __init__(self, rule: Backoff, rand: Random = system_random) -> None:
        self._rule, self._rand = rule, rand
        self.failures = 0

    def next_delay_seconds(self) -> float:
        """Record a failure; how long to wait now."""
        self.failures += 1
        return self._rule.delay_seconds(self.failures, self._rand)

    def reset(self) -> None:
        """Record a success."""
        self.failures = 0
