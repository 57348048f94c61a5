"""The limits of a listener, lowered, and which of its connections are closed for others."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from pykubelet.httpserver import connections
from pykubelet.httpserver.connections import ConnectionLimits
from pykubelet.httpserver.request import HttpRequest
from pykubelet.httpserver.response import HandlerResult, HttpStream, Write, text_response
from pykubelet.httpserver.server import HttpServer, ServerLimits

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[..., "asyncio.Future[Client]"]
AS_USER = b"GET %b HTTP/1.1\r\nHost: x\r\nAuthorization: user\r\n\r\n"
ANONYMOUS = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def respond(request: HttpRequest) -> HandlerResult:
    """A server that knows one user; `/watch` does not end."""
    if request.headers.get("Authorization") == "user":
        request.authenticated()
    if request.target != "/watch":
        return text_response(200, "hello")

    async def copy(write: Write) -> None:
        while True:
            await write(b"event\n")
            await asyncio.sleep(0.05)

    return HttpStream("text/plain", copy)


class Served:
    """A server on loopback and the clients of a test, each with an address of its own if the test says so."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.clients: list[Client] = []

    async def connect(self, sent: bytes = b"", *, address: str = "127.0.0.1") -> Client:
        client = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(address, 0))
        self.clients.append(client)
        client[1].write(sent)
        return client

    async def ask(self, *, address: str = "127.0.0.1") -> bytes:
        """The status line that a new client gets."""
        reader, _ = await self.connect(AS_USER % b"/", address=address)
        async with asyncio.timeout(20):
            return await reader.readline()


@asynccontextmanager
async def serving(limits: ConnectionLimits, listener: socket.socket | None = None) -> AsyncIterator[Served]:
    own = ServerLimits(
        line_bytes=65536,
        field_bytes=65536,
        headers=100,
        idle_seconds=60.0,
        stop_seconds=1.0,
        stalled_seconds=5.0,
        connections=limits,
    )
    bound = listener or socket.create_server(("127.0.0.1", 0))
    server = HttpServer(respond, limits=own, malformed=text_response(400, "malformed"))
    async with server.serving(bound, None):
        served = Served(bound.getsockname()[1])
        try:
            yield served
        finally:
            for _, writer in served.clients:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()


@pytest.fixture
def addresses_are_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each address of loopback counts as a client of its own."""
    monkeypatch.setattr(connections, "client_of", str)


async def is_closed(client: Client) -> bool:
    """Whether the server has closed a connection, or does so soon."""
    try:
        async with asyncio.timeout(5):
            return await client[0].read() is not None
    except TimeoutError:
        return False
    except ConnectionError:
        return True


async def test_connections_of_users_outlive_those_of_strangers() -> None:
    """The oldest without an authenticated request is closed first, then an idle one, and never a watch."""
    async with serving(ConnectionLimits(total=8)) as served:
        watches = [await served.connect(AS_USER % b"/watch") for _ in range(2)]
        idle = await served.connect(AS_USER % b"/")
        for reader, _ in (*watches, idle):
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        strangers = [await served.connect(ANONYMOUS) for _ in range(3)]
        assert await is_closed(strangers[0])
        assert await is_closed(strangers[1])
        watches.append(await served.connect(AS_USER % b"/watch"))
        await watches[-1][0].readuntil(b"event\n")
        assert await is_closed(strangers[2])
        watches.append(await served.connect(AS_USER % b"/watch"))
        assert await is_closed(idle)
        for reader, _ in watches:
            await reader.readuntil(b"event\n")
        # Nothing is left that may be closed.
        assert await is_closed(await served.connect(AS_USER % b"/"))
        for reader, _ in watches:
            await reader.readuntil(b"event\n")


@pytest.mark.usefixtures("addresses_are_clients")
async def test_client_that_takes_its_share_does_not_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the places are for other clients, which are answered though the first one gives up none."""
    monkeypatch.setattr(connections, "_PLACE_SECONDS", 3600.0)
    async with serving(ConnectionLimits(unauthenticated=4, waiting=8, head_seconds=3600.0)) as served:
        for _ in range(4):
            await served.connect(b"GET / HTTP/1.1\r\n")
        assert await served.ask(address="127.0.0.2") == b"HTTP/1.1 200 OK\r\n"


async def test_client_that_shares_an_address_with_an_attacker_is_answered() -> None:
    """Places that are held without a complete request are given up for those who wait."""
    async with serving(ConnectionLimits(unauthenticated=4, waiting=64, head_seconds=60.0)) as served:
        held = [await served.connect(b"GET / HTTP/1.1\r\n") for _ in range(6)]
        assert await served.ask() == b"HTTP/1.1 200 OK\r\n"
        assert await is_closed(held[0])


async def test_many_clients_that_connect_at_once_are_all_answered() -> None:
    """More connections than places wait until others have been authenticated and give theirs up."""
    async with serving(ConnectionLimits(unauthenticated=8, waiting=400)) as served:
        assert set(await asyncio.gather(*(served.ask() for _ in range(150)))) == {b"HTTP/1.1 200 OK\r\n"}


async def test_head_above_the_limit_is_refused() -> None:
    """Though each of its headers is within the limit."""
    async with serving(ConnectionLimits(head_bytes=20_000)) as served:
        reader, writer = await served.connect(b"GET / HTTP/1.1\r\n")
        with suppress(ConnectionError):
            for number in range(100):
                writer.write(b"X-%d: %b\r\n" % (number, b"a" * 1000))
                await writer.drain()
                await asyncio.sleep(0.001)
        with suppress(ConnectionError):
            assert (await reader.read()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert await served.ask() == b"HTTP/1.1 200 OK\r\n"


async def test_largest_unfinished_head_is_dropped_when_all_take_too_much() -> None:
    """The limit of all heads is lower than the sum of what each may have."""
    async with serving(ConnectionLimits(head_bytes=60_000, all_head_bytes=100_000, head_seconds=60.0)) as served:
        small = await served.connect(b"GET / HTTP/1.1\r\nHost: x\r\nX: a")
        large = [await served.connect(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 50_000) for _ in range(2)]
        ends = [asyncio.ensure_future(is_closed(one)) for one in large]
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        assert [one.result() for one in done] == [True]
        for one in ends:
            one.cancel()
        small[1].write(b"\r\n\r\n")
        assert await small[0].readline() == b"HTTP/1.1 200 OK\r\n"


async def test_head_of_a_further_request_has_its_time_too() -> None:
    """A connection that was answered is closed with half a request; a watch with half a request behind it goes on."""
    async with serving(ConnectionLimits(head_seconds=0.3)) as served:
        kept = await served.connect(AS_USER % b"/")
        await kept[0].readuntil(b"hello")
        await asyncio.sleep(0.5)
        watch = await served.connect((AS_USER % b"/watch") + b"GET")
        watch[1].write(b" / ")
        kept[1].write(AS_USER % b"/")
        await kept[0].readuntil(b"hello")
        kept[1].write(b"GET /")
        assert await is_closed(kept)
        for _ in range(10):
            await watch[0].readuntil(b"event\n")


async def test_requests_behind_a_running_one_are_bounded() -> None:
    """A client cannot have memory taken for requests that wait for its own watch."""
    async with serving(ConnectionLimits(head_bytes=20_000)) as served:
        reader, writer = await served.connect(AS_USER % b"/watch")
        await reader.readuntil(b"event\n")
        for _ in range(30):
            writer.write(b"GET / HTTP/1.1\r\nX: %b\r\n\r\n" % (b"a" * 1000))
            await asyncio.sleep(0.001)
        assert await is_closed((reader, writer))


class ExhaustedSocket(socket.socket):
    """A listener for whose connections the kernel has no file descriptors at first."""

    failures = 3

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_failing_accept_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """It is tried again after a pause, until it succeeds."""
    monkeypatch.setattr(connections, "_RETRY_SECONDS", 0.1)
    listener = ExhaustedSocket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    async with serving(ConnectionLimits(), listener) as served:
        assert await served.ask() == b"HTTP/1.1 200 OK\r\n"
    assert listener.failures == 0
    assert [record.message for record in caplog.records] == ["connections are closed or refused"]
