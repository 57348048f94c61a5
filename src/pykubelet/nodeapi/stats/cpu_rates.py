"""How fast something uses the processor, from two readings of how much it has used.

Upstream: getAndUpdateContainerUsage in pkg/kubelet/stats/cri_stats_provider.go
"""

from collections.abc import Iterable

from pykubelet.runtime.usage import Usage


class CpuRates:
    """Remembers the reading before, by a name of the caller's choice."""

    def __init__(self) -> None:
        self._before: dict[str, Usage] = {}
        self._rates: dict[str, int] = {}

    def nano_cores(self, key: str, usage: Usage) -> int | None:
        """Billionths of a core since the reading before; None for the first. Less than a second apart, as before."""
        before = self._before.get(key)
        if before is None or before.cpu_nanoseconds is None or usage.cpu_nanoseconds is None:
            self._before[key] = usage
            return None
        seconds = (usage.at - before.at).total_seconds()
        if seconds >= 1:
            # A container that was started anew begins at nothing.
            used = max(usage.cpu_nanoseconds - before.cpu_nanoseconds, 0)
            self._before[key], self._rates[key] = usage, int(used / seconds)
        return self._rates.get(key)

    def keep(self, keys: Iterable[str]) -> None:
        """Forget all others."""
        kept = set(keys)
        for gone in self._before.keys() - kept:
            del self._before[gone]
            self._rates.pop(gone, None)
