"""What this node does to containers right now: whoever does it tells of its end."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from pykubelet.runtime.changes import ChangeHints
from pykubelet.runtime.cri.looks import Looks


class Deeds:
    """Starts, stops and removals under way."""

    def __init__(self, *, looks: Looks, hints: ChangeHints) -> None:
        self._looks, self._hints = looks, hints
        # One may be asked for again while it is given up.
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def on(self, id: str) -> Iterator[None]:
        """Something is done to a container or a sandbox; its pod is hinted at when that has ended, well or not."""
        self._under_way[id] += 1
        try:
            yield
        finally:
            self._under_way[id] -= 1
            if not self._under_way[id]:
                del self._under_way[id]
            if (uid := self._looks.owner(id)) is not None:
                self._hints.offer(uid)

    def __contains__(self, id: object) -> bool:
        return id in self._under_way
