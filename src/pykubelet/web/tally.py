"""How many pods are at each station of their path, kept up to date row by row.

In: each row as it comes, changes and goes. Out: the counts that the picture of the path shows. A change costs the same
however many pods there are.
"""

from collections import Counter

from msgspec import Struct

from pykubelet.web.pod_row import PodRow, Tone


class Counts(Struct, frozen=True, kw_only=True, rename="camel"):
    """The counts at the stations, and of rows by tone."""

    sources: dict[str, int]
    desired: int
    mirrors: int
    workers: dict[str, int]
    running: int
    waiting: int
    exited: int
    sent: int
    pending: int
    in_api: int
    tones: dict[str, int]


class Tally:
    """Counts rows; owned by whoever owns the rows."""

    def __init__(self) -> None:
        self._sources: Counter[str] = Counter()
        self._workers: Counter[str] = Counter()
        self._tones: Counter[str] = Counter()
        self._totals: Counter[str] = Counter()

    def replace(self, old: PodRow | None, new: PodRow | None) -> None:
        """One row became another; None if there was none, or is none any more."""
        if old is not None:
            self._add(old, -1)
        if new is not None:
            self._add(new, 1)

    def counts(self) -> Counts:
        """All of them, now."""
        totals = self._totals
        return Counts(
            sources=_some(self._sources),
            desired=totals["desired"],
            mirrors=totals["mirrors"],
            workers=_some(self._workers),
            running=totals["running"],
            waiting=totals["waiting"],
            exited=totals["exited"],
            sent=totals["sent"],
            pending=totals["pending"],
            in_api=totals["in_api"],
            tones={tone.value: self._tones[tone] for tone in Tone},
        )

    def _add(self, row: PodRow, sign: int) -> None:
        totals = self._totals
        self._tones[row.tone] += sign
        totals["in_api"] += sign * row.in_api
        if not row.source:
            # Not on this node: only the API server knows it.
            return
        self._sources[row.source] += sign
        totals["desired"] += sign
        totals["mirrors"] += sign * row.has_mirror
        totals["running"] += sign * row.running
        totals["waiting"] += sign * row.waiting
        totals["exited"] += sign * row.exited
        totals["pending" if row.is_unsent else "sent"] += sign
        if row.worker:
            self._workers[row.worker] += sign


def _some(counter: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in sorted(counter.items()) if count}
