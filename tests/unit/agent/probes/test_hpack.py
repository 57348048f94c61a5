"""Header blocks, compared with another implementation."""

import string
from contextlib import suppress

import hpack as other
import pytest
from hpack.table import HeaderTable
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.kubelet.prober.grpc_probe import HpackError, decode, encode

NAMES = st.text(string.ascii_lowercase + string.digits + "-_.", min_size=1, max_size=20)
VALUES = st.text(string.printable.strip(), max_size=200)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=8)
STATIC_NAMES = {name.decode() for name, _ in HeaderTable.STATIC_TABLE}


@settings(max_examples=100)
@given(FIELDS, st.booleans())
def test_what_another_implementation_writes_is_read(fields: list[tuple[str, str]], huffman: bool) -> None:
    """With and without Huffman codes, as long as there is no dynamic table; static names are not known here."""
    encoder = other.Encoder()
    encoder.header_table_size = 0
    expected = tuple(("" if name in STATIC_NAMES else name, value) for name, value in fields)
    assert decode(encoder.encode(fields, huffman=huffman)) == expected


@settings(max_examples=100)
@given(FIELDS)
def test_what_is_written_another_implementation_reads(fields: list[tuple[str, str]]) -> None:
    """Plain literals, of any length."""
    decoder = other.Decoder(max_header_list_size=2**20)
    assert [(str(name), str(value)) for name, value in decoder.decode(encode(fields))] == fields


@pytest.mark.parametrize("length", [0, 126, 127, 128, 254, 255, 256, 20_000])
def test_long_values_are_written_and_read(length: int) -> None:
    """The length of a string takes as many bytes as it needs."""
    assert decode(encode([("a", "x" * length)])) == (("a", "x" * length),)


@pytest.mark.parametrize("status", ["200", "204", "404", "500", "302"])
def test_status_is_known_whether_indexed_or_not(status: str) -> None:
    """Common values of `:status` are entries of the static table, others are literals with its name."""
    encoder = other.Encoder()
    encoder.header_table_size = 0
    assert decode(encoder.encode([(":status", status)])) == ((":status", status),)


@pytest.mark.parametrize(
    "block",
    [
        b"\xbe",
        b"\x80",
        b"\x3f\xe1\x1f",
        b"\x00",
        b"\x00\x05ab",
        b"\x00\x01a",
        b"\xff\xff\xff\xff\xff",
        b"\x00\x01a\x7f",
    ],
    ids=["dynamic entry", "entry 0", "dynamic table", "no name", "short name", "no value", "long number", "cut number"],
)
def test_bad_block_is_refused(block: bytes) -> None:
    """No other error than our own."""
    with pytest.raises(HpackError):
        decode(block)


@settings(max_examples=200)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(block: bytes) -> None:
    """Nothing a server sends is a crash."""
    with suppress(HpackError):
        assert isinstance(decode(block), tuple)
