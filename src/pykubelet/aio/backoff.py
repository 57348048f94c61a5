"""Exponential backoff: a rule for growing delays, a counter of retries, and delays by key.

Delays grow by a factor up to a limit, with jitter so that many clients do not retry in step. Time and randomness are
parameters, so that tests can fix them. `KeyedBackoff` starts over for a key after a quiet period.

Upstream: staging/src/k8s.io/client-go/util/flowcontrol/backoff.go,
staging/src/k8s.io/apimachinery/pkg/util/wait/backoff.go
"""

import random  # noqa: TID251  the one place that draws random numbers
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

Random = Callable[[], float]
"""Returns a number in [0, 1)."""
system_random: Random = random.Random().random  # noqa: S311  spreads load, guards nothing
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The rule: first delay, growth factor, limit, and jitter as a share of the delay that is added on top."""

    first_seconds: float
    limit_seconds: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay_seconds(self, failures: int, rand: Random = system_random) -> float:
        """The delay after this many consecutive failures (1 is the first)."""
        # The exponent is capped: a year of failures must not overflow a float.
        grown = self.first_seconds * self.factor ** min(max(failures, 1) - 1, 64)
        return min(grown, self.limit_seconds) * (1 + self.jitter * rand())


class Retries:
    """Counts consecutive failures under one `Backoff` rule. Owned by one task."""

    def __init__(self, rule: Backoff, rand: Random = system_random) -> None:
        self._rule, self._rand = rule, rand
        self.failures = 0

    def next_delay_seconds(self) -> float:
        """Record a failure and return the delay before the next attempt."""
        self.failures += 1
        return self._rule.delay_seconds(self.failures, self._rand)

    def reset(self) -> None:
        """Record a success: the next failure is the first again."""
        self.failures = 0


@dataclass(frozen=True, slots=True)
class _KeyDelay:
    seconds: float
    advanced_at: datetime


class KeyedBackoff(Generic[K]):
    """One delay per key, doubled at each `advance`.

    `forgotten_after_seconds` is the quiet period, by default twice the limit.
    """

    def __init__(
        self, *, first_seconds: float, limit_seconds: float, forgotten_after_seconds: float | None = None
    ) -> None:
        self._first_seconds, self._limit_seconds = first_seconds, limit_seconds
        quiet = 2 * limit_seconds if forgotten_after_seconds is None else forgotten_after_seconds
        self._quiet_period = timedelta(seconds=quiet)
        self._delays: dict[K, _KeyDelay] = {}

    def __len__(self) -> int:
        return len(self._delays)

    def __contains__(self, key: object) -> bool:
        return key in self._delays

    def delay_seconds(self, key: K) -> float:
        """The current delay of a key; 0 if it has none."""
        found = self._delays.get(key)
        return found.seconds if found is not None else 0.0

    def waits_until(self, key: K, *, event_at: datetime, now: datetime) -> datetime | None:
        """The end of the delay that counts from an event; None if it has passed or there is none."""
        found = self._delays.get(key)
        if found is None or self._is_forgotten(found, event_at):
            return None
        return _end_of(found, event_at, now)

    def waits_since_advance(self, key: K, now: datetime) -> datetime | None:
        """The end of the delay that counts from the last `advance`; None if it has passed or there is none."""
        found = self._delays.get(key)
        if found is None or self._is_forgotten(found, now):
            return None
        return _end_of(found, found.advanced_at, now)

    def advance(self, key: K, *, event_at: datetime, now: datetime) -> None:
        """Double the delay of a key, or start with the first one after a quiet period."""
        found = self._delays.get(key)
        seconds = self._first_seconds
        if found is not None and not self._is_forgotten(found, event_at):
            seconds = min(2 * found.seconds, self._limit_seconds)
        self._delays[key] = _KeyDelay(seconds, now)

    def prune(self, now: datetime) -> None:
        """Drop the keys whose quiet period has passed."""
        self._delays = {key: one for key, one in self._delays.items() if not self._is_forgotten(one, now)}

    def _is_forgotten(self, delay: _KeyDelay, at: datetime) -> bool:
        return at - delay.advanced_at > self._quiet_period


def _end_of(delay: _KeyDelay, since: datetime, now: datetime) -> datetime | None:
    """The end of a delay, None if it has passed.

    It has passed also if it counts from a time further in the future than it lasts: the clock was set back since.
    """
    seconds = timedelta(seconds=delay.seconds)
    return since + seconds if since - seconds <= now < since + seconds else None
