"""Slots for requests: taken at once, in turn, or refused with a retry time; none is ever lost."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import TooManyRequests
from pykubelet.apiserver.filters.limits import (
    MAX_READS_IN_FLIGHT,
    MAX_WAITING,
    MAX_WRITES_IN_FLIGHT,
    MaxInFlight,
    RequestSlots,
)
from pykubelet.apiserver.request import MASTERS, UserInfo

ALICE, BOB, ADMIN = UserInfo("alice"), UserInfo("bob"), UserInfo("admin", (MASTERS,))
SECONDS = 60.0


async def test_reads_and_writes_have_seats_of_their_own() -> None:
    """When all slots of one kind are taken, the other kind enters at once."""
    in_flight = MaxInFlight()
    for seats, most in ((in_flight.reading, MAX_READS_IN_FLIGHT), (in_flight.writing, MAX_WRITES_IN_FLIGHT)):
        for _ in range(most):
            await seats.enter(ALICE, SECONDS)
        assert (seats.taken, seats.waiting) == (most, 0)


async def test_request_is_refused_when_it_waited_a_quarter_of_its_time() -> None:
    """The error has a retry time, and the request leaves the queue."""
    seats = RequestSlots(1)
    await seats.enter(ALICE, SECONDS)
    began = asyncio.get_running_loop().time()
    with pytest.raises(TooManyRequests, match="Too many requests, please try again later") as caught:
        await seats.enter(ALICE, SECONDS)
    assert caught.value.retry_after_seconds == 1
    assert asyncio.get_running_loop().time() - began == pytest.approx(SECONDS / 4)
    seats.leave()
    assert (seats.taken, seats.waiting) == (0, 0)


async def test_request_is_refused_at_once_when_too_many_of_its_user_wait() -> None:
    """Other users may still wait, and administrators always."""
    seats = RequestSlots(1)
    await seats.enter(ALICE, SECONDS)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(seats.enter(ALICE, SECONDS)) for _ in range(MAX_WAITING)]
        waiting += [group.create_task(seats.enter(ADMIN, SECONDS)) for _ in range(MAX_WAITING + 1)]
        waiting.append(group.create_task(seats.enter(BOB, SECONDS)))
        await asyncio.sleep(0)
        began = asyncio.get_running_loop().time()
        with pytest.raises(TooManyRequests):
            await seats.enter(ALICE, SECONDS)
        assert asyncio.get_running_loop().time() == began
        assert seats.waiting == len(waiting)
        for _ in waiting:
            seats.leave()
    assert (seats.taken, seats.waiting) == (1, 0)


async def test_users_take_turns_when_several_wait() -> None:
    """A user with many requests delays only itself."""
    seats, order = RequestSlots(1), list[str]()
    await seats.enter(ALICE, SECONDS)

    async def one(user: UserInfo) -> None:
        await seats.enter(user, SECONDS)
        order.append(user.name)
        seats.leave()

    async with asyncio.TaskGroup() as group:
        for user in (ALICE, ALICE, ALICE, BOB, ADMIN, BOB):
            group.create_task(one(user))
        await asyncio.sleep(0)
        seats.leave()
    assert order == ["alice", "bob", "admin", "alice", "bob", "alice"]


async def test_slot_is_passed_on_when_its_new_owner_is_cancelled() -> None:
    """The request is cancelled in the moment in which it gets the slot."""
    seats = RequestSlots(1)
    await seats.enter(ALICE, SECONDS)
    first, second = (asyncio.create_task(seats.enter(user, SECONDS)) for user in (ADMIN, BOB))
    await asyncio.sleep(0)
    seats.leave()
    first.cancel()
    await asyncio.wait({first, second})
    assert first.cancelled()
    assert second.exception() is None
    assert (seats.taken, seats.waiting) == (1, 0)


_VISITS = st.lists(st.tuples(st.sampled_from((ALICE, BOB, ADMIN)), *(st.integers(0, 6) for _ in range(3))), max_size=20)


@given(visits=_VISITS, count=st.integers(1, 3))
@settings(max_examples=60)
async def test_no_seat_is_lost_or_given_twice(visits: list[tuple[UserInfo, int, int, int]], count: int) -> None:
    """This holds however requests arrive, run, are cancelled or time out."""
    seats, sitting = RequestSlots(count), 0

    async def visit(user: UserInfo, comes: int, stays: int) -> None:
        nonlocal sitting
        await asyncio.sleep(comes)
        with suppress(TooManyRequests):
            await seats.enter(user, 8)
            sitting += 1
            assert sitting <= seats.taken <= count
            try:
                await asyncio.sleep(stays)
            finally:
                sitting -= 1
                seats.leave()

    tasks = [asyncio.create_task(visit(user, comes, stays)) for user, comes, stays, _ in visits]
    for task, (_, comes, _, patience) in zip(tasks, visits, strict=True):
        if patience < 5:
            asyncio.get_running_loop().call_later(comes + patience, task.cancel)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
    assert (seats.taken, seats.waiting, sitting) == (0, 0, 0)
