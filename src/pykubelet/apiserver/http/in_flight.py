"""Requests take turns: so many run at once, some wait for a seat, the rest is asked to come back.

Reads and writes have seats of their own; watches and other long requests need none. Those that wait are taken user by
user, so that one who asks for much holds up only itself. Cluster administrators are never refused: they wait as long as
their request may take.

Upstream: staging/src/k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go, and from
apis/flowcontrol/bootstrap/default.go what one user may have in queues (a hand of 6, 50 long) and who is exempt.
"""

import asyncio
from collections import OrderedDict

from pykubelet.api.errors import TooManyRequests
from pykubelet.apiserver.call import MASTERS, User

MAX_READING = 400
MAX_WRITING = 200
MAX_WAITING = 300
"""Of one user."""
WAITING_SHARE = 0.25
"""Of the time that a request may take."""


class Seats:
    """Seats for requests of one kind; whoever entered leaves."""

    __slots__ = ("_lines", "_seats", "taken", "waiting")

    def __init__(self, seats: int) -> None:
        self._seats, self.taken, self.waiting = seats, 0, 0
        # By user, the one whose turn it is first; of each, those that wait, in order.
        self._lines: OrderedDict[str, OrderedDict[asyncio.Future[None], None]] = OrderedDict()

    async def enter(self, user: User, seconds: float) -> None:
        """Take a seat, at once or when one is free; TooManyRequests if too many wait, or for too long.

        `seconds` is what the request may take in all.
        """
        if self.taken < self._seats:
            # Nobody waits then, for a seat that is left goes to whoever does.
            self.taken += 1
            return
        if MASTERS in user.groups:
            await self._turn(user)
            return
        if len(self._lines.get(user.name, ())) >= MAX_WAITING:
            raise _refusal()
        try:
            async with asyncio.timeout(seconds * WAITING_SHARE):
                await self._turn(user)
        except TimeoutError:
            raise _refusal() from None

    def leave(self) -> None:
        """Give the seat to whose turn it is, or let it go."""
        while self._lines:
            name, line = self._lines.popitem(last=False)
            turn, _ = line.popitem(last=False)
            if line:
                self._lines[name] = line
            if not turn.done():
                turn.set_result(None)
                return
        self.taken -= 1

    async def _turn(self, user: User) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(user.name, OrderedDict())[turn] = None
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._give_up(user, turn)
            else:
                # The seat came in the same moment; nobody sits on it.
                self.leave()
            raise
        finally:
            self.waiting -= 1

    def _give_up(self, user: User, turn: asyncio.Future[None]) -> None:
        line = self._lines.get(user.name, OrderedDict())
        # Whoever left a seat may have passed it over already.
        line.pop(turn, None)
        if not line:
            self._lines.pop(user.name, None)


class InFlight:
    """The seats of a server."""

    __slots__ = ("reading", "writing")

    def __init__(self) -> None:
        self.reading = Seats(MAX_READING)
        self.writing = Seats(MAX_WRITING)


def _refusal() -> TooManyRequests:
    return TooManyRequests("Too many requests, please try again later.", retry_after_seconds=1)
