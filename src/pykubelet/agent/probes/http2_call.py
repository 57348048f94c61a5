"""One gRPC call over HTTP/2 without a network: bytes that came in, bytes to send out.

As little of HTTP/2 as a call with one small message each way needs: our settings, one stream, answers to SETTINGS and
PING, the answer's headers, message and trailers. Pure: `UnaryCall` holds what has come so far and decides.

RFC 9113; https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from urllib.parse import unquote

from pykubelet.agent.probes import hpack

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


class CallBroken(Exception):
    """The other side does not speak HTTP/2 or gRPC, or ended the call; says how."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ended: its gRPC status, what the server said to that, and the message if there is one."""

    status: int
    text: str
    message: bytes


def frame(type: FrameType, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame as it is sent."""
    return len(payload).to_bytes(3) + bytes((type, flags)) + stream.to_bytes(4) + payload


class UnaryCall:
    """A call to one method with one message."""

    def __init__(self, headers: Sequence[hpack.Field], message: bytes) -> None:
        body = b"\x00" + len(message).to_bytes(4) + message
        self.opening = (
            _PREFACE
            + frame(FrameType.SETTINGS, 0, 0, _SETTINGS)
            + frame(FrameType.HEADERS, END_HEADERS, _STREAM, hpack.encode(headers))
            + frame(FrameType.DATA, END_STREAM, _STREAM, body)
        )
        """What to send at once."""
        self.is_connected = False
        """Whether the other side has said that it speaks HTTP/2."""
        self.answer: Answer | None = None
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
            raise CallBroken("the answer is too large")
        replies = b""
        while self.answer is None and len(self._buffer) >= _FRAME_HEADER_BYTES:
            length = int.from_bytes(self._buffer[:3])
            if length > _MAX_FRAME_BYTES or not (self.is_connected or self._buffer[3] == FrameType.SETTINGS):
                raise CallBroken("error reading server preface: http2: frame too large or not expected")
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
            raise CallBroken("the server is going away")
        if stream == _STREAM:
            self._handle_stream(type, flags, payload)
        return b""

    def _handle_stream(self, type: int, flags: int, payload: bytes) -> None:
        if type == FrameType.RST_STREAM:
            raise CallBroken(f"stream terminated by RST_STREAM with error code: {int.from_bytes(payload)}")
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
            self._fields |= hpack.decode(self._block)
        except hpack.HpackError as error:
            raise CallBroken(str(error)) from error
        if self._ends_after_headers:
            self._finish()

    def _finish(self) -> None:
        status = self._fields.get("grpc-status", "")
        if not status.isdecimal():
            http = self._fields.get(":status", "")
            raise CallBroken(f"unexpected HTTP status code received from server: {http}")
        text = unquote(self._fields.get("grpc-message", ""))
        self.answer = Answer(int(status), text, self._message())

    def _message(self) -> bytes:
        length = int.from_bytes(self._body[1:5])
        return self._body[5 : 5 + length] if self._body[:1] == b"\x00" else b""


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise CallBroken("a frame is padded wrongly")
    return payload[1 : len(payload) - payload[0]]
