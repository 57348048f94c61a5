"""Limits of a request: size, duration, and how many run at once.

Reads and writes have separate slots; watches and other long-running requests need none. Waiting requests are taken
user by user, so that a busy user delays only itself. Cluster administrators are never rejected: they wait as long as
their request may take.

Upstream: staging/src/k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go,
staging/src/k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go,
staging/src/k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap/default.go
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Mapping

from pykubelet.api.errors import BadRequest, Timeout, TooLarge, TooManyRequests
from pykubelet.api.field_errors import go_quote
from pykubelet.apiserver.request import MASTERS, UserInfo

MAX_BODY_BYTES = 3 * 1024 * 1024
# A service account token has about a kilobyte, a long label selector a few. Go allows a megabyte for all headers.
MAX_LINE_BYTES = 64 * 1024
MAX_HEADERS = 128
REQUEST_SECONDS = 60.0
# The longest time a connection may stay idle: Go's IdleTimeout in an API server.
IDLE_SECONDS = 90.0
# A client that reads nothing for this long is disconnected, so that its memory is released.
STALLED_SECONDS = 30.0
_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_STEP = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_NUMBER = re.compile(r"[0-9.]+")
MAX_READS_IN_FLIGHT = 400
MAX_WRITES_IN_FLIGHT = 200
MAX_WAITING = 300
"""Waiting requests per user. Upstream's default: a hand of 6 queues of length 50."""
WAITING_SHARE = 0.25
"""The share of a request's time that it may spend waiting."""


class RequestSlots:
    __slots__ = ("_queues", "_slots", "taken", "waiting")

    def __init__(self, slots: int) -> None:
        self._slots, self.taken, self.waiting = slots, 0, 0
        # Waiting requests by user, next user first; each user's requests in order.
        self._queues: OrderedDict[str, OrderedDict[asyncio.Future[None], None]] = OrderedDict()

    async def enter(self, user: UserInfo, seconds: float) -> None:
        """Takes or waits for a slot; TooManyRequests if too many wait. The whole request may take `seconds`."""
        if self.taken < self._slots:
            # No request waits here: a slot that is released goes to the next waiting request.
            self.taken += 1
            return
        if MASTERS in user.groups:
            await self._wait(user)
            return
        if len(self._queues.get(user.name, ())) >= MAX_WAITING:
            raise _too_many_requests()
        try:
            async with asyncio.timeout(seconds * WAITING_SHARE):
                await self._wait(user)
        except TimeoutError:
            raise _too_many_requests() from None

    def leave(self) -> None:
        """Hands the slot to the next waiting request, or releases it."""
        while self._queues:
            name, queue = self._queues.popitem(last=False)
            waiter, _ = queue.popitem(last=False)
            if queue:
                self._queues[name] = queue
            if not waiter.done():
                waiter.set_result(None)
                return
        self.taken -= 1

    async def _wait(self, user: UserInfo) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._queues.setdefault(user.name, OrderedDict())[waiter] = None
        self.waiting += 1
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._give_up(user, waiter)
            else:
                # The slot was granted in the same moment that waiting ended.
                self.leave()
            raise
        finally:
            self.waiting -= 1

    def _give_up(self, user: UserInfo, waiter: asyncio.Future[None]) -> None:
        queue = self._queues.get(user.name, OrderedDict())
        # `leave` may have removed this request from the queue already.
        queue.pop(waiter, None)
        if not queue:
            self._queues.pop(user.name, None)


class MaxInFlight:
    __slots__ = ("reading", "writing")

    def __init__(self) -> None:
        self.reading = RequestSlots(MAX_READS_IN_FLIGHT)
        self.writing = RequestSlots(MAX_WRITES_IN_FLIGHT)


def _too_many_requests() -> TooManyRequests:
    return TooManyRequests("Too many requests, please try again later.", retry_after_seconds=1)


def too_large() -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")


def took_too_long() -> Timeout:
    return Timeout("Timeout: request did not complete within the allotted timeout", details={})


def request_seconds(query: Mapping[str, str]) -> float:
    """The time a request may take: its `timeout` parameter, within the server's limit."""
    requested = query.get("timeout")
    if not requested:
        return REQUEST_SECONDS
    seconds = _duration_seconds(requested)
    return seconds if 0 < seconds < REQUEST_SECONDS else REQUEST_SECONDS


def _duration_seconds(text: str) -> float:
    """Parses a Go duration: 1h30m, 500ms, 0."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    sign = -1.0 if text.startswith("-") else 1.0
    if rest == "0":
        return 0.0
    seconds, at = 0.0, 0
    while step := _STEP.match(rest, at):
        seconds += float(step[1]) * _UNIT_SECONDS[step[2]]
        at = step.end()
    if not rest or at < len(rest):
        raise BadRequest(f"invalid timeout specified in the request URL - time: {_duration_error(text, rest[at:])}")
    return sign * seconds


def _duration_error(text: str, rest: str) -> str:
    number = _NUMBER.match(rest)
    if number is None or not any(map(str.isdigit, number[0])) or number[0].count(".") > 1:
        return f"invalid duration {go_quote(text)}"
    unit = rest[number.end() :]
    if not unit:
        return f"missing unit in duration {go_quote(text)}"
    word = re.split(r"[0-9.]", unit, maxsplit=1)[0]
    return f"unknown unit {go_quote(word)} in duration {go_quote(text)}"
