"""Headers of SPDY streams: a block of names and values, compressed with the dictionary everybody has.

One compressor and one decompressor serve a whole connection, so blocks have to pass in the order they were sent.

Upstream: the SPDY/3 draft, section 2.6.10, as github.com/moby/spdystream/spdy reads it.
"""

import struct
import zlib
from collections.abc import Mapping

# More than any client has to say about a stream; a small block can be made to unpack to anything.
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


class SpdyError(ValueError):
    """The other side does not speak SPDY/3.1; the connection cannot go on."""


def _sized(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


DICTIONARY = b"".join(_sized(word.replace("_", " ").encode()) for word in _WORDS.split()) + _TAIL.encode()

Headers = Mapping[str, str]
"""Names in lower case; of several values the first, which is all a stream here needs."""


class HeaderPacker:
    """Makes blocks of headers, for one connection."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(zdict=DICTIONARY)

    def pack(self, headers: Headers) -> bytes:
        """The block of these headers."""
        pairs = [_sized(name.lower().encode()) + _sized(value.encode()) for name, value in headers.items()]
        plain = struct.pack(">I", len(pairs)) + b"".join(pairs)
        return self._compressor.compress(plain) + self._compressor.flush(zlib.Z_SYNC_FLUSH)


class HeaderUnpacker:
    """Reads blocks of headers, for one connection."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(zdict=DICTIONARY)

    def unpack(self, block: bytes) -> dict[str, str]:
        """The headers of a block; SpdyError if it holds none."""
        try:
            plain = self._decompressor.decompress(block, MAX_BLOCK_BYTES)
        except zlib.error as error:
            raise SpdyError(f"headers cannot be unpacked: {error}") from error
        if self._decompressor.unconsumed_tail:
            raise SpdyError("headers are too large")
        try:
            return _headers(plain)
        except (struct.error, UnicodeDecodeError) as error:
            raise SpdyError("headers are cut off or no text") from error


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
        # Several values are kept apart by a zero byte.
        found.setdefault(name.decode().lower(), value.partition(b"\0")[0].decode())
    return found
