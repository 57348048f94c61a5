"""Both ends of a SPDY connection: the client that opens streams and the server that accepts them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pykubelet.aio.tasks import background_task
from pykubelet.httpserver.spdy.connection import SpdyConnection, SpdyStream
from pykubelet.httpserver.spdy.frames import (
    DataFrame,
    FrameReader,
    FrameWriter,
    GoAway,
    Ping,
    RstStream,
    SynReply,
    SynStream,
)
from spdy_client import linked


@asynccontextmanager
async def joined() -> AsyncIterator[tuple[SpdyConnection, SpdyConnection, asyncio.Queue[SpdyStream]]]:
    """The client, the server, and what the client opened there; streams of the type `bad` are refused."""
    ours, theirs = linked()
    client, server = SpdyConnection(ours, is_client=True), SpdyConnection(theirs)
    opened: asyncio.Queue[SpdyStream] = asyncio.Queue()
    reading = server.run(lambda headers: headers["streamtype"] != "bad", opened.put_nowait)
    async with (
        background_task(reading, "server"),
        background_task(client.run(lambda _: False, lambda _: None), "client"),
    ):
        yield client, server, opened


async def test_client_opens_streams_and_both_sides_talk() -> None:
    """Several streams are open at once, and each side ends its own direction."""
    async with joined() as (client, _, opened):
        first, second = await client.open({"streamtype": "a"}), await client.open({"streamtype": "b"})
        there, other = await opened.get(), await opened.get()
        assert (there.headers, other.headers) == ({"streamtype": "a"}, {"streamtype": "b"})
        await first.write(b"question")
        await first.finish()
        assert (await there.read(), await there.read()) == (b"question", b"")
        await there.write(b"answer")
        await there.finish()
        await other.write(b"unasked")
        assert (await first.read(), await first.read(), await second.read()) == (b"answer", b"", b"unasked")


async def test_client_still_reads_what_came_before_the_server_dropped_the_stream() -> None:
    """Servers drop a stream once they have sent everything."""
    async with joined() as (client, server, opened):
        stream = await client.open({"streamtype": "error"})
        there = await opened.get()
        await there.write(b"the last word")
        await server.close()
        await asyncio.sleep(0)
        assert (await stream.read(), await stream.read()) == (b"the last word", b"")
        with pytest.raises(ConnectionError):
            await stream.write(b"too late")


async def test_client_finds_a_refused_stream_at_its_end() -> None:
    """Other streams continue to work."""
    async with joined() as (client, _, opened):
        refused, taken = await client.open({"streamtype": "bad"}), await client.open({"streamtype": "good"})
        assert await refused.read() == b""
        await (await opened.get()).write(b"here")
        assert await taken.read() == b"here"


async def test_client_sends_no_data_on_a_stream_before_the_server_has_answered() -> None:
    """Go servers drop data that arrives earlier."""
    ours, theirs = linked()
    client, writer, reader = SpdyConnection(ours, is_client=True), FrameWriter(), FrameReader()

    async def talk() -> None:
        await (await client.open({"streamtype": "stdin"})).write(b"question")

    async with background_task(client.run(lambda _: False, lambda _: None), "client"), background_task(talk(), "talk"):
        assert reader.feed(await theirs.read()) == [SynStream(1, {"streamtype": "stdin"})]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await theirs.read()
        await theirs.write(writer.write(SynReply(1)))
        assert reader.feed(await theirs.read()) == [DataFrame(1, b"question")]


async def test_stream_of_a_connection_that_is_over_ends_at_once() -> None:
    """Opening a stream while the connection ends, or later, does not wait for an answer."""
    ours, theirs = linked()
    client = SpdyConnection(ours, is_client=True)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(client.run(lambda _: False, lambda _: None))
        waiting = group.create_task(client.open({"streamtype": "early"}))
        await theirs.read()
        await theirs.write(FrameWriter().write(GoAway(0)))
        early = await waiting
        await reading
    assert await early.read() == b""
    await client.open({"streamtype": "late"})


async def test_client_answers_the_servers_pings_and_takes_no_streams() -> None:
    """Even numbers belong to the server."""
    ours, theirs = linked()
    client, writer, reader = SpdyConnection(ours, is_client=True), FrameWriter(), FrameReader()
    async with background_task(client.run(lambda _: True, lambda _: None), "client"):
        for frame in (Ping(1), Ping(2), SynStream(2, {})):
            await theirs.write(writer.write(frame))
        heard = reader.feed(await theirs.read())
        while len(heard) < 2:
            heard += reader.feed(await theirs.read())
    assert heard == [Ping(2), RstStream(2, 1)]
