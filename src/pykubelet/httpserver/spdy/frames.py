"""Encodes and decodes SPDY/3.1 frames and header blocks.

A control frame is `1 version:15 type:16 flags:8 length:24` and its fields, a data frame `0 stream:31 flags:8 length:24`
and the data. Data is passed on as it arrives, without waiting for the end of its frame. One compressor and one decompressor
serve a whole connection, so header blocks must be processed in order. See the SPDY/3 draft, section 2, and
github.com/moby/spdystream, which upstream uses.
"""

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

PROTOCOL_ERROR = 1
REFUSED_STREAM = 3
CANCEL = 5
"""Reasons of a RST_STREAM."""
GONE_OK = 0
GONE_PROTOCOL_ERROR = 1
"""Reasons of a GOAWAY."""

_VERSION = 3
_CONTROL = 0x80000000
_FIN = 0x01
_ID_MASK = 0x7FFFFFFF
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_MAX_FRAME_BYTES = 2**24 - 1

# More than any client needs; limits what a small block can be decompressed to.
MAX_BLOCK_BYTES = 64 * 1024

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)

Headers = Mapping[str, str]
"""Names in lower case, each with its first value."""


class SpdyError(ValueError):
    """The other side does not speak SPDY/3.1; the connection must be closed."""


@dataclass(frozen=True, slots=True)
class SynStream:
    """Opens a stream; with `fin`, its opener will send nothing."""

    id: int
    headers: Headers = field(default_factory=dict)
    fin: bool = False


@dataclass(frozen=True, slots=True)
class SynReply:
    """Accepts a stream opened by the other side."""

    id: int
    headers: Headers = field(default_factory=dict)
    fin: bool = False


@dataclass(frozen=True, slots=True)
class HeadersFrame:
    """Headers of a stream that is open."""

    id: int
    headers: Headers = field(default_factory=dict)
    fin: bool = False


@dataclass(frozen=True, slots=True)
class RstStream:
    """Ends a stream in both directions."""

    id: int
    reason: int


@dataclass(frozen=True, slots=True)
class Ping:
    """A ping, to be returned by the other side."""

    id: int


@dataclass(frozen=True, slots=True)
class GoAway:
    """Announces that no more streams are accepted."""

    last_id: int
    reason: int = GONE_OK


@dataclass(frozen=True, slots=True)
class DataFrame:
    """Bytes of a stream; the last ones with `fin`."""

    id: int
    data: bytes
    fin: bool = False


Frame = SynStream | SynReply | HeadersFrame | RstStream | Ping | GoAway | DataFrame


class FrameWriter:
    """Encodes frames, which must be sent in this order."""

    def __init__(self) -> None:
        self._packer = HeaderPacker()

    def write(self, frame: Frame) -> bytes:
        """Encodes a frame, with its headers compressed."""
        match frame:
            case DataFrame():
                return _data(frame)
            case SynStream():
                # No associated stream, highest priority, no credential slot.
                fields = struct.pack(">IIH", frame.id, 0, 0) + self._packer.pack(frame.headers)
                return _control(_SYN_STREAM, fields, fin=frame.fin)
            case SynReply() | HeadersFrame():
                fields = struct.pack(">I", frame.id) + self._packer.pack(frame.headers)
                return _control(_SYN_REPLY if isinstance(frame, SynReply) else _HEADERS, fields, fin=frame.fin)
            case RstStream():
                return _control(_RST_STREAM, struct.pack(">II", frame.id, frame.reason))
            case Ping():
                return _control(_PING, struct.pack(">I", frame.id))
        return _control(_GOAWAY, struct.pack(">II", frame.last_id, frame.reason))


def _control(kind: int, fields: bytes, *, fin: bool = False) -> bytes:
    return struct.pack(">HHI", _VERSION | 0x8000, kind, int(fin) << 24 | len(fields)) + fields


def _data(frame: DataFrame) -> bytes:
    written = bytearray()
    rest = frame.data
    while len(rest) > _MAX_FRAME_BYTES:
        written += struct.pack(">II", frame.id, _MAX_FRAME_BYTES) + rest[:_MAX_FRAME_BYTES]
        rest = rest[_MAX_FRAME_BYTES:]
    written += struct.pack(">II", frame.id, int(frame.fin) << 24 | len(rest)) + rest
    return bytes(written)


class FrameReader:
    """Decodes frames from bytes as they arrive."""

    def __init__(self) -> None:
        self._unpacker = HeaderUnpacker()
        self._buffer = bytearray()
        self._data: DataFrame | None = None
        """The data frame that is being received: its stream and `fin`."""
        self._missing = 0

    def feed(self, received: bytes) -> list[Frame]:
        """The frames that are complete now, and all data received so far. SpdyError if this is not SPDY/3.1."""
        self._buffer += received
        frames: list[Frame] = []
        while self._take_data(frames) or self._take_frame(frames):
            pass
        return frames

    def _take_data(self, frames: list[Frame]) -> bool:
        if self._data is None:
            return False
        piece = bytes(self._buffer[: self._missing])
        del self._buffer[: len(piece)]
        self._missing -= len(piece)
        is_whole = self._missing == 0
        if piece or is_whole:
            frames.append(DataFrame(self._data.id, piece, fin=self._data.fin and is_whole))
        if is_whole:
            self._data = None
        return is_whole

    def _take_frame(self, frames: list[Frame]) -> bool:
        if self._data is not None or len(self._buffer) < 8:
            return False
        first, second = struct.unpack_from(">II", self._buffer)
        flags, size = second >> 24, second & 0xFFFFFF
        if not first & _CONTROL:
            if first == 0:
                raise SpdyError("data of stream 0")
            del self._buffer[:8]
            self._data, self._missing = DataFrame(first, b"", fin=bool(flags & _FIN)), size
            return True
        if first >> 16 & 0x7FFF != _VERSION:
            raise SpdyError("not SPDY version 3")
        if size > MAX_BLOCK_BYTES:
            raise SpdyError("control frame is too large")
        if len(self._buffer) < 8 + size:
            return False
        fields = bytes(self._buffer[8 : 8 + size])
        del self._buffer[: 8 + size]
        try:
            frame = self._control_frame(first & 0xFFFF, fields, fin=bool(flags & _FIN))
        except struct.error as error:
            raise SpdyError("control frame is too short") from error
        if frame is not None:
            frames.append(frame)
        return True

    def _control_frame(self, kind: int, fields: bytes, *, fin: bool) -> Frame | None:
        if kind in _WITH_HEADERS:
            make, skip = _WITH_HEADERS[kind]
            headers = self._unpacker.unpack(fields[skip:])
            return make(_stream_id(fields), headers, fin)
        if kind == _RST_STREAM:
            return RstStream(_stream_id(fields), struct.unpack_from(">I", fields, 4)[0])
        if kind == _PING:
            return Ping(*struct.unpack_from(">I", fields))
        if kind == _GOAWAY:
            last_id, reason = struct.unpack_from(">II", fields)
            return GoAway(last_id & _ID_MASK, reason)
        # Ignores SETTINGS and WINDOW_UPDATE, because Kubernetes clients use no flow control, and unknown frames.
        return None


_WITH_HEADERS: Mapping[int, tuple[Callable[[int, Headers, bool], Frame], int]] = {
    _SYN_STREAM: (SynStream, 10),
    _SYN_REPLY: (SynReply, 4),
    _HEADERS: (HeadersFrame, 4),
}


def _stream_id(fields: bytes) -> int:
    stream_id: int = struct.unpack_from(">I", fields)[0] & _ID_MASK
    if stream_id == 0:
        raise SpdyError("stream 0")
    return stream_id


def _sized(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


DICTIONARY = b"".join(_sized(word.replace("_", " ").encode()) for word in _WORDS.split()) + _TAIL.encode()


class HeaderPacker:
    """Encodes header blocks of one connection."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(zdict=DICTIONARY)

    def pack(self, headers: Headers) -> bytes:
        """Encodes headers as a block."""
        pairs = [_sized(name.lower().encode()) + _sized(value.encode()) for name, value in headers.items()]
        plain = struct.pack(">I", len(pairs)) + b"".join(pairs)
        return self._compressor.compress(plain) + self._compressor.flush(zlib.Z_SYNC_FLUSH)


class HeaderUnpacker:
    """Decodes header blocks of one connection."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(zdict=DICTIONARY)

    def unpack(self, block: bytes) -> dict[str, str]:
        """Decodes a block; SpdyError if it is malformed."""
        try:
            plain = self._decompressor.decompress(block, MAX_BLOCK_BYTES)
        except zlib.error as error:
            raise SpdyError(f"headers cannot be decompressed: {error}") from error
        if self._decompressor.unconsumed_tail:
            raise SpdyError("headers are too large")
        try:
            return _headers(plain)
        except (struct.error, UnicodeDecodeError) as error:
            raise SpdyError("headers are cut off or not UTF-8") from error


def _headers(plain: bytes) -> dict[str, str]:
    (count,) = struct.unpack_from(">I", plain)
    at = 4
    found: dict[str, str] = {}
    for _ in range(count):
        texts = []
        for _ in ("name", "value"):
            (size,) = struct.unpack_from(">I", plain, at)
            (text,) = struct.unpack_from(f"{min(size, MAX_BLOCK_BYTES)}s", plain, at + 4)
            texts.append(text)
            at += 4 + size
        name, value = texts
        # Values are separated by zero bytes.
        found.setdefault(name.decode().lower(), value.partition(b"\0")[0].decode())
    return found
