"""Exec and port-forward over WebSocket channels, and copying streams to programs."""

import asyncio
import json
import struct
from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.serializer import Document
from pykubelet.httpserver.spdy.connection import ROOM_BYTES, BytePipe
from pykubelet.kubelet.server.streaming import portforward, remotecommand
from pykubelet.kubelet.server.streaming.negotiation import Carrier, StreamProtocol
from pykubelet.kubelet.server.streaming.session import (
    DRAIN_SECONDS,
    SUCCESS,
    ByteSink,
    ByteSource,
    CommandOptions,
    CommandSession,
    ForwardSession,
    RemoteStreams,
    carry_command,
    carry_connection,
)
from pykubelet.kubelet.server.streaming.wsstream import ChannelProtocol, MessageBytes
from pykubelet.runtimes.protocol import PortForwardConnection, RuntimeFailure
from pykubelet.testing.virtual_time import VirtualTimeLoop

V5 = StreamProtocol(Carrier.CHANNELS, ChannelProtocol.V5)


class Messages:
    """A WebSocket in memory, with received and sent messages. Implements MessageLink."""

    def __init__(self, *said: bytes, closes: bool = False) -> None:
        self._said, self._closes = deque(said), closes
        self.sent: list[bytes] = []

    async def receive(self) -> bytes | None:
        if not self._said and not self._closes:
            await asyncio.Event().wait()
        return self._said.popleft() if self._said else None

    async def send(self, message: bytes, *, is_text: bool = False) -> None:
        self.sent.append(message)


async def shout(console: RemoteStreams) -> Document:
    """Echoes its input in upper case, then the sizes of the terminal."""
    assert console.stdout is not None
    while console.stdin is not None and (data := await console.stdin.read()):
        await console.stdout.write(data.upper())
    if console.sizes is not None:
        await console.stdout.write(str([tuple(size) async for size in console.sizes]).encode())
    return SUCCESS


async def test_command_over_channels_receives_input_and_sends_output() -> None:
    """Input ends when its channel is closed, sizes are passed on, a Status ends it; unknown channels are dropped."""
    said = (b"\x00hello", b"\x07nobody", b"", b'\x04{"Width":8,"Height":2}', b"\xff\x04", b"\xff\x00", b"\x00late")
    link = Messages(*said)
    session = CommandSession(CommandOptions(stdin=True, stdout=True, tty=True), tty=True, run=shout)
    await remotecommand.serve_channels(session, link, V5)
    assert link.sent[:2] == [b"\x01", b"\x01HELLO"]
    assert link.sent[2] == b"\x01[(8, 2)]"
    assert (link.sent[3][0], json.loads(link.sent[3][1:])) == (3, {"metadata": {}, "status": "Success"})


async def test_base64_command_uses_text_messages() -> None:
    """The channel is a digit."""
    link = Messages(b"0aGk=", closes=True)
    agreement = StreamProtocol(Carrier.CHANNELS, ChannelProtocol.V4_BASE64)
    await remotecommand.serve_channels(
        CommandSession(CommandOptions(stdin=True, stdout=True), tty=False, run=shout), link, agreement
    )
    assert link.sent[:2] == [b"1", b"1SEk="]


async def test_lost_connection_is_raised_unwrapped() -> None:
    """It is not wrapped in an ExceptionGroup."""

    async def lose(_console: RemoteStreams) -> Document:
        raise ConnectionResetError("gone")

    session = CommandSession(CommandOptions(stdout=True), tty=False, run=lose)
    with pytest.raises(ConnectionResetError, match="gone"):
        await remotecommand.serve_channels(session, Messages(), V5)


async def test_messages_are_read_as_one_byte_stream() -> None:
    """Empty messages are skipped; the end of the connection is the end of the stream."""
    link = MessageBytes(Messages(b"", b"ab", b"", closes=True))
    assert [await link.read(), await link.read()] == [b"ab", b""]


async def test_client_that_breaks_the_protocol_has_said_all() -> None:
    """The command sees the end of its input and completes."""
    link = Messages(b"\x00hi", b"\xff")
    await remotecommand.serve_channels(
        CommandSession(CommandOptions(stdin=True, stdout=True), tty=False, run=shout), link, V5
    )
    assert link.sent[1] == b"\x01HI"
    assert link.sent[-1][:1] == b"\x03"


async def test_forward_over_channels_begins_with_the_ports() -> None:
    """Each port has a data channel and an error channel, which both begin with the port number."""

    async def forward(port: int, source: ByteSource, sink: ByteSink) -> str:
        await sink.write(await source.read())
        return "" if port == 80 else "nobody listens"

    link = Messages(b"\x00one", b"\x02two")
    await portforward.serve_channels(ForwardSession((80, 443), forward), link, ChannelProtocol.V4)
    heads = [bytes([channel]) + struct.pack("<H", port) for channel, port in ((0, 80), (1, 80), (2, 443), (3, 443))]
    assert sorted(link.sent) == sorted([*heads, b"\x00one", b"\x02two", b"\x03nobody listens"])


class Program:
    """A scripted program in a container. Implements Session."""

    def __init__(self, outputs: Sequence[bytes] = (), *, code: int | Exception = 0, leaves_open: bool = False) -> None:
        self.stdin, self.stdout, self.stderr = Written(), BytePipe(), BytePipe()
        self.sizes: list[tuple[int, int]] = []
        self._outputs, self._code, self._leaves_open = outputs, code, leaves_open

    def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    async def exit_code(self) -> int:
        await self.stdin.closed.wait()
        if isinstance(self._code, Exception):
            raise self._code
        for output in self._outputs:
            await self.stdout.feed(output)
        if not self._leaves_open:
            self.stdout.end()
        self.stderr.end()
        return self._code


class Written:
    """Written data in memory, or a lost connection. Implements ByteSink and ByteWriter."""

    def __init__(self, *, is_gone: bool = False) -> None:
        self.data, self.closed, self._is_gone = b"", asyncio.Event(), is_gone

    async def write(self, data: bytes) -> None:
        if self._is_gone:
            raise ConnectionResetError("gone")
        self.data += data

    async def close(self) -> None:
        self.closed.set()


async def all_of(data: bytes) -> BytePipe:
    """A pipe that contains all input."""
    pipe = BytePipe()
    await pipe.feed(data)
    pipe.end()
    return pipe


async def test_command_is_carried_to_its_end() -> None:
    """All input, all output and the exit code are passed on; output that was not requested is dropped."""
    program, out = Program([b"a", b"b"], code=7), Written()
    await program.stderr.feed(b"nobody asked")
    code = await carry_command(program, RemoteStreams(stdin=await all_of(b"hello"), stdout=out))
    assert (code, program.stdin.data, out.data) == (7, b"hello", b"ab")


async def test_child_that_keeps_the_output_open_does_not_block_the_end() -> None:
    """The session waits only for the drain timeout."""
    began = asyncio.get_running_loop().time()
    program, out = Program([b"a"], leaves_open=True), Written()
    assert await carry_command(program, RemoteStreams(stdin=await all_of(b""), stdout=out)) == 0
    assert (out.data, asyncio.get_running_loop().time() - began) == (b"a", DRAIN_SECONDS)


async def test_lost_caller_ends_the_session() -> None:
    """The program itself continues."""
    program = Program()
    await program.stdout.feed(b"more")
    with pytest.raises(ConnectionResetError):
        await carry_command(program, RemoteStreams(stdout=Written(is_gone=True)))


async def test_program_whose_end_is_not_known_is_a_failure() -> None:
    """The runtime's error is raised unchanged."""
    with pytest.raises(RuntimeFailure, match="lost"):
        await carry_command(Program(code=RuntimeFailure("lost")), RemoteStreams(stdin=await all_of(b"")))


async def test_input_of_a_container_stays_open_for_the_next_caller() -> None:
    """With closes_stdin=False the end of one caller's input does not close it."""
    program = Program(code=0)
    program_ends = asyncio.get_running_loop().call_later(5, program.stdin.closed.set)
    assert await carry_command(program, RemoteStreams(stdin=await all_of(b"hi")), closes_stdin=False) == 0
    assert (program.stdin.data, program_ends.when()) == (b"hi", 5)


async def test_connection_ends_with_the_pods_side() -> None:
    """The end of the caller's input closes only one half."""
    reader, writer, out = BytePipe(), Written(), Written()

    async def answer() -> None:
        await writer.closed.wait()
        await reader.feed(b"answer to " + writer.data)
        reader.end()

    async with asyncio.TaskGroup() as group:
        group.create_task(answer())
        await carry_connection(PortForwardConnection(reader, writer), await all_of(b"question"), out)
    assert out.data == b"answer to question"


@given(st.lists(st.binary(max_size=ROOM_BYTES // 3), max_size=12))
def test_pipe_loses_nothing(pieces: list[bytes]) -> None:
    """All data comes out in order, although the buffer is small."""

    async def through() -> bytes:
        pipe, received = BytePipe(), b""

        async def feed() -> None:
            for piece in pieces:
                await pipe.feed(piece)
            pipe.end()
            await pipe.feed(b"late")

        async with asyncio.TaskGroup() as group:
            group.create_task(feed())
            while data := await pipe.read():
                received += data
        return received

    loop = VirtualTimeLoop()
    try:
        assert loop.run_until_complete(through()) == b"".join(pieces)
    finally:
        loop.close()


async def test_full_pipe_blocks_its_writer_until_it_is_abandoned() -> None:
    """The buffer is bounded; an abandoned pipe drops its data."""
    pipe = BytePipe()
    await pipe.feed(bytes(ROOM_BYTES))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await pipe.feed(b"more")
    pipe.abandon()
    await pipe.feed(b"more")
    assert await pipe.read() == b""
