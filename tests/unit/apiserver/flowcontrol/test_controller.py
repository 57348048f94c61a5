"""Seats of priority levels: taken at once, in turn, or refused with a retry time; none is ever lost."""

import asyncio
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.aio.clock import SystemClock
from pykubelet.api.errors import TooManyRequests
from pykubelet.api.serializer import Document
from pykubelet.apiserver.filters.requestinfo import RequestInfo
from pykubelet.apiserver.flowcontrol.controller import SEATS, FlowController, Seats, seats_of_list
from pykubelet.apiserver.request import MASTERS, UserInfo

ALICE, BOB, ADMIN = UserInfo("alice"), UserInfo("bob"), UserInfo("admin", (MASTERS,))
ACCOUNT = UserInfo("system:serviceaccount:shop:web", ("system:serviceaccounts", "system:serviceaccounts:shop"))
READ = RequestInfo(path="", verb="get", group="", version="v1", plural="pods", namespace="default")
OF_NODE = RequestInfo(path="", verb="get", group="", version="v1", plural="nodes")
SECONDS = 60.0
COUNTS = defaultdict[str, int](int, {"few": 150, "many": 1000, "endless": 10**6})
EVERYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}


def level(name: str, shares: int, *, lends: int = 0, borrows: int | None = 0, length: int = 50) -> Document:
    queuing = {"queues": 64, "handSize": 6, "queueLengthLimit": length}
    limited: Document = {
        "nominalConcurrencyShares": shares,
        "lendablePercent": lends,
        "limitResponse": {"type": "Queue", "queuing": queuing} if length else {"type": "Reject"},
    }
    if borrows is not None:
        limited["borrowingLimitPercent"] = borrows
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {"type": "Limited", "limited": limited}}


EXEMPT: Document = {
    "metadata": {"name": "exempt", "uid": "e"},
    "spec": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
}


def user(name: str) -> Document:
    return {"kind": "User", "user": {"name": name}}


def schema(name: str, precedence: int, of: str, subject: Document, *, by: str = "ByUser", **rule: Any) -> Document:
    spec = {
        "matchingPrecedence": precedence,
        "priorityLevelConfiguration": {"name": of},
        "distinguisherMethod": {"type": by},
        "rules": [{"subjects": [subject], "resourceRules": [{**EVERYTHING, **rule}]}],
    }
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec}


ADMINS = schema("exempt", 1, "exempt", {"kind": "Group", "group": {"name": MASTERS}})
CATCH_ALL = schema("catch-all", 10000, "catch-all", user("*"))


def controller(*levels: Document, schemas: tuple[Document, ...] = ()) -> FlowController:
    made = FlowController(SystemClock(), COUNTS.__getitem__)
    made.configure([EXEMPT, *levels], [ADMINS, CATCH_ALL, *schemas])
    return made


async def entered(flow: FlowController, who: UserInfo, *, seconds: float = SECONDS, info: RequestInfo = READ) -> Seats:
    return await flow.enter(who, info, seconds, writes=False)


async def filled(flow: FlowController, who: UserInfo) -> list[Seats]:
    """Takes every seat that is free for a user."""
    found = list[Seats]()
    with suppress(TimeoutError, TooManyRequests):
        while True:
            async with asyncio.timeout(0):
                found.append(await entered(flow, who))
    return found


async def test_request_is_refused_when_it_waited_a_quarter_of_its_time() -> None:
    """The error has a retry time, and the request leaves its queue."""
    flow = controller(level("catch-all", 1))
    seats = await filled(flow, ALICE)
    assert len(seats) == SEATS
    began = asyncio.get_running_loop().time()
    with pytest.raises(TooManyRequests, match="Too many requests, please try again later") as caught:
        await entered(flow, ALICE)
    assert caught.value.retry_after_seconds == 1
    assert asyncio.get_running_loop().time() - began == pytest.approx(SECONDS / 4)
    for one in seats:
        flow.leave(one, writes=False)
    assert (flow.levels["catch-all"].used, flow.waiting.total(), flow.executing.total()) == (0, 0, 0)


async def test_one_client_does_not_starve_another() -> None:
    """A busy one fills its queues and is refused; a quiet one waits for a turn; administrators do not wait."""
    flow = controller(level("catch-all", 1))
    seats, order = await filled(flow, ALICE), list[str]()

    async def ask(who: UserInfo) -> None:
        one = await entered(flow, who)
        order.append(who.name)
        flow.leave(one, writes=False)

    async with asyncio.TaskGroup() as group:
        for _ in range(300):
            group.create_task(ask(ALICE))
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await entered(flow, ALICE)
        for _ in range(3):
            group.create_task(ask(BOB))
        await ask(ADMIN)
        await asyncio.sleep(0)
        flow.leave(seats.pop(), writes=False)
    assert order[0] == "admin"
    assert [index for index, name in enumerate(order) if name == "bob"][-1] < 40
    assert order.count("alice") == 300


async def test_levels_lend_what_they_do_not_use_and_get_it_back() -> None:
    """Shares decide about seats; what a level never lends stays free for it."""
    schemas = (schema("alices", 5, "important", user("alice")),)
    flow = controller(level("catch-all", 1, borrows=None), level("important", 2, lends=50), schemas=schemas)
    assert [flow.levels[name].nominal for name in ("catch-all", "important")] == [200, 400]
    borrowed = await filled(flow, BOB)
    assert len(borrowed) == 400
    own = await filled(flow, ALICE)
    assert len(own) == 200
    waiting = asyncio.create_task(entered(flow, ALICE))
    jealous = asyncio.create_task(entered(flow, BOB))
    await asyncio.sleep(0)
    flow.leave(borrowed.pop(), writes=False)
    await asyncio.wait({waiting, jealous}, timeout=0)
    assert (waiting.done(), jealous.done()) == (True, False)
    jealous.cancel()


async def test_level_that_may_not_borrow_keeps_to_its_own_seats() -> None:
    schemas = (schema("alices", 5, "important", user("alice")),)
    flow = controller(level("catch-all", 1), level("important", 2, lends=100), schemas=schemas)
    assert len(await filled(flow, BOB)) == 200


async def test_level_without_queues_refuses_at_once() -> None:
    flow = controller(level("catch-all", 1, length=0))
    seats = [await entered(flow, ALICE) for _ in range(SEATS)]
    began = asyncio.get_running_loop().time()
    with pytest.raises(TooManyRequests):
        await entered(flow, ALICE)
    assert asyncio.get_running_loop().time() == began
    assert flow.levels["catch-all"].rejected == 1
    flow.leave(seats[0], writes=False)
    await entered(flow, ALICE)


def listing(plural: str) -> RequestInfo:
    return replace(READ, verb="list", plural=plural)


async def test_list_of_many_objects_takes_several_seats() -> None:
    """A seat for each hundred, ten at most; it waits until all are free, and a small level is taken whole."""
    flow = controller(level("catch-all", 1))
    seats = [await entered(flow, ALICE, info=listing("endless")) for _ in range(SEATS // 10)]
    assert {one.width for one in seats} == {10}
    wide = asyncio.create_task(entered(flow, BOB, info=listing("few")))
    await asyncio.sleep(0)
    assert not wide.done()
    flow.leave(seats.pop(), writes=False)
    assert (await wide).width == 2
    small = controller(level("catch-all", 1), level("rest", 599))
    assert (await entered(small, BOB, info=listing("many"))).width == 1
    assert [seats_of_list(count) for count in (0, 1, 100, 101, 999, 10**6)] == [1, 1, 1, 2, 10, 10]


async def test_reconfiguration_keeps_those_who_wait() -> None:
    """Those of a level that is removed are still served; new requests go elsewhere; more seats are given at once."""
    schemas = (schema("alices", 5, "old", user("alice")),)
    flow = controller(level("catch-all", 1), level("old", 1), schemas=schemas)
    old = await filled(flow, ALICE)
    waiting = [asyncio.create_task(entered(flow, ALICE)) for _ in range(2)]
    await asyncio.sleep(0)
    flow.configure([EXEMPT, level("catch-all", 1)], [ADMINS, CATCH_ALL, *schemas])
    assert flow.classify(ALICE, READ).level.name == "catch-all"
    for one in old:
        flow.leave(one, writes=False)
    for task in waiting:
        flow.leave(await task, writes=False)
    flow.configure([EXEMPT, level("catch-all", 1)], [ADMINS, CATCH_ALL])
    assert set(flow.levels) == {"exempt", "catch-all"}
    assert len(await filled(flow, BOB)) == SEATS


@pytest.mark.parametrize(
    ("subject", "who", "fits"),
    [
        (user("alice"), ALICE, True),
        (user("bob"), ALICE, False),
        ({"kind": "Group", "group": {"name": "system:serviceaccounts"}}, ACCOUNT, True),
        ({"kind": "Group", "group": {"name": "*"}}, ALICE, True),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "shop", "name": "web"}}, ACCOUNT, True),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "shop", "name": "*"}}, ACCOUNT, True),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "sho", "name": "*"}}, ACCOUNT, False),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "shop", "name": "db"}}, ACCOUNT, False),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "shop", "name": "*"}}, ALICE, False),
    ],
)
def test_schema_of_a_user_group_or_account(subject: Document, who: UserInfo, fits: bool) -> None:
    flow = controller(level("catch-all", 1), schemas=(schema("own", 5, "catch-all", subject),))
    assert flow.classify(who, READ).schema.name == ("own" if fits else "catch-all")


@pytest.mark.parametrize(
    ("rule", "info", "fits"),
    [
        ({"verbs": ["get"]}, READ, True),
        ({"verbs": ["list"]}, READ, False),
        ({"apiGroups": ["apps"]}, READ, False),
        ({"resources": ["pods/status"]}, READ, False),
        ({"resources": ["pods"]}, replace(READ, subresource="status"), False),
        ({"resources": ["pods/status"]}, replace(READ, subresource="status"), True),
        ({"namespaces": ["other"]}, READ, False),
        ({"namespaces": ["default"]}, READ, True),
        ({"clusterScope": False}, OF_NODE, False),
        ({"namespaces": []}, OF_NODE, True),
    ],
)
def test_schema_of_a_resource(rule: Document, info: RequestInfo, fits: bool) -> None:
    flow = controller(level("catch-all", 1), schemas=(schema("own", 5, "catch-all", user("*"), **rule),))
    assert flow.classify(ALICE, info).schema.name == ("own" if fits else "catch-all")


def test_lower_precedence_and_then_the_name_decide() -> None:
    """A schema whose priority level does not exist counts as absent."""
    schemas = tuple(
        schema(name, precedence, "catch-all", user("*")) for name, precedence in (("b", 7), ("a", 7), ("z", 8))
    )
    flow = controller(level("catch-all", 1), schemas=(*schemas, schema("dangling", 2, "nowhere", user("*"))))
    assert flow.classify(ALICE, READ).schema.name == "a"


def test_flows_of_a_schema_are_told_apart() -> None:
    by_namespace = (schema("own", 5, "catch-all", user("alice"), by="ByNamespace"),)
    flow = controller(level("catch-all", 1), schemas=by_namespace)
    assert [flow.classify(who, READ).flow for who in (ALICE, BOB)] == ["own/default", "catch-all/bob"]


_VISITS = st.lists(st.tuples(st.sampled_from((ALICE, BOB, ADMIN)), *(st.integers(0, 6) for _ in range(4))), max_size=20)


@given(visits=_VISITS, length=st.integers(0, 3))
@settings(max_examples=60)
async def test_no_seat_is_lost_or_given_twice(visits: list[tuple[UserInfo, int, int, int, int]], length: int) -> None:
    """This holds however requests arrive, run, are cancelled or time out."""
    flow = controller(level("catch-all", 1, length=length))
    rest, sitting = flow.levels["catch-all"], 0
    # Few seats are left.
    taken = [await entered(flow, BOB) for _ in range(SEATS - 12)]

    async def visit(who: UserInfo, comes: int, stays: int, wide: int) -> None:
        nonlocal sitting
        await asyncio.sleep(comes)
        with suppress(TooManyRequests):
            seats = await entered(flow, who, seconds=8, info=listing("many") if wide > 3 else READ)
            own = 0 if seats.level.is_exempt else seats.width
            sitting += own
            assert sitting + len(taken) <= rest.used <= SEATS
            try:
                await asyncio.sleep(stays)
            finally:
                sitting -= own
                flow.leave(seats, writes=False)

    tasks = [asyncio.create_task(visit(who, comes, stays, wide)) for who, comes, stays, _, wide in visits]
    for task, (_, comes, _, patience, _) in zip(tasks, visits, strict=True):
        asyncio.get_running_loop().call_later(comes + patience, task.cancel)
    await asyncio.gather(*tasks, return_exceptions=True)
    for one in taken:
        flow.leave(one, writes=False)
    assert (rest.used, bool(rest.queues), flow.waiting.total(), flow.executing.total()) == (0, False, 0, 0)
    assert len(await filled(flow, BOB)) == SEATS
