"""Measures pods every few seconds while somebody looks at the page.

In: readings of the runtime. Out: the points of the last minutes, for each pod.
"""

import asyncio

from pykubelet.web.collaborators import Measures, Unavailable
from pykubelet.web.usage_history import Point, UsageHistory

PERIOD_SECONDS = 3.0


class MeasuredPods:
    """What pods used while somebody looked; a `Usage`."""

    def __init__(self, measures: Measures) -> None:
        self._measures, self._history = measures, UsageHistory()

    def points(self, key: str) -> tuple[Point, ...]:
        """The last minutes of a pod."""
        return self._history.points(key)

    async def run(self, wanted: asyncio.Event) -> None:
        """Measure whenever it is wanted, until cancelled."""
        while True:
            await wanted.wait()
            try:
                readings = await self._measures.read()
            except Unavailable:
                # The picture shows that there is nothing; the node's condition says why.
                readings = {}
            for key, reading in readings.items():
                self._history.note(key, reading)
            self._history.keep(readings)
            await asyncio.sleep(PERIOD_SECONDS)
