"""So many of the newest, by a time: a cluster has more events than anybody reads.

In: keys with their times. Out: which keys are to go. Costs the same for each, taken over many.
"""


class Newest:
    """Keeps at least `limit` of the newest keys, and at most twice as many."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._times: dict[str, str] = {}

    def note(self, key: str, at: str) -> tuple[str, ...]:
        """This one is of that time now; the keys that are too old for the room there is, it may be among them."""
        self._times[key] = at
        if len(self._times) <= 2 * self._limit:
            return ()
        by_age = sorted(self._times, key=lambda one: self._times[one])
        old = tuple(by_age[: -self._limit])
        for one in old:
            del self._times[one]
        return old

    def forget(self, key: str) -> None:
        """It is gone."""
        self._times.pop(key, None)
