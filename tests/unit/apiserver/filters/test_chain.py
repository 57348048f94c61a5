"""The handler chain: the order of its steps, and the response to requests that fail, on virtual time."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import pytest
from multidict import CIMultiDict

from pykubelet.apiserver.filters.access import AccessFilter
from pykubelet.apiserver.filters.chain import (
    ChainResponse,
    HandlerChain,
    ProxiedRequest,
    RequestContext,
    WatchResponse,
)
from pykubelet.apiserver.filters.limits import REQUEST_SECONDS
from pykubelet.apiserver.filters.metrics import ApiServerMetrics, StorageFigures
from pykubelet.apiserver.flowcontrol.controller import SEATS, FlowController
from pykubelet.apiserver.nonresource import NonResourceHandler
from pykubelet.apiserver.registry import BUILT_IN_KINDS, ServedKinds
from pykubelet.apiserver.request import (
    ANONYMOUS,
    MASTERS,
    ApiRequest,
    ApiResponse,
    AuthorizationAttributes,
    AuthorizationDecision,
    SerializedEvent,
    UserInfo,
    WatchStream,
)
from pykubelet.httpserver.request import HttpRequest
from pykubelet.httpserver.response import HttpResponse
from pykubelet.testing.virtual_time import VirtualClock

ADMIN, ALICE = UserInfo("admin", (MASTERS,)), UserInfo("alice", ("system:authenticated",))
PODS = "/api/v1/namespaces/default/pods"
Handle = Callable[[ApiRequest], Awaitable[ApiResponse | WatchStream]]


async def no_body() -> bytes:
    return b"{}"


def request_of(method: str, target: str, body: Callable[[], Awaitable[bytes]] = no_body, **headers: str) -> HttpRequest:
    return HttpRequest(method, target, CIMultiDict(headers), None, "127.0.0.1", body, "id-1")


class World:
    """The surroundings of the chain: masters may do everything, and one function handles every verb."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.flow = FlowController(VirtualClock())
        registry = ServedKinds(BUILT_IN_KINDS)
        counters = ApiServerMetrics(self.flow, StorageFigures(objects=dict, size_bytes=lambda: 0))
        self.page = counters.page
        self.chain = HandlerChain(
            access=AccessFilter(self.authenticate, self.decide),
            kinds=registry,
            handle=self.handle,
            nonresource=NonResourceHandler(
                kinds=registry, address="", checks={"ping": str}, metrics_page=counters.page, more={}
            ),
            metrics=counters,
            audit=None,
            proxied={("pods", "exec"), ("pods", "proxy")},
            clock=VirtualClock(),
        )

    def authenticate(self, headers: Mapping[str, str], _certificate: bytes | None) -> UserInfo:
        return {"": ANONYMOUS, "alice": ALICE}.get(headers.get("Authorization", ""), ADMIN)

    def decide(self, review: AuthorizationAttributes) -> AuthorizationDecision:
        return AuthorizationDecision(allowed=review.user in (ADMIN, ALICE))

    async def handle(self, call: ApiRequest) -> ApiResponse | WatchStream:
        return await self._handle(call)

    async def ask(
        self, method: str, target: str, body: Callable[[], Awaitable[bytes]] | None = None, **headers: str
    ) -> tuple[ChainResponse, RequestContext]:
        return await self.chain.answer(
            request_of(method, target, body or no_body, **{"Authorization": "yes", **headers})
        )


async def fine(call: ApiRequest) -> ApiResponse:
    return ApiResponse(body={"verb": call.verb, "name": call.name, "body": call.body.decode()})


def status_of(outcome: ChainResponse) -> Any:
    assert isinstance(outcome, HttpResponse)
    document = json.loads(outcome.body)
    assert document["kind"] == "Status"
    assert document["code"] == outcome.code
    return document


async def test_chain_reads_a_body_only_after_authorization() -> None:
    """An unauthorized client cannot make the server hold what it sends."""
    reads = []

    async def body() -> bytes:
        reads.append(1)
        return b"sent"

    world = World(fine)
    refused, _ = await world.ask("POST", PODS, body, Authorization="")
    assert status_of(refused)["reason"] == "Forbidden"
    assert reads == []
    outcome, _ = await world.ask("POST", PODS, body)
    assert isinstance(outcome, HttpResponse)
    assert json.loads(outcome.body) == {"verb": "create", "name": "", "body": "sent"}


@pytest.mark.parametrize(("target", "seconds"), [(PODS, REQUEST_SECONDS), (f"{PODS}?timeout=3s", 3)])
async def test_chain_gives_up_when_the_time_is_over(target: str, seconds: float) -> None:
    """The limit covers the handler and the reading of the body."""

    async def slow_body() -> bytes:
        await asyncio.sleep(1000)
        return b""

    async def slow(_call: ApiRequest) -> ApiResponse:
        await asyncio.sleep(1000)
        raise AssertionError

    started = asyncio.get_running_loop().time()
    first, _ = await World(slow).ask("GET", target)
    second, _ = await World(fine).ask("POST", target, slow_body)
    assert asyncio.get_running_loop().time() - started == pytest.approx(2 * seconds)
    assert [status_of(outcome)["reason"] for outcome in (first, second)] == ["Timeout", "Timeout"]


async def test_chain_queues_a_burst_until_seats_are_free() -> None:
    """The limit of running requests holds, and all are answered in the end."""
    running: list[int] = []

    async def takes_a_second(call: ApiRequest) -> ApiResponse:
        running.append(world.flow.executing.total())
        await asyncio.sleep(1)
        return await fine(call)

    world = World(takes_a_second)
    queuing = {"queues": 1, "handSize": 1, "queueLengthLimit": 5 * SEATS}
    limited = {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Queue", "queuing": queuing}}
    level = {"metadata": {"name": "catch-all", "uid": "x"}, "spec": {"type": "Limited", "limited": limited}}
    world.flow.configure([level], [])
    outcomes = await asyncio.gather(*(world.ask("POST", PODS, Authorization="alice") for _ in range(5 * SEATS)))
    assert [outcome.code for outcome, _ in outcomes if isinstance(outcome, HttpResponse)] == [200] * 5 * SEATS
    assert max(running) == SEATS
    assert (world.flow.executing.total(), world.flow.waiting.total()) == (0, 0)


async def test_chain_refuses_when_nothing_may_wait() -> None:
    """The seats are free again once the requests that held them end; administrators are always served."""
    go = asyncio.Event()

    async def waits(call: ApiRequest) -> ApiResponse:
        await go.wait()
        return await fine(call)

    world = World(waits)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(world.ask("POST", PODS, Authorization="alice")) for _ in range(SEATS)]
        await asyncio.sleep(1)
        late, _ = await world.ask("POST", PODS, Authorization="alice")
        tasks.append(group.create_task(world.ask("POST", PODS)))
        await asyncio.sleep(1)
        go.set()
    assert status_of(late)["reason"] == "TooManyRequests"
    answers = [answer.code for answer, _ in (task.result() for task in tasks) if isinstance(answer, HttpResponse)]
    assert answers == [200] * (SEATS + 1)
    assert (world.flow.executing.total(), world.flow.waiting.total()) == (0, 0)


@pytest.mark.parametrize(
    ("error", "code"),
    [pytest.param(ValueError("secret"), 500, id="any"), pytest.param(RecursionError(), 400, id="depth")],
)
async def test_chain_answers_with_a_status_when_something_breaks(
    error: Exception, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the reason of an internal error, and the client does not see it."""

    async def broken(_call: ApiRequest) -> ApiResponse:
        raise error

    outcome, _ = await World(broken).ask("GET", f"{PODS}/web")
    status = status_of(outcome)
    assert status["code"] == code
    assert "secret" not in status["message"]
    assert bool([record for record in caplog.records if record.levelno == logging.ERROR]) == (code == 500)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", f"{PODS}/web/status", 200),
        ("GET", "/apis/apps/v1/namespaces/default/deployments/web/scale", 200),
        ("POST", f"{PODS}/web/eviction", 406),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 406),
    ],
)
async def test_chain_refuses_tables_of_what_is_no_object(method: str, path: str, code: int) -> None:
    """A client that also accepts plain JSON gets that."""

    async def found(_call: ApiRequest) -> ApiResponse:
        return ApiResponse(body={"kind": "Status", "apiVersion": "v1", "status": "Success"})

    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    for accept, expected in ((table, code), (f"{table},application/json", 200)):
        response, _ = await World(found).ask(method, path, Accept=accept)
        assert isinstance(response, HttpResponse)
        assert response.code == expected


async def test_chain_returns_streams_and_proxied_requests_for_sending() -> None:
    """Metrics count them while they last."""

    async def nothing() -> AsyncGenerator[tuple[SerializedEvent, ...], None]:
        yield ()

    async def watches(_call: ApiRequest) -> WatchStream:
        return WatchStream(nothing())

    world = World(watches)
    watch, context = await world.ask("GET", f"{PODS}?watch=1")
    assert isinstance(watch, WatchResponse)
    assert b'apiserver_longrunning_requests{component="apiserver",group="",resource="pods"' in world.page()
    world.chain.sent(context, 2)
    world.chain.long_ended(request_of("GET", PODS), context, 200)
    assert b"apiserver_watch_events_total" in world.page()
    connection, _ = await world.ask("POST", f"{PODS}/web/exec?command=ls")
    assert isinstance(connection, ProxiedRequest)
    assert (connection.request.name, connection.request.subresource) == ("web", "exec")


@pytest.mark.parametrize(
    ("method", "path", "is_proxied"),
    [
        ("OPTIONS", "/web/proxy/shop", True),
        ("HEAD", "/web/proxy", True),
        ("TRACE", "/web/proxy", False),
        ("OPTIONS", "/web/exec", False),
        ("OPTIONS", "/web", False),
        ("HEAD", "/web/exec", False),
    ],
)
async def test_proxied_pod_answers_methods_that_have_no_verb(method: str, path: str, is_proxied: bool) -> None:
    """An app behind the proxy decides about OPTIONS and HEAD; everything else refuses them."""

    async def unused(_call: ApiRequest) -> ApiResponse:
        raise AssertionError

    response, _ = await World(unused).ask(method, PODS + path)
    if is_proxied:
        assert isinstance(response, ProxiedRequest)
    else:
        assert isinstance(response, HttpResponse)
        assert response.code == 405


@pytest.mark.parametrize(
    ("target", "code"),
    [
        pytest.param("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 406, id="review"),
        pytest.param(f"{PODS}/web/eviction", 406, id="eviction"),
        pytest.param(PODS, 200, id="pods"),
    ],
)
async def test_chain_has_tables_only_of_what_can_be_listed(target: str, code: int) -> None:
    """A client that also accepts a plain object gets that."""
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    outcome, _ = await World(fine).ask("POST", target, Accept=table)
    assert isinstance(outcome, HttpResponse)
    assert outcome.code == code
    either, _ = await World(fine).ask("POST", target, Accept=f"{table},application/json")
    assert isinstance(either, HttpResponse)
    assert either.code == 200
