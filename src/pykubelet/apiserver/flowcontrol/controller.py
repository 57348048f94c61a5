"""Gives each request a seat of its priority level, at once or when its turn comes.

A priority level has a share of all seats. It lends some of those that it does not use to others, and borrows some of
theirs. The level called exempt has no limit. Watches need a seat until their first events are known; other
long-running requests need none.

Upstream: staging/src/k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go,
staging/src/k8s.io/apiserver/pkg/util/flowcontrol/apf_filter.go,
staging/src/k8s.io/apiserver/pkg/util/flowcontrol/conc_alloc.go,
staging/src/k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import TooManyRequests
from pykubelet.api.serializer import Document
from pykubelet.apiserver.filters.requestinfo import RequestInfo
from pykubelet.apiserver.flowcontrol.classification import FlowSchemaRules, flow_schema_rules
from pykubelet.apiserver.flowcontrol.queueset import FairQueue, QueueSet, Queuing
from pykubelet.apiserver.request import UserInfo
from pykubelet.apiserver.storage.interfaces import Store
from pykubelet.kinds import flow_schema, priority_level_configuration
from pykubelet.kinds.flow_schema import MANDATORY_FLOW_SCHEMAS
from pykubelet.kinds.priority_level_configuration import MANDATORY_PRIORITY_LEVELS

SEATS = 600
"""Upstream's limits of 400 reads and 200 writes, added up."""
WAITING_SHARE = 0.25
"""The share of a request's time that it may spend waiting."""
_OBJECTS_PER_SEAT, _MOST_SEATS = 100, 10
_COLLECTIONS = (
    priority_level_configuration.KIND.resource.group_resource,
    flow_schema.KIND.resource.group_resource,
)
_REJECTS = Queuing(queues=1, hand_size=1, queue_length=0)
_MAX_REMEMBERED = 4096
_Waiter: TypeAlias = "asyncio.Future[FairQueue[_Waiter]]"


class PriorityLevel:
    """A priority level: how many seats it has, may lend and may borrow, and its waiting requests."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_exempt = False
        self.nominal = self.least = 0
        """The seats it has, and those that it never lends."""
        self.most = math.inf
        self.used = self.dispatched = self.rejected = 0
        self.queues: QueueSet[_Waiter] = QueueSet(_REJECTS)

    def configure(self, spec: Document, total_shares: int) -> None:
        """Applies a specification; requests that wait already keep their place."""
        self.is_exempt = spec["type"] == "Exempt"
        limits: Document = spec["exempt" if self.is_exempt else "limited"]
        shares = limits.get("nominalConcurrencyShares", 0)
        self.nominal = math.ceil(SEATS * shares / total_shares) if total_shares else 0
        self.least = self.nominal - round(self.nominal * limits.get("lendablePercent", 0) / 100)
        borrowed = limits.get("borrowingLimitPercent")
        self.most = math.inf if borrowed is None else self.nominal + round(self.nominal * borrowed / 100)
        queuing = (limits.get("limitResponse") or {}).get("queuing")
        self.queues.queuing = (
            _REJECTS
            if queuing is None
            else Queuing(queuing["queues"], queuing["handSize"], queuing["queueLengthLimit"])
        )

    def reserved(self) -> int:
        """The seats that others may not use although this level does not use them now."""
        return 0 if self.is_exempt else max(self.least - self.used, 0)


@dataclass(slots=True)
class Seats:
    """The seats that a request has taken; give them to `FlowController.leave`."""

    level: PriorityLevel
    width: int
    started: float
    queue: FairQueue[_Waiter] | None = None


@dataclass(frozen=True, slots=True)
class Classified:
    """Where a request belongs."""

    schema: FlowSchemaRules
    level: PriorityLevel
    flow: str


class FlowController:
    """Seats for the requests of an API server. Taking one that is free costs O(1)."""

    def __init__(self, clock: Clock, count: Callable[[str], int] = lambda _: 0) -> None:
        """`count` returns the number of stored objects of a collection."""
        self._clock, self._count = clock, count
        self.levels: dict[str, PriorityLevel] = {}
        self._schemas: list[FlowSchemaRules] = []
        self._remembered: dict[tuple[object, ...], Classified] = {}
        self._total = SEATS
        self._used = self._reserved = 0
        self.executing: Counter[bool] = Counter()
        """The requests that have seats, by whether they write."""
        self.waiting: Counter[bool] = Counter()
        self.configure((), ())

    def follow(self, store: Store) -> None:
        """Applies the stored configuration, now and whenever it changes."""

        def apply(_change: object = None) -> None:
            self.configure(*([entry.document for entry in store.list(name).entries] for name in _COLLECTIONS))

        for name in _COLLECTIONS:
            store.listen(name, apply)
        apply()

    def configure(self, levels: Iterable[Document], schemas: Iterable[Document]) -> None:
        """Applies a configuration, to which the mandatory objects belong in any case.

        A level that is gone keeps its seats until its requests have ended.
        """
        found = _with_mandatory(levels, MANDATORY_PRIORITY_LEVELS)
        shares = sum(_shares(one["spec"]) for one in found.values())
        for name, document in found.items():
            level = self.levels.setdefault(name, PriorityLevel(name))
            level.configure(document["spec"], shares)
        kept = {name: level for name, level in self.levels.items() if level.used or level.queues}
        self.levels = {**kept, **{name: self.levels[name] for name in found}}
        limited = [level for level in self.levels.values() if not level.is_exempt]
        self._total = max(SEATS, sum(level.nominal for level in limited))
        self._used, self._reserved = sum(one.used for one in limited), sum(one.reserved() for one in limited)
        rules = map(flow_schema_rules, _with_mandatory(schemas, MANDATORY_FLOW_SCHEMAS).values())
        self._schemas = sorted((one for one in rules if one.level in found), key=lambda one: (one.precedence, one.name))
        self._remembered.clear()
        self._serve()

    def classify(self, user: UserInfo, info: RequestInfo) -> Classified:
        """The flow schema, priority level and flow of a request; the schema catch-all takes every request."""
        key = (user.name, user.groups, info.verb, info.group, info.plural, info.subresource, info.namespace)
        known = self._remembered.get(key)
        if known is None:
            schema = next(one for one in self._schemas if one.matches(user, info))
            known = Classified(schema, self.levels[schema.level], schema.flow(user, info))
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = known
        return known

    async def enter(self, user: UserInfo, info: RequestInfo, seconds: float, *, writes: bool) -> Seats:
        """Takes seats or waits for them; TooManyRequests if too many wait. The whole request may take `seconds`."""
        found = self.classify(user, info)
        level, width = found.level, 1
        if info.verb == "list" and not level.is_exempt:
            collection = f"{info.plural}.{info.group}" if info.group else info.plural
            width = min(seats_of_list(self._count(collection)), max(level.nominal, 1))
        seats = Seats(level, width, self._clock.monotonic())
        if level.is_exempt or (not level.queues and self._has_room(level, width)):
            self._take(level, width)
        else:
            self.waiting[writes] += 1
            try:
                await self._wait(found, seats, seconds)
            finally:
                self.waiting[writes] -= 1
            seats.started = self._clock.monotonic()
        self.executing[writes] += 1
        return seats

    def leave(self, seats: Seats, *, writes: bool) -> None:
        """Gives seats back, and hands them to those who wait."""
        self.executing[writes] -= 1
        self._give_back(seats)

    async def _wait(self, found: Classified, seats: Seats, seconds: float) -> None:
        level, queues = found.level, found.level.queues
        waiter: _Waiter = asyncio.get_running_loop().create_future()
        if not queues.add(found.flow, waiter, seats.width):
            level.rejected += 1
            raise _too_many_requests()
        try:
            async with asyncio.timeout(seconds * WAITING_SHARE):
                seats.queue = await waiter
        except (TimeoutError, asyncio.CancelledError) as error:
            if waiter.done() and not waiter.cancelled():
                # The seats were granted in the same moment that waiting ended.
                seats.queue = waiter.result()
                self._give_back(seats)
            else:
                queues.discard(waiter)
            if isinstance(error, TimeoutError):
                level.rejected += 1
                raise _too_many_requests() from None
            raise

    def _give_back(self, seats: Seats) -> None:
        level = seats.level
        if seats.queue is not None:
            level.queues.ended(seats.queue, seats.width, self._clock.monotonic() - seats.started)
        self._take(level, -seats.width)
        self._serve()

    def _serve(self) -> None:
        """Hands free seats to waiting requests, first of levels that use less than their own."""
        waiting = [level for level in self.levels.values() if level.queues]
        for level in sorted(waiting, key=lambda one: one.used >= one.nominal):
            while level.queues:
                queue, waiter, width = level.queues.next()
                if waiter.cancelled():
                    level.queues.discard(waiter)
                    continue
                if not self._has_room(level, width):
                    break
                level.queues.dispatch(queue, waiter)
                self._take(level, width)
                waiter.set_result(queue)

    def _has_room(self, level: PriorityLevel, width: int) -> bool:
        others = self._reserved - level.reserved()
        return level.used + width <= level.most and self._used + width + others <= self._total

    def _take(self, level: PriorityLevel, width: int) -> None:
        before = level.reserved()
        level.used += width
        level.dispatched += width > 0
        if not level.is_exempt:
            self._used += width
            self._reserved += level.reserved() - before


def _with_mandatory(documents: Iterable[Document], mandatory: Mapping[str, Document]) -> dict[str, Document]:
    """The documents by name, with those that always exist."""
    fixed = {name: {"metadata": {"name": name}, "spec": spec} for name, spec in mandatory.items()}
    return {**fixed, **{one["metadata"]["name"]: one for one in documents}}


def _shares(spec: Document) -> int:
    return int(spec["exempt" if spec["type"] == "Exempt" else "limited"].get("nominalConcurrencyShares", 0))


def seats_of_list(objects: int) -> int:
    """The seats that a list needs."""
    return min(max(-(-objects // _OBJECTS_PER_SEAT), 1), _MOST_SEATS)


def _too_many_requests() -> TooManyRequests:
    return TooManyRequests("Too many requests, please try again later.", retry_after_seconds=1)
