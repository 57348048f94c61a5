"""How soon the next failed daemon pod of a node may be deleted.

Without a delay a set and a node that refuses its pods would race each other. Time is passed in as monotonic seconds. Upstream: k8s.io/client-go/util/flowcontrol/backoff.go.
"""

from dataclasses import dataclass

FIRST_SECONDS = 1.0
LIMIT_SECONDS = 15 * 60.0
# Quiet for this long, and the delays start over.
_FORGOTTEN_AFTER_SECONDS = 2 * LIMIT_SECONDS


@dataclass(frozen=True, slots=True)
class _Delay:
    seconds: float
    since: float


class FailedPodBackoff:
    """A growing delay per key; what was not asked for in a long time is forgotten."""

    def __init__(self) -> None:
        # Oldest first, as every change puts its key at the end.
        self._delays: dict[str, _Delay] = {}

    def __len__(self) -> int:
        return len(self._delays)

    def delay_seconds(self, key: str) -> float:
        """The present delay; 0 if there is none."""
        found = self._delays.get(key)
        return found.seconds if found is not None else 0.0

    def is_waiting(self, key: str, now_seconds: float) -> bool:
        """Whether the delay is not over yet. Asking does not make it longer."""
        found = self._delays.get(key)
        return found is not None and now_seconds - found.since < found.seconds

    def start(self, key: str, now_seconds: float) -> None:
        """Begin the next delay: twice the last one."""
        while self._delays:
            oldest = next(iter(self._delays))
            if now_seconds - self._delays[oldest].since <= _FORGOTTEN_AFTER_SECONDS:
                break
            del self._delays[oldest]
        last = self._delays.pop(key, None)
        seconds = FIRST_SECONDS if last is None else min(2 * last.seconds, LIMIT_SECONDS)
        self._delays[key] = _Delay(seconds, now_seconds)
