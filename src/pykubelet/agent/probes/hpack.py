"""As much of HPACK as one call needs: writes header fields plainly, reads those of an answer.

The other side is told to keep no dynamic table, so a field is an entry of the static table or literal. Of the static table
only `:status` matters; other fields from it are read without a name. Of Huffman codes those of printable characters are
known; a string with others, which no field of interest has, ends there. Pure.

RFC 7541; compared with another implementation in tests/unit/agent/probes/test_hpack.py
"""

from collections.abc import Iterable

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
