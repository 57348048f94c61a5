"""Probes a container by the gRPC health protocol, over a connection of its own.

Upstream: pkg/probe/grpc/grpc.go, which dials again and again until its time is up, whatever is in the way.

What a gRPC health check sends, and what the answer means.

Pure. The two messages of grpc.health.v1.Health/Check have one field each, so they are read and written here.
Upstream: pkg/probe/grpc/grpc.go

One gRPC call over HTTP/2 without a network: bytes that came in, bytes to send out.

As little of HTTP/2 as a call with one small message each way needs: our settings, one stream, answers to SETTINGS and
PING, the answer's headers, message and trailers. Pure: `UnaryCall` holds what has come so far and decides.

RFC 9113; https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md

As much of HPACK as one call needs: writes header fields plainly, reads those of an answer.

The other side is told to keep no dynamic table, so a field is an entry of the static table or literal. Of the static table
only `:status` matters; other fields from it are read without a name. Of Huffman codes those of printable characters are
known; a string with others, which no field of interest has, ends there. Pure.

RFC 7541; compared with another implementation in tests/unit/agent/probes/test_hpack.py
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from urllib.parse import unquote

from pykubelet.api.field_errors import go_quote
from pykubelet.api.times import format_duration
from pykubelet.httpserver.http_client import KUBERNETES_VERSION, dial_failure, host_port
from pykubelet.kubelet.prober.tcp_probe import ProbeAttempt, ProbeState, opened

Field = tuple[str, str]

# Huffman codes are canonical: the symbols by the number of bits in their codes are the whole table.
_SYMBOLS = {
    5: "012aceiost",
    6: " %-./3456789=A_bdfghlmnpru",
    7: ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
    8: "&*,;XZ",
    10: '!"()?',
    11: "'+|",
    12: "#>",
    13: "\0$@[]~",
    14: "^}",
    15: "<`{",
    19: "\\",
}
_STATUS_VALUES = {8: "200", 9: "204", 10: "206", 11: "304", 12: "400", 13: "404", 14: "500"}
_STATIC_ENTRIES = 61


class HpackError(ValueError):
    """The bytes are no header block that we allow."""


def _huffman_codes() -> dict[tuple[int, int], str]:
    codes: dict[tuple[int, int], str] = {}
    code = before = 0
    for bits, symbols in _SYMBOLS.items():
        code <<= bits - before
        before = bits
        for symbol in symbols:
            codes[bits, code] = symbol
            code += 1
    return codes


_CODES = _huffman_codes()


def encode(fields: Iterable[Field]) -> bytes:
    """A header block of literal fields that nobody is to index."""
    return b"".join(b"\x00" + _plain(name) + _plain(value) for name, value in fields)


def decode(block: bytes) -> tuple[Field, ...]:
    """The fields of a header block; HpackError if it is none."""
    fields: list[Field] = []
    at = 0
    while at < len(block):
        first = block[at]
        if first & 0x80:
            index, at = _integer(block, at, 7)
            fields.append(_indexed(index))
        elif first & 0xE0 == 0x20:
            size, at = _integer(block, at, 5)
            if size:
                raise HpackError("a dynamic table was asked for")
        else:
            index, at = _integer(block, at, 6 if first & 0x40 else 4)
            if index:
                name, _ = _indexed(index)
            else:
                name, at = _string(block, at)
            value, at = _string(block, at)
            fields.append((name, value))
    return tuple(fields)


def _indexed(index: int) -> Field:
    if not 0 < index <= _STATIC_ENTRIES:
        raise HpackError("a field refers to no entry of the static table")
    return (":status", _STATUS_VALUES[index]) if index in _STATUS_VALUES else ("", "")


def _plain(text: str) -> bytes:
    data = text.encode()
    length = len(data)
    if length < 0x7F:
        return bytes((length,)) + data
    prefix, length = bytearray((0x7F,)), length - 0x7F
    while length >= 0x80:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes((*prefix, length)) + data


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """The number that begins in the low bits of a byte, and where the next thing begins."""
    limit = (1 << bits) - 1
    value = block[at] & limit
    at += 1
    if value < limit:
        return value, at
    # Three more bytes reach beyond any header block we read.
    for shift in (0, 7, 14):
        if at >= len(block):
            break
        value += (block[at] & 0x7F) << shift
        at += 1
        if not block[at - 1] & 0x80:
            return value, at
    raise HpackError("a number is cut off or too large")


def _string(block: bytes, at: int) -> tuple[str, int]:
    if at >= len(block):
        raise HpackError("a string is cut off")
    is_huffman = block[at] & 0x80
    length, at = _integer(block, at, 7)
    data = block[at : at + length]
    if len(data) < length:
        raise HpackError("a string is cut off")
    return (_unpacked(data) if is_huffman else data.decode("latin-1")), at + length


def _unpacked(data: bytes) -> str:
    text = []
    code = bits = 0
    for byte in data:
        for shift in range(7, -1, -1):
            code, bits = code << 1 | byte >> shift & 1, bits + 1
            if (bits, code) in _CODES:
                text.append(_CODES[bits, code])
                code = bits = 0
    # What is left is the padding, or a symbol we do not know and all that follows it.
    return "".join(text)


_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEADER_BYTES = 9
# The largest frame a peer may send that was not told otherwise.
_MAX_FRAME_BYTES = 16384
# No health check answers more; whoever does is cut off.
_MAX_ANSWER_BYTES = 2**16
_STREAM = 1
# SETTINGS_HEADER_TABLE_SIZE = 0 keeps the peer from using a dynamic table, SETTINGS_ENABLE_PUSH = 0 from pushing.
_SETTINGS = bytes.fromhex("0001 00000000 0002 00000000")

ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY = 0x20


class FrameType(IntEnum):
    """The frames that matter here."""

    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    CONTINUATION = 9


class GrpcCallError(Exception):
    """The other side does not speak HTTP/2 or gRPC, or ended the call; says how."""


@dataclass(frozen=True, slots=True)
class UnaryResponse:
    """How a call ended: its gRPC status, what the server said to that, and the message if there is one."""

    status: int
    text: str
    message: bytes


def frame(type: FrameType, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame as it is sent."""
    return len(payload).to_bytes(3) + bytes((type, flags)) + stream.to_bytes(4) + payload


class UnaryCall:
    """A call to one method with one message."""

    def __init__(self, headers: Sequence[Field], message: bytes) -> None:
        body = b"\x00" + len(message).to_bytes(4) + message
        self.opening = (
            _PREFACE
            + frame(FrameType.SETTINGS, 0, 0, _SETTINGS)
            + frame(FrameType.HEADERS, END_HEADERS, _STREAM, encode(headers))
            + frame(FrameType.DATA, END_STREAM, _STREAM, body)
        )
        """What to send at once."""
        self.is_connected = False
        """Whether the other side has said that it speaks HTTP/2."""
        self.answer: UnaryResponse | None = None
        """How the call ended, once it has."""
        self._buffer = b""
        self._received = 0
        self._block = b""
        self._ends_after_headers = False
        self._fields: dict[str, str] = {}
        self._body = b""

    def receive(self, data: bytes) -> bytes:
        """Take in what came; what is to be sent in reply. CallBroken if this leads nowhere."""
        self._buffer += data
        self._received += len(data)
        if self._received > _MAX_ANSWER_BYTES:
            raise GrpcCallError("the answer is too large")
        replies = b""
        while self.answer is None and len(self._buffer) >= _FRAME_HEADER_BYTES:
            length = int.from_bytes(self._buffer[:3])
            if length > _MAX_FRAME_BYTES or not (self.is_connected or self._buffer[3] == FrameType.SETTINGS):
                raise GrpcCallError("error reading server preface: http2: frame too large or not expected")
            end = _FRAME_HEADER_BYTES + length
            if len(self._buffer) < end:
                break
            type, flags, stream = self._buffer[3], self._buffer[4], int.from_bytes(self._buffer[5:9]) & 0x7FFFFFFF
            payload, self._buffer = self._buffer[_FRAME_HEADER_BYTES:end], self._buffer[end:]
            replies += self._handle(type, flags, stream, payload)
        return replies

    def _handle(self, type: int, flags: int, stream: int, payload: bytes) -> bytes:
        self.is_connected = True
        if type == FrameType.SETTINGS:
            return b"" if flags & ACK else frame(FrameType.SETTINGS, ACK, 0)
        if type == FrameType.PING:
            return b"" if flags & ACK else frame(FrameType.PING, ACK, 0, payload)
        if type == FrameType.GOAWAY and int.from_bytes(payload[:4]) & 0x7FFFFFFF < _STREAM:
            raise GrpcCallError("the server is going away")
        if stream == _STREAM:
            self._handle_stream(type, flags, payload)
        return b""

    def _handle_stream(self, type: int, flags: int, payload: bytes) -> None:
        if type == FrameType.RST_STREAM:
            raise GrpcCallError(f"stream terminated by RST_STREAM with error code: {int.from_bytes(payload)}")
        if type == FrameType.DATA:
            self._body += _unpadded(flags, payload)
            if flags & END_STREAM:
                self._finish()
        elif type == FrameType.HEADERS:
            content = _unpadded(flags, payload)
            self._block = content[5:] if flags & PRIORITY else content
            self._ends_after_headers = bool(flags & END_STREAM)
        elif type == FrameType.CONTINUATION:
            self._block += payload
        if type in {FrameType.HEADERS, FrameType.CONTINUATION} and flags & END_HEADERS:
            self._take_fields()

    def _take_fields(self) -> None:
        try:
            self._fields |= decode(self._block)
        except HpackError as error:
            raise GrpcCallError(str(error)) from error
        if self._ends_after_headers:
            self._finish()

    def _finish(self) -> None:
        status = self._fields.get("grpc-status", "")
        if not status.isdecimal():
            http = self._fields.get(":status", "")
            raise GrpcCallError(f"unexpected HTTP status code received from server: {http}")
        text = unquote(self._fields.get("grpc-message", ""))
        self.answer = UnaryResponse(int(status), text, self._message())

    def _message(self) -> bytes:
        length = int.from_bytes(self._body[1:5])
        return self._body[5 : 5 + length] if self._body[:1] == b"\x00" else b""


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise GrpcCallError("a frame is padded wrongly")
    return payload[1 : len(payload) - payload[0]]


_PATH = "/grpc.health.v1.Health/Check"
SERVING = 1
_STATUS_NAMES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
DEADLINE_EXCEEDED = 4
UNIMPLEMENTED = 12
_GRPC_HEALTH_CODES = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
]


def request_fields(address: str, timeout_seconds: int) -> tuple[Field, ...]:
    """The header fields of the call."""
    return (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", _PATH),
        (":authority", address),
        ("content-type", "application/grpc"),
        ("user-agent", f"kube-probe/{KUBERNETES_VERSION}"),
        ("te", "trailers"),
        ("grpc-timeout", f"{timeout_seconds}S"),
    )


def request_message(service: str) -> bytes:
    """A HealthCheckRequest."""
    name = service.encode()
    return b"\x0a" + _varint(len(name)) + name if name else b""


def judge(answer: UnaryResponse, timeout_seconds: int) -> ProbeAttempt:
    """What an answer means."""
    if answer.status == UNIMPLEMENTED:
        text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
        return ProbeAttempt(ProbeState.FAILURE, text + answer.text)
    if answer.status == DEADLINE_EXCEEDED:
        return rpc_timeout(timeout_seconds)
    if answer.status:
        code = (
            _GRPC_HEALTH_CODES[answer.status] if answer.status < len(_GRPC_HEALTH_CODES) else f"Code({answer.status})"
        )
        return rpc_failure(code, answer.text)
    serving = serving_status(answer.message)
    if serving == SERVING:
        return ProbeAttempt(ProbeState.SUCCESS, "service healthy")
    name = _STATUS_NAMES.get(serving, str(serving))
    return ProbeAttempt(ProbeState.FAILURE, f"service unhealthy (responded with {go_quote(name)})")


def rpc_failure(code: str, text: str) -> ProbeAttempt:
    """The call ended in an error."""
    return ProbeAttempt(ProbeState.FAILURE, f"error: health rpc probe failed: rpc error: code = {code} desc = {text}")


def rpc_timeout(timeout_seconds: int) -> ProbeAttempt:
    """The call took too long."""
    return ProbeAttempt(
        ProbeState.FAILURE, f"timeout: health rpc did not complete within {format_duration(timeout_seconds)}"
    )


def connect_timeout(address: str, timeout_seconds: int) -> ProbeAttempt:
    """No gRPC server was reached in time."""
    within = f"within {format_duration(timeout_seconds)}: context deadline exceeded"
    return ProbeAttempt(ProbeState.FAILURE, f"timeout: failed to connect service {go_quote(address)} {within}")


def serving_status(message: bytes) -> int:
    """The status in a HealthCheckResponse; 0 if it says nothing."""
    if message[:1] != b"\x08":
        return 0
    value = shift = 0
    for byte in message[1:]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    return value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))


_PAUSE_SECONDS = 1.0
"""Before dialling again."""


async def probe_grpc(host: str, port: int, service: str, timeout_seconds: int) -> ProbeAttempt:
    """Whether the service says that it serves."""
    address = host_port(host, port)
    call = UnaryCall(request_fields(address, timeout_seconds), request_message(service))
    try:
        async with asyncio.timeout(timeout_seconds):
            while True:
                try:
                    async with opened(host, port) as (reader, writer):
                        return judge(await _answer(call, reader, writer), timeout_seconds)
                except (GrpcCallError, OSError) as error:
                    if call.is_connected:
                        why = dial_failure(host, port, error) if isinstance(error, OSError) else str(error)
                        return rpc_failure("Unavailable", why)
                await asyncio.sleep(_PAUSE_SECONDS)
                call = UnaryCall(request_fields(address, timeout_seconds), request_message(service))
    except TimeoutError:
        return rpc_timeout(timeout_seconds) if call.is_connected else connect_timeout(address, timeout_seconds)


async def _answer(call: UnaryCall, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> UnaryResponse:
    writer.write(call.opening)
    while call.answer is None:
        data = await reader.read(2**14)
        if not data:
            raise GrpcCallError("error reading from server: EOF")
        writer.write(call.receive(data))
    return call.answer
