"""SPDY frames: written frames are read back from any pieces; other input is refused."""

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.httpserver.spdy.frames import (
    DICTIONARY,
    MAX_BLOCK_BYTES,
    DataFrame,
    Frame,
    FrameReader,
    FrameWriter,
    GoAway,
    HeaderPacker,
    HeadersFrame,
    HeaderUnpacker,
    Ping,
    RstStream,
    SpdyError,
    SynReply,
    SynStream,
)

IDS = st.integers(1, 2**31 - 1)
NUMBERS = st.integers(0, 2**32 - 1)
HEADERS = st.dictionaries(
    st.text("abcdefghijklmnopqrstuvwxyz-", max_size=20),
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40),
    max_size=5,
)
FRAMES = st.one_of(
    st.builds(SynStream, IDS, HEADERS, st.booleans()),
    st.builds(SynReply, IDS, HEADERS, st.booleans()),
    st.builds(HeadersFrame, IDS, HEADERS, st.booleans()),
    st.builds(RstStream, IDS, NUMBERS),
    st.builds(Ping, NUMBERS),
    st.builds(GoAway, st.integers(0, 2**31 - 1), NUMBERS),
    st.builds(DataFrame, IDS, st.binary(max_size=100), st.booleans()),
)


def joined(frames: list[Frame]) -> list[Frame]:
    """The same frames with pieces of data put together again."""
    whole: list[Frame] = []
    is_open = False
    for frame in frames:
        if isinstance(frame, DataFrame) and is_open:
            before = whole.pop()
            assert isinstance(before, DataFrame)
            whole.append(DataFrame(frame.id, before.data + frame.data, frame.fin))
        else:
            whole.append(frame)
        is_open = isinstance(frame, DataFrame) and not frame.fin
    return whole


@settings(max_examples=60)
@given(st.lists(FRAMES, max_size=8), st.lists(st.integers(1, 40), min_size=1))
def test_frames_come_out_as_they_went_in_however_they_are_cut(frames: list[Frame], sizes: list[int]) -> None:
    """The network may split the frames into any pieces."""
    # Consecutive data of one stream looks like one piece, so each frame ends its stream here.
    frames = [DataFrame(one.id, one.data, fin=True) if isinstance(one, DataFrame) else one for one in frames]
    writer, reader = FrameWriter(), FrameReader()
    sent = b"".join(map(writer.write, frames))
    received: list[Frame] = []
    at = turn = 0
    while at < len(sent):
        size = sizes[turn % len(sizes)]
        received += reader.feed(sent[at : at + size])
        at, turn = at + size, turn + 1
    assert joined(received) == frames


def test_frames_have_the_bytes_of_the_specification() -> None:
    """Fixed fields are where every other program expects them."""
    writer = FrameWriter()
    assert writer.write(Ping(7)).hex() == "800300060000000400000007"
    assert writer.write(RstStream(5, 3)).hex() == "80030003000000080000000500000003"
    assert writer.write(GoAway(9)).hex() == "80030007000000080000000900000000"
    assert writer.write(DataFrame(3, b"hi", fin=True)).hex() == "00000003010000026869"
    syn = writer.write(SynStream(1, {"streamtype": "error"}, fin=True))
    assert syn[:18].hex() == f"80030001{0x01000000 | len(syn) - 8:08x}00000001000000000000"
    plain = zlib.decompressobj(zdict=DICTIONARY).decompress(syn[18:])
    assert plain == struct.pack(">II", 1, 10) + b"streamtype" + struct.pack(">I", 5) + b"error"


def test_dictionary_is_the_one_of_the_specification() -> None:
    """Its checksum is the one in compressed headers of Go programs."""
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_data_are_handed_on_before_their_frame_ends() -> None:
    """A frame of sixteen megabytes is not buffered."""
    reader = FrameReader()
    assert reader.feed(struct.pack(">II", 1, 0x01FFFFFF) + b"abc") == [DataFrame(1, b"abc")]
    assert reader.feed(b"def") == [DataFrame(1, b"def")]


def test_unknown_frames_are_ignored() -> None:
    """They are settings, window updates, and types of other versions."""
    frames = b"".join(struct.pack(">HHI", 0x8003, kind, 8) + bytes(8) for kind in (4, 9, 77))
    assert FrameReader().feed(frames + FrameWriter().write(Ping(1))) == [Ping(1)]


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n" * 2 + bytes(2**16),
        struct.pack(">II", 0, 1) + b"x",
        struct.pack(">HHI", 0x8002, 6, 4) + bytes(4),
        struct.pack(">HHI", 0x8003, 1, MAX_BLOCK_BYTES + 1),
        struct.pack(">HHI", 0x8003, 6, 2) + bytes(2),
        struct.pack(">HHI", 0x8003, 3, 8) + bytes(8),
        struct.pack(">HHI", 0x8003, 2, 8) + struct.pack(">I", 1) + b"zlib",
    ],
    ids=["data without end", "stream 0", "version 2", "too large", "too short", "reset of 0", "no headers"],
)
def test_invalid_frames_are_refused(sent: bytes) -> None:
    """The reader raises SpdyError, or returns data of streams that were never opened."""
    try:
        frames = FrameReader().feed(sent)
    except SpdyError:
        return
    assert all(isinstance(frame, DataFrame) for frame in frames)


@given(st.binary(max_size=300))
def test_reader_gives_frames_or_a_spdy_error(sent: bytes) -> None:
    """This holds for any bytes."""
    try:
        frames = FrameReader().feed(sent)
    except SpdyError:
        return
    assert isinstance(frames, list)


def test_headers_that_unpack_to_too_much_are_refused() -> None:
    """A small block cannot take all memory."""
    block = HeaderPacker().pack({"a": "x" * (MAX_BLOCK_BYTES * 2)})
    assert len(block) < 1000
    with pytest.raises(SpdyError, match="too large"):
        HeaderUnpacker().unpack(block)


def test_headers_that_are_cut_off_are_refused() -> None:
    """The block announces more than it holds."""
    packer = zlib.compressobj(zdict=DICTIONARY)
    block = packer.compress(struct.pack(">II", 5, 3) + b"abc") + packer.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(SpdyError, match="cut off"):
        HeaderUnpacker().unpack(block)


def test_data_too_large_for_one_frame_takes_several() -> None:
    """Only the last one ends the stream."""
    data = bytes(2**24 + 10)
    frames = FrameReader().feed(FrameWriter().write(DataFrame(1, data, fin=True)))
    assert frames == [DataFrame(1, data[: 2**24 - 1]), DataFrame(1, data[2**24 - 1 :], fin=True)]


def test_first_of_several_values_counts() -> None:
    """Values are separated by a zero byte."""
    block = HeaderPacker().pack({"Port": "80\x0081"})
    assert HeaderUnpacker().unpack(block) == {"port": "80"}
