"""A gRPC call over HTTP/2, as bytes in and bytes out."""

from contextlib import suppress
from enum import IntEnum
from itertools import pairwise

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.kubelet.prober.grpc_probe import GrpcCallError, UnaryCall, UnaryResponse

ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY = 0x20


class FrameType(IntEnum):
    """The frame types of a health check."""

    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


def frame(type: FrameType, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes((type, flags)) + stream.to_bytes(4) + payload


def encode(fields: list[tuple[str, str]]) -> bytes:
    """A header block without the dynamic table, so that blocks can be sent in any order."""
    return hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*field) for field in fields])


HELLO = frame(FrameType.SETTINGS, 0, 0)
HEADERS = frame(FrameType.HEADERS, END_HEADERS, 1, encode([(":status", "200")]))
DATA = frame(FrameType.DATA, 0, 1, b"\x00\x00\x00\x00\x02\x08\x01")
TRAILERS = frame(FrameType.HEADERS, END_HEADERS | END_STREAM, 1, encode([("grpc-status", "0")]))
HEADER_FIELDS = [(":method", "POST"), (":scheme", "http"), (":path", "/x"), (":authority", "web:1")]
SERVING = UnaryResponse(0, "", b"\x08\x01")


def call() -> UnaryCall:
    return UnaryCall(HEADER_FIELDS, b"abc")


def test_call_opens_with_settings_headers_and_message() -> None:
    """There is one stream, and its message is complete."""
    opening = call().opening
    preface, rest = opening[:24], opening[24:]
    assert preface == b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    frames = []
    while rest:
        length = int.from_bytes(rest[:3])
        frames.append((FrameType(rest[3]), rest[4], int.from_bytes(rest[5:9]), rest[9 : 9 + length]))
        rest = rest[9 + length :]
    assert [one[:3] for one in frames] == [
        (FrameType.SETTINGS, 0, 0),
        (FrameType.HEADERS, END_HEADERS, 1),
        (FrameType.DATA, END_STREAM, 1),
    ]
    assert frames[2][3] == b"\x00\x00\x00\x00\x03abc"
    fields = {str(name): str(value) for name, value in hpack.Decoder().decode(frames[1][3])}
    assert fields == dict(HEADER_FIELDS)


@settings(max_examples=60)
@given(st.lists(st.integers(0, len(HELLO + HEADERS + DATA + TRAILERS)), max_size=6))
def test_answer_is_the_same_however_its_bytes_arrive(cuts: list[int]) -> None:
    """In one piece, in many, and in the middle of a frame."""
    whole = HELLO + HEADERS + DATA + TRAILERS
    places = sorted({0, *cuts, len(whole)})
    made = call()
    replies = b"".join(made.receive(whole[start:end]) for start, end in pairwise(places))
    assert made.response == SERVING
    assert replies == frame(FrameType.SETTINGS, ACK, 0)


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param([HEADERS, DATA, TRAILERS], id="plain"),
        pytest.param(
            [
                frame(FrameType.HEADERS, END_HEADERS | PADDED, 1, b"\x02" + encode([(":status", "200")]) + b"\0\0"),
                frame(FrameType.DATA, PADDED, 1, b"\x01" + b"\x00\x00\x00\x00\x02\x08\x01" + b"\0"),
                TRAILERS,
            ],
            id="padded",
        ),
        pytest.param(
            [
                frame(FrameType.HEADERS, END_HEADERS | PRIORITY, 1, b"\0\0\0\0\x10" + encode([(":status", "200")])),
                DATA,
                TRAILERS,
            ],
            id="priority",
        ),
        pytest.param(
            [
                HEADERS,
                DATA,
                frame(FrameType.HEADERS, END_STREAM, 1, encode([("grpc-status", "0")])[:4]),
                frame(FrameType.CONTINUATION, END_HEADERS, 1, encode([("grpc-status", "0")])[4:]),
            ],
            id="continuation",
        ),
        pytest.param(
            [
                frame(FrameType.GOAWAY, 0, 0, b"\0\0\0\x01\0\0\0\0"),
                bytes.fromhex("000004 08 00 00000001 00000064"),
                HEADERS,
                DATA,
                TRAILERS,
            ],
            id="goaway after us, a window",
        ),
    ],
)
def test_answer_is_read_in_every_form(frames: list[bytes]) -> None:
    """Padding, priorities, continuations, and frames that are ignored."""
    made = call()
    made.receive(HELLO + b"".join(frames))
    assert made.response == SERVING


def test_ping_is_answered() -> None:
    """A server may measure the round trip; the reply repeats its eight bytes."""
    made = call()
    made.receive(HELLO)
    assert made.receive(frame(FrameType.PING, 0, 0, b"12345678")) == frame(FrameType.PING, ACK, 0, b"12345678")
    assert made.receive(frame(FrameType.PING, ACK, 0, b"12345678") + frame(FrameType.SETTINGS, ACK, 0)) == b""


def test_error_answer_without_message_is_read() -> None:
    """A response of trailers only, with a percent-encoded text."""
    made = call()
    fields = [(":status", "200"), ("grpc-status", "5"), ("grpc-message", "unknown%20service")]
    made.receive(HELLO + frame(FrameType.HEADERS, END_HEADERS | END_STREAM, 1, encode(fields)))
    assert made.response == UnaryResponse(5, "unknown service", b"")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "not expected"),
        (HELLO + frame(FrameType.RST_STREAM, 0, 1, b"\0\0\0\x08"), "RST_STREAM with error code: 8"),
        (HELLO + frame(FrameType.GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\0"), "going away"),
        (HELLO + frame(FrameType.HEADERS, END_HEADERS | END_STREAM, 1, encode([(":status", "404")])), "404"),
        (HELLO + frame(FrameType.DATA, END_STREAM, 1, b""), "data before headers"),
        (HELLO + frame(FrameType.DATA, PADDED, 1, b"\x05x"), "[Pp]adding"),
        (HELLO + frame(FrameType.HEADERS, END_HEADERS, 1, b"\xbe"), "[Dd]ecoding|Invalid table index"),
        (HELLO + b"".join([DATA] * 10_000), "too large"),
    ],
    ids=["http/1", "reset", "goaway", "no grpc", "no headers", "padding", "dynamic table", "too much"],
)
def test_broken_call_is_an_error_with_its_cause(data: bytes, words: str) -> None:
    """Covers resets, wrong status codes, broken frames and oversized responses."""
    with pytest.raises(GrpcCallError, match=words):
        call().receive(data)


@settings(max_examples=150)
@given(st.lists(st.sampled_from([HELLO, HEADERS, DATA, TRAILERS, b"\0"]) | st.binary(max_size=30), max_size=8))
def test_any_bytes_lead_to_an_answer_or_an_error(parts: list[bytes]) -> None:
    """No bytes from a server cause any other exception."""
    made = call()
    with suppress(GrpcCallError):
        for part in parts:
            made.receive(part)
    assert made.response is None or made.is_connected
