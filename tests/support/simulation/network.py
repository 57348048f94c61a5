"""The network between programs: each call runs in the server's program, and faults happen on the way.

A client that crashes does not stop what the server has begun; a server that crashes breaks the connections of its
clients. A watch delivers events in order, as a connection does, but late, twice, or not at all once it is cut.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from pykubelet.api.errors import ApiError, NotReached
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import TypedKind
from pykubelet.api.serializer import Document
from pykubelet.apiserver.loopback import LoopbackClient
from pykubelet.client.discovery import Discovery
from pykubelet.client.interface import Client, Listing, WatchEvent
from simulation.faults import FaultPlan
from simulation.invariants import ServerChecks, WatchCheck
from simulation.loop import PROGRAM, Program

T = TypeVar("T")
SECONDS_LATE = (0.05, 0.5, 3.0, 12.0)


class Network:
    """The connections to the server that is up, if one is."""

    def __init__(self, *, plan: FaultPlan, checks: ServerChecks) -> None:
        self.plan, self.checks = plan, checks
        self.server: LoopbackClient | None = None
        self._program: Program | None = None
        self._requests: dict[asyncio.Future[Any], None] = {}
        self._watches: dict[WatchPipe, Program | None] = {}
        self.cut_off: set[str] = set()
        """The clients that cannot reach the server."""

    def up(self, client: LoopbackClient, program: Program) -> None:
        """The server listens."""
        self.server, self._program = client, program

    def down(self) -> None:
        """The server is gone, and with it every connection."""
        self.server = self._program = None
        requests, self._requests = self._requests, {}
        for request in requests:
            if not request.done():
                request.set_exception(NotReached("connection reset by peer"))
        for pipe in list(self._watches):
            pipe.end(NotReached("connection reset by peer"))
        self._watches.clear()

    def hang_up(self, program: Program) -> None:
        """A client has crashed or is cut off: its connections end, which both sides notice."""
        for pipe, owner in list(self._watches.items()):
            if owner is program:
                self.close(pipe)
                pipe.end(NotReached("connection reset by peer"))

    async def ask(self, call: Callable[[LoopbackClient], Awaitable[T]]) -> T:
        """Run a call in the server's program and return its answer; the connection may break."""
        client, program = self._connection()
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._requests[reply] = None

        async def handle() -> None:
            try:
                answer = await call(client)
            except ApiError as error:
                if not reply.done():
                    reply.set_exception(error)
            except Exception as error:  # noqa: BLE001  a real server would answer 500 and log it
                self.checks.trace.violated(f"the server raised {error!r}")
            else:
                if not reply.done():
                    reply.set_result(answer)

        self._start(handle, program, "request")
        try:
            return await reply
        finally:
            self._requests.pop(reply, None)

    async def open(self, kind: TypedKind[T], check: WatchCheck, **options: Any) -> "WatchPipe":
        """Start a watch in the server's program; returns once the server has accepted it."""
        client, program = self._connection()
        pipe = WatchPipe()

        async def pump() -> None:
            try:
                async with client.watch(kind, **options) as events:
                    pipe.accept()
                    async for event in events:
                        check.delivered(event)
                        pipe.put(event)
                pipe.end(None)
            except ApiError as error:
                pipe.end(error)

        self._watches[pipe] = PROGRAM.get()
        pipe.task = self._start(pump, program, "watch")
        try:
            await pipe.accepted
        except BaseException:
            self.close(pipe)
            raise
        return pipe

    def close(self, pipe: "WatchPipe") -> None:
        """Ends a watch from the client's side."""
        self._watches.pop(pipe, None)
        if pipe.task is not None:
            pipe.task.cancel()

    def _connection(self) -> tuple[LoopbackClient, Program]:
        if self.server is None or self._program is None:
            raise NotReached("connection refused")
        return self.server, self._program

    def _start(self, work: Callable[[], Any], program: Program, name: str) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work(), name=name, context=program.context())


class WatchPipe:
    """The bytes of a watch that are on their way."""

    def __init__(self) -> None:
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None
        self._events: deque[WatchEvent[Any]] = deque()
        self._end: ApiError | None = None
        self._is_ended = False
        self._wake = asyncio.Event()

    def accept(self) -> None:
        if not self.accepted.done():
            self.accepted.set_result(None)

    def put(self, event: WatchEvent[Any]) -> None:
        self._events.append(event)
        self._wake.set()

    def end(self, error: ApiError | None) -> None:
        """The server's end: regular without an error."""
        if not self.accepted.done():
            self.accepted.set_exception(error or NotReached("connection reset by peer"))
            # Marks it as retrieved: the client may have crashed in the meantime.
            self.accepted.exception()
        self._end, self._is_ended = error, True
        self._wake.set()

    async def next(self) -> WatchEvent[Any] | None:
        while not self._events:
            if self._is_ended:
                if self._end is not None:
                    raise self._end
                return None
            self._wake.clear()
            await self._wake.wait()
        return self._events.popleft()


class NetworkClient:
    """A client of the server behind the network; implements `pykubelet.client.interface.ControllerClient`."""

    def __init__(self, network: Network, name: str) -> None:
        self._network, self._name = network, name

    async def get(self, kind: TypedKind[T], name: str, **options: Any) -> T:
        return await self._call("get", kind.resource, name, lambda api: api.get(kind, name, **options))

    async def list(self, kind: TypedKind[T], **options: Any) -> Listing[T]:
        checks = self._network.checks

        async def listed(api: Client) -> Listing[T]:
            found = await api.list(kind, **options)
            checks.listed(kind.resource, found, options)
            return found

        return await self._call("list", kind.resource, "", listed)

    async def create(self, kind: TypedKind[T], body: T, **options: Any) -> T:
        return await self._write("create", kind.resource, "", lambda api: api.create(kind, body, **options))

    async def patch(self, kind: TypedKind[T], name: str, body: Any, **options: Any) -> T:
        return await self._write("patch", kind.resource, name, lambda api: api.patch(kind, name, body, **options))

    async def delete(self, kind: TypedKind[T], name: str, **options: Any) -> None:
        self._network.checks.deletes(self._name, kind.resource, name, options)
        await self._call("delete", kind.resource, name, lambda api: api.delete(kind, name, **options))

    async def replace(self, resource: Resource, name: str, body: Document, **options: Any) -> Document:
        return await self._write("update", resource, name, lambda api: api.replace(resource, name, body, **options))

    async def apply(self, resource: Resource, body: Document, **options: Any) -> Document:
        return await self._write("apply", resource, "", lambda api: api.apply(resource, body, **options))

    async def discover(self, verbs: frozenset[str]) -> Discovery:
        return await self._network.ask(lambda api: api.discover(verbs))

    async def published_schemas(self, api_version: str) -> dict[str, Document]:
        return await self._network.ask(lambda api: api.published_schemas(api_version))

    async def served(self) -> tuple[Resource, ...]:
        return await self._network.ask(lambda api: api.served())

    @asynccontextmanager
    async def watch(self, kind: TypedKind[T], **options: Any) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        await self._outward("watch", kind.resource, "")
        check = self._network.checks.watch(kind.resource, options)
        pipe = await self._network.open(kind, check, **options)
        try:
            yield self._events(pipe, kind.resource)
        finally:
            self._network.close(pipe)

    async def _events(self, pipe: WatchPipe, resource: Resource) -> AsyncIterator[WatchEvent[T]]:
        plan, what = self._network.plan, f"event of {resource.plural} to {self._name}"
        while (event := await pipe.next()) is not None:
            if plan.happens("cut", what):
                if plan.random.random() < 0.5:
                    return
                raise plan.lost()
            if plan.happens("late", what):
                await asyncio.sleep(plan.random.choice(SECONDS_LATE))
            yield event
            if plan.happens("twice", what):
                yield event

    async def _write(
        self, verb: str, resource: Resource, name: str, call: Callable[[LoopbackClient], Awaitable[T]]
    ) -> T:
        answer = await self._call(verb, resource, name, call)
        self._network.checks.answered(resource, answer)
        return answer

    async def _call(
        self, verb: str, resource: Resource, name: str, call: Callable[[LoopbackClient], Awaitable[T]]
    ) -> T:
        plan = self._network.plan
        what = await self._outward(verb, resource, name)
        answer = await self._network.ask(call)
        await plan.network_delay()
        if plan.happens("lost", what):
            raise plan.lost()
        return answer

    async def _outward(self, verb: str, resource: Resource, name: str) -> str:
        """The way to the server, on which a request may be slow, lost or rejected."""
        plan, what = self._network.plan, f"{self._name}: {verb} {resource.plural} {name}"
        self._network.checks.called(self._name, verb, resource)
        if self._name in self._network.cut_off:
            raise NotReached("no route to host")
        await plan.network_delay()
        if plan.happens("slow", what):
            await asyncio.sleep(plan.random.choice(SECONDS_LATE))
        if plan.happens("refused", what):
            raise NotReached("connection refused")
        if plan.happens("error", what):
            raise plan.error()
        return what
