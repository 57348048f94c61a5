"""Fair queues: the requests of many flows wait in a few queues, which are served in turns.

A flow has a hand of queues, chosen by its hash, and each of its requests joins the shortest of them. So a flow that fills
its queues shares at least one queue of another flow's hand with it only rarely. The next request comes from the queue
that was served least; what a request cost is known when it ends.

Upstream: staging/src/k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset/queueset.go,
staging/src/k8s.io/apiserver/pkg/util/shufflesharding/dealer.go
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Generic, TypeVar

T = TypeVar("T")
# Seat seconds that a request is charged when it is dispatched, before its real cost is known.
ESTIMATED_SECONDS = 0.003


@dataclass(frozen=True, slots=True)
class Queuing:
    """How many queues a priority level has, how many of them a flow may use, and how many requests one takes."""

    queues: int
    hand_size: int
    queue_length: int


@dataclass(slots=True, eq=False)
class FairQueue(Generic[T]):
    """One queue, with the seat seconds that its requests have had."""

    waiting: OrderedDict[T, int] = field(default_factory=OrderedDict)
    """The requests with the seats that each needs."""
    served: float = 0.0
    executing: int = 0

    def load(self) -> int:
        return len(self.waiting) + self.executing


class QueueSet(Generic[T]):
    """The queues of one priority level. Adding and removing a request costs O(1), the choice of the next O(queues)."""

    def __init__(self, queuing: Queuing) -> None:
        self.queuing = queuing
        self._queues: dict[int, FairQueue[T]] = {}
        self._busy: dict[int, FairQueue[T]] = {}
        self._now_served = 0.0
        """What the queue that was served last had had: where a queue that was idle begins."""

    def __bool__(self) -> bool:
        return bool(self._busy)

    def add(self, flow: str, request: T, width: int) -> bool:
        """Has a request wait in the shortest queue of its flow; False if that is full."""
        number = int.from_bytes(sha256(flow.encode()).digest()[:8], "big")
        hand = deal(number, self.queuing.queues, self.queuing.hand_size)
        index = min(hand, key=lambda one: self._queues[one].load() if one in self._queues else 0)
        queue = self._queues.setdefault(index, FairQueue())
        if len(queue.waiting) >= self.queuing.queue_length:
            return False
        if not queue.load():
            queue.served = max(queue.served, self._now_served)
        queue.waiting[request] = width
        self._busy[index] = queue
        return True

    def next(self) -> tuple[FairQueue[T], T, int]:
        """The queue to serve next, with the request that is first in it and the seats it needs; some request waits."""
        queue = min(self._busy.values(), key=lambda one: one.served)
        request, width = next(iter(queue.waiting.items()))
        return queue, request, width

    def dispatch(self, queue: FairQueue[T], request: T) -> None:
        """Takes a request out of its queue to execute it."""
        width = queue.waiting[request]
        self.discard(request)
        self._now_served = queue.served
        queue.served += width * ESTIMATED_SECONDS
        queue.executing += 1

    def discard(self, request: T) -> None:
        """Removes a request that waits no longer."""
        for index, queue in self._busy.items():
            if request in queue.waiting:
                del queue.waiting[request]
                if not queue.waiting:
                    del self._busy[index]
                return

    def ended(self, queue: FairQueue[T], width: int, seconds: float) -> None:
        """Charges a request that was dispatched with what it really cost."""
        queue.served += width * (seconds - ESTIMATED_SECONDS)
        queue.executing -= 1

    def __len__(self) -> int:
        return sum(len(queue.waiting) for queue in self._busy.values())


def deal(number: int, cards: int, hand_size: int) -> list[int]:
    """Deals a hand of different cards, decided by a number."""
    hand = list[int]()
    for dealt in range(min(hand_size, cards)):
        number, card = divmod(number, cards - dealt)
        for other in sorted(hand):
            card += card >= other
        hand.append(card)
    return hand
