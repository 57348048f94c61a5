"""Streams over SPDY: opening, refusing, reading, writing and ending them; port-forward and commands over them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pykubelet.api.serializer import Document
from pykubelet.httpserver.spdy.connection import ROOM_BYTES, SpdyConnection, SpdyStream
from pykubelet.httpserver.spdy.frames import CANCEL, DataFrame, GoAway, Ping, RstStream, SynReply, SynStream
from pykubelet.kubelet.server.streaming.negotiation import Carrier, StreamProtocol
from pykubelet.kubelet.server.streaming.portforward import PATIENCE_SECONDS, STREAM_CREATION_SECONDS, SpdyForward
from pykubelet.kubelet.server.streaming.remotecommand import serve_spdy
from pykubelet.kubelet.server.streaming.session import (
    ByteSink,
    ByteSource,
    CommandOptions,
    CommandSession,
    ForwardSession,
    RemoteStreams,
    exit_status,
)
from spdy_client import MemoryLink, SpdyClient, linked

V4 = StreamProtocol(Carrier.SPDY, "v4.channel.k8s.io")


@asynccontextmanager
async def forwarding(session: ForwardSession) -> AsyncIterator[SpdyClient]:
    """A client of a port-forward session that is served."""
    ours, theirs = linked()

    async def serve(link: MemoryLink) -> None:
        await SpdyForward(session, link).serve()
        link.hang_up()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(serve(ours))
        yield SpdyClient(theirs)
        task.cancel()


def pair(number: int, port: str = "80") -> tuple[dict[str, str], dict[str, str]]:
    """Headers of the two streams of a forwarded connection."""
    common = {"port": port, "requestID": str(number)}
    return {**common, "streamType": "error"}, {**common, "streamType": "data"}


async def say_back(port: int, source: ByteSource, sink: ByteSink) -> str:
    """A pod that echoes what it receives, after its port."""
    await sink.write(f"{port}:".encode())
    while data := await source.read():
        await sink.write(data)
    return ""


async def test_connection_answers_pings_and_refuses_what_breaks_the_rules() -> None:
    """The client's stream numbers are odd and increase; only its own pings are answered."""
    ours, theirs = linked()
    client, opened = SpdyClient(theirs), list[SpdyStream]()
    async with asyncio.TaskGroup() as group:
        group.create_task(SpdyConnection(ours).run(lambda headers: "wanted" in headers, opened.append))
        await client.send(
            SynStream(3, {"wanted": ""}), SynStream(1, {"wanted": ""}), SynStream(4, {}), SynStream(5, {})
        )
        await client.send(Ping(2), Ping(9), DataFrame(77, b"nobody's"))
        await client.hear(Ping(9))
        theirs.hang_up()
    assert client.heard == [SynReply(3), RstStream(1, 1), RstStream(4, 1), RstStream(5, 3), Ping(9)]
    assert [stream.id for stream in opened] == [3]
    assert await opened[0].read() == b""


async def test_connection_that_is_not_spdy_ends_with_a_goaway() -> None:
    """The client here sends frames of another version."""
    ours, theirs = linked()
    client = SpdyClient(theirs)
    await theirs.write(b"\x80\x02\x00\x06\x00\x00\x00\x04abcd")
    await SpdyConnection(ours).run(lambda _: True, lambda _: None)
    ours.hang_up()
    assert await client.hear_all() == [GoAway(0, 1)]


async def test_forwarded_connections_do_not_mix() -> None:
    """Two at once, each with its port and its data; the end of one leaves the other."""
    async with forwarding(ForwardSession((), say_back)) as client:
        errors, datas = [], []
        for number, port in enumerate(("80", "443")):
            error, data = pair(number, port)
            errors.append(await client.open(error, fin=True))
            datas.append(await client.open(data))
        await client.send(DataFrame(datas[1], b"two"), DataFrame(datas[0], b"one", fin=True))
        await client.hear(DataFrame(datas[0], b"", fin=True))
        await client.hear(DataFrame(errors[0], b"", fin=True))
        await client.send(DataFrame(datas[1], b" and more", fin=True))
        await client.hear(DataFrame(errors[1], b"", fin=True))
        assert [client.data_of(data) for data in datas] == [b"80:one", b"443:two and more"]


async def test_forward_reports_an_error_on_its_error_stream() -> None:
    """Both streams are ended."""

    async def fail(port: int, source: ByteSource, sink: ByteSink) -> str:
        return "nobody listens"

    async with forwarding(ForwardSession((), fail)) as client:
        error, data = [await client.open(headers) for headers in pair(0)]
        await client.hear(DataFrame(data, b"", fin=True))
        await client.hear(DataFrame(error, b"", fin=True))
        assert client.data_of(error) == b"nobody listens"


async def test_forward_that_breaks_is_reset_and_is_no_error() -> None:
    """kubectl exits at an error, and a reset by the pod is not one."""

    async def break_off(port: int, source: ByteSource, sink: ByteSink) -> str:
        raise ConnectionResetError

    async with forwarding(ForwardSession((), break_off)) as client:
        error, data = [await client.open(headers) for headers in pair(0)]
        await client.hear(RstStream(data, CANCEL))
        await client.hear(DataFrame(error, b"", fin=True))
        assert client.data_of(error) == b""


async def test_forward_without_its_second_stream_is_given_up() -> None:
    """The error stream gets a message after the time limit."""
    async with forwarding(ForwardSession((), say_back)) as client:
        error = await client.open(pair(0)[0])
        began = asyncio.get_running_loop().time()
        await client.hear(DataFrame(error, b"", fin=True))
        assert asyncio.get_running_loop().time() - began >= STREAM_CREATION_SECONDS
        assert client.data_of(error) == b"(request=0) timed out waiting for streams"


async def test_forward_refuses_invalid_streams() -> None:
    """They have no valid port or type, or repeat a stream."""
    async with forwarding(ForwardSession((), say_back)) as client:
        error, data = pair(0)
        first = await client.open(error)
        bad = [error, {**data, "port": "0"}, {**data, "port": "http"}, {**data, "streamType": "stdin"}, {}]
        refused = [await client.open(headers) for headers in bad]
        for number in refused:
            await client.hear(RstStream(number, 3))
        assert SynReply(first) in client.heard


async def test_forward_of_an_old_client_is_known_by_its_streams_numbers() -> None:
    """Without a requestID, two consecutive streams belong together."""
    async with forwarding(ForwardSession((), say_back)) as client:
        error = await client.open({"port": "80", "streamtype": "error"})
        data = await client.open({"port": "80", "streamtype": "data"}, fin=True)
        await client.hear(DataFrame(error, b"", fin=True))
        assert client.data_of(data) == b"80:"


async def test_forward_that_is_not_read_does_not_hold_up_the_others_for_ever() -> None:
    """A connection that the pod does not read is reset, and the next one works."""

    async def listen_or_not(port: int, source: ByteSource, sink: ByteSink) -> str:
        if port == 1:
            await asyncio.Event().wait()
        return await say_back(port, source, sink)

    async with forwarding(ForwardSession((), listen_or_not)) as client:
        _, stuck = [await client.open(headers) for headers in pair(0, "1")]
        _, good = [await client.open(headers) for headers in pair(1, "2")]
        for _ in range(3):
            await client.send(DataFrame(stuck, bytes(ROOM_BYTES // 2)))
        began = asyncio.get_running_loop().time()
        await client.send(DataFrame(stuck, b"too much"), DataFrame(good, b"hello", fin=True))
        await client.hear(DataFrame(good, b"", fin=True))
        assert asyncio.get_running_loop().time() - began <= PATIENCE_SECONDS + 1
        assert RstStream(stuck, CANCEL) in client.heard
        assert client.data_of(good) == b"2:hello"


async def test_forward_ends_when_the_client_drops_its_stream() -> None:
    """It ends even if the pod sends nothing."""
    ended = asyncio.Event()

    async def wait(port: int, source: ByteSource, sink: ByteSink) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    async with forwarding(ForwardSession((), wait)) as client:
        error, data = [await client.open(headers) for headers in pair(0)]
        await client.hear(SynReply(data))
        await asyncio.sleep(1)
        await client.send(RstStream(data, CANCEL))
        await client.hear(DataFrame(error, b"", fin=True))
        assert ended.is_set()


def command(options: CommandOptions, agreement: StreamProtocol = V4) -> tuple[SpdyClient, MemoryLink, CommandSession]:
    """A command that echoes its input in upper case."""

    async def run(console: RemoteStreams) -> Document:
        assert console.stdin is not None
        assert console.stdout is not None
        while data := await console.stdin.read():
            await console.stdout.write(data.upper())
        if console.sizes is not None:
            sizes = [size async for size in console.sizes]
            await console.stdout.write(str([tuple(size) for size in sizes]).encode())
        return exit_status(["shout"], 3)

    ours, theirs = linked()
    return SpdyClient(theirs), ours, CommandSession(options, options.tty, run)


async def test_command_gets_its_streams_and_reports_its_exit_code() -> None:
    """The streams are input, output and terminal sizes; the exit code is sent as a Status."""
    client, link, session = command(CommandOptions(stdin=True, stdout=True, tty=True))
    async with asyncio.TaskGroup() as group:
        group.create_task(serve_spdy(session, link, V4))
        kinds = ("error", "stdin", "stdout", "resize", "stderr")
        numbers = {kind: await client.open({"streamType": kind}) for kind in kinds}
        await client.send(DataFrame(numbers["resize"], b'{"Width":80,"Height":24}', fin=True))
        await client.send(DataFrame(numbers["stdin"], b"hello "), DataFrame(numbers["stdin"], b"there", fin=True))
        await client.hear(GoAway(numbers["stderr"]))
    assert RstStream(numbers["stderr"], 3) in client.heard
    assert client.data_of(numbers["stdout"]) == b"HELLO THERE[(80, 24)]"
    assert b'"reason":"ExitCode","message":"3"' in client.data_of(numbers["error"])
    assert DataFrame(numbers["stdout"], b"", fin=True) in client.heard


async def test_command_does_not_begin_without_its_streams() -> None:
    """If the client does not open a stream that it requested, the session ends after a while."""
    client, link, session = command(CommandOptions(stdin=True, stdout=True))
    async with asyncio.TaskGroup() as group:
        group.create_task(serve_spdy(session, link, V4))
        await client.open({"streamType": "error"})
        await client.hear(GoAway(1))
    assert client.data_of(1) == b""


async def test_command_ends_when_its_client_hangs_up_before_all_streams_are_there() -> None:
    """The session ends without waiting."""
    client, link, session = command(CommandOptions(stdin=True, stdout=True))
    began = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        group.create_task(serve_spdy(session, link, V4))
        await client.open({"streamType": "error"})
        client.link.hang_up()
    assert asyncio.get_running_loop().time() == began


async def test_command_of_an_old_protocol_ends_with_a_message() -> None:
    """Before version 4 there were no exit codes."""
    v2 = StreamProtocol(Carrier.SPDY, "v2.channel.k8s.io")
    client, link, session = command(CommandOptions(stdin=True, stdout=True, tty=False))
    async with asyncio.TaskGroup() as group:
        group.create_task(serve_spdy(session, link, v2))
        numbers = [
            await client.open({"streamType": kind}, fin=kind == "stdin") for kind in ("error", "stdin", "stdout")
        ]
        await client.hear(GoAway(numbers[-1]))
    assert client.data_of(numbers[0]).startswith(b"command terminated with non-zero exit code")
