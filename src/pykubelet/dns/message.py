r"""The wire format of DNS: reads queries, assembles responses, walks those of other servers.

A name is kept as it is on the wire, in lower case: `b"\x03web\x07default\x00"`. Lower case is found without taking
labels apart, because the length of a label is never the code of a letter. A record is kept as it is sent, so an answer
is put together and never encoded. The name of an answer points to the question, which keeps the case of the query.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

HEADER_BYTES = 12
CLASSIC_LIMIT = 512
"""The largest UDP response to a client that does not say more."""
EDNS_LIMIT = 1232
"""The largest UDP response at all: fits into one packet of every IPv6 network (DNS flag day 2020)."""
MAX_MESSAGE = 65_535
TO_QUESTION = b"\xc0\x0c"
"""A compressed name: that of the question."""
ROOT = b"\x00"

QR, AA, TC, RD, RA, CD = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080, 0x0010
OPCODES, RCODES = 0x7800, 0x000F
_DNSSEC_OK = 0x8000
_MAX_NAME = 255
_MAX_LABEL = 63
# More pointers than labels fit into a name can only be a loop.
_MAX_POINTERS = 127
_HEADER = struct.Struct("!6H")
_QUESTION = struct.Struct("!HH")
_RECORD = struct.Struct("!HHIH")


class RecordType(IntEnum):
    """The types of records that this server knows."""

    A = 1
    NS = 2
    CNAME = 5
    SOA = 6
    PTR = 12
    TXT = 16
    AAAA = 28
    SRV = 33
    OPT = 41
    IXFR = 251
    AXFR = 252


class Rcode(IntEnum):
    """The response codes that this server sends."""

    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5
    BADVERS = 16


IN = 1
"""The class of the Internet."""


class MalformedMessage(ValueError):
    """Bytes that are no DNS message."""


class Query(NamedTuple):
    """One question of a client."""

    id: int
    flags: int
    question: bytes
    """As it was sent, for the response."""
    name: bytes
    type: int
    klass: int
    udp_bytes: int = 0
    """What the client accepts over UDP; 0 without EDNS."""
    edns_flags: int = 0
    edns_version: int = 0

    @property
    def udp_limit(self) -> int:
        """The largest response over UDP."""
        return max(CLASSIC_LIMIT, min(self.udp_bytes, EDNS_LIMIT))

    @property
    def opt(self) -> bytes:
        """The OPT record of the response; empty if the client does not use EDNS."""
        return _opt(self.edns_flags & _DNSSEC_OK) if self.udp_bytes else b""


class Sections(NamedTuple):
    """The records of a response, each as it is sent."""

    answer: Sequence[bytes] = ()
    authority: Sequence[bytes] = ()
    additional: Sequence[bytes] = ()


class RecordSpan(NamedTuple):
    """Where a record is in a message: its first byte, its type with what follows, its data, and the byte after it."""

    start: int
    head: int
    data: int
    end: int
    section: int
    """0 answer, 1 authority, 2 additional."""
    type: int
    ttl: int


def is_query(data: bytes) -> bool:
    """Whether bytes deserve a response: a complete header that is not one of a response."""
    return len(data) >= HEADER_BYTES and not data[2] & 0x80


def read_query(data: bytes) -> Query:
    """Reads a query with one question; raises MalformedMessage. Records other than OPT are checked and ignored."""
    id, flags, questions, answers, authorities, additionals = _HEADER.unpack_from(data)
    if questions != 1 or answers or authorities:
        raise MalformedMessage("not one question")
    end = _skip_labels(data, HEADER_BYTES)
    at = end + _QUESTION.size
    if at > len(data):
        raise MalformedMessage("incomplete question")
    type, klass = _QUESTION.unpack_from(data, end)
    query = Query(id, flags, data[HEADER_BYTES:at], data[HEADER_BYTES:end].lower(), type, klass)
    for _ in range(additionals):
        start, (at, kind, size, ttl) = at, _read_record(data, at)
        if kind == RecordType.OPT:
            if query.udp_bytes or data[start]:
                raise MalformedMessage("more than one OPT record, or one with a name")
            # At least the size without EDNS (RFC 6891).
            query = query._replace(
                udp_bytes=max(size, CLASSIC_LIMIT), edns_flags=ttl & 0xFFFF, edns_version=ttl >> 16 & 0xFF
            )
    if at != len(data):
        raise MalformedMessage("bytes after the message")
    return query


def respond(query: Query, rcode: int, sections: Sections = Sections(), *, limit: int, is_authority: bool) -> bytes:  # noqa: B008  immutable
    """A response of at most `limit` bytes; records that do not fit are left out, and the flag TC says so."""
    answer, authority, additional = sections
    flags = QR | RA | query.flags & (OPCODES | RD | CD) | (AA if is_authority else 0) | rcode & RCODES
    opt = query.opt if rcode <= RCODES else _opt(query.edns_flags & _DNSSEC_OK, rcode >> 4)
    room = limit - HEADER_BYTES - len(query.question) - len(opt)
    body = b"".join((*answer, *authority, *additional))
    if len(body) > room:
        # Additional records are only a courtesy, so nothing is missing without them.
        additional = ()
        fitting = list(_fitting((*answer, *authority), room))
        if len(fitting) < len(answer) + len(authority):
            flags |= TC
        answer, authority = answer[: len(fitting)], fitting[len(answer) :]
        body = b"".join(fitting)
    counts = (1, len(answer), len(authority), len(additional) + bool(opt))
    return b"".join((_HEADER.pack(query.id, flags, *counts), query.question, body, opt))


def opcode_of(data: bytes) -> int:
    """The operation of a query; 0 is a question."""
    return data[2] & OPCODES >> 8


def header_response(data: bytes, rcode: Rcode) -> bytes:
    """The response to a query whose question cannot be read or is of another operation: the header alone."""
    id, flags = struct.unpack_from("!2H", data)
    return _HEADER.pack(id, QR | RA | flags & (OPCODES | RD) | rcode, 0, 0, 0, 0)


def make_query(id: int, query: Query) -> bytes:
    """The message that asks another server a client's question, with none of the client's own options."""
    opt = _opt(query.edns_flags & _DNSSEC_OK) if query.udp_bytes else b""
    return _HEADER.pack(id, query.flags & (RD | CD), 1, 0, 0, bool(opt)) + query.question + opt


def is_response_to(data: bytes, id: int, query: Query) -> bool:
    """Whether a message responds to a question that was asked with this ID."""
    if len(data) < HEADER_BYTES:
        return False
    found, flags, questions = _HEADER.unpack_from(data)[:3]
    end = HEADER_BYTES + len(query.question)
    asked = data[HEADER_BYTES:end]
    return bool(
        found == id
        and flags & QR
        and questions == 1
        and asked[:-4].lower() == query.name
        and asked[-4:] == query.question[-4:]
    )


def records(data: bytes) -> Iterator[RecordSpan]:
    """The records of a response with one question; raises MalformedMessage."""
    counts = _HEADER.unpack_from(data)[3:]
    at = _skip_labels(data, HEADER_BYTES) + _QUESTION.size
    for section, count in enumerate(counts):
        for _ in range(count):
            start, head = at, _skip_name(data, at)
            at, kind, _, ttl = _read_record(data, start)
            yield RecordSpan(start, head, head + _RECORD.size, at, section, kind, ttl)


def readdressed(data: bytes, query: Query, *, limit: int) -> bytes:
    """The response of another server as the response to a query, cut to `limit` bytes between two records."""
    found = _HEADER.unpack_from(data)
    flags = found[1] & ~AA | RA
    counts = [0, 0, 0]
    end = HEADER_BYTES + len(query.question)
    for record in records(data):
        # The other server's OPT is about the way to it. Records after it are none that a client misses.
        if record.end + len(query.opt) > limit or record.type == RecordType.OPT:
            if record.section == 0:
                flags |= TC
            break
        counts[record.section] += 1
        end = record.end
    counts[2] += bool(query.opt)
    header = _HEADER.pack(query.id, flags, 1, *counts)
    return b"".join((header, query.question, data[HEADER_BYTES + len(query.question) : end], query.opt))


def expand_name(data: bytes, at: int) -> bytes:
    """The name at a place of a message, in lower case and without pointers; raises MalformedMessage."""
    labels: list[bytes] = []
    size, pointers = 1, 0
    try:
        while length := data[at]:
            if length > _MAX_LABEL:
                pointers += 1
                at = (length & 0x3F) << 8 | data[at + 1]
            else:
                labels.append(data[at : at + 1 + length])
                size, at = size + 1 + length, at + 1 + length
            if size > _MAX_NAME or pointers > _MAX_POINTERS:
                raise MalformedMessage("name without an end")
    except IndexError as error:
        raise MalformedMessage("incomplete name") from error
    return b"".join((*labels, ROOT)).lower()


def encode_name(text: str) -> bytes:
    """A name as it is on the wire, in lower case; raises ValueError if it has an impossible label."""
    labels = text.removesuffix(".").lower().encode("ascii").split(b".")
    if any(not 0 < len(label) <= _MAX_LABEL for label in labels) or len(text) > _MAX_NAME - 2:
        raise ValueError(f"{text!r} is not a domain name")
    return b"".join(bytes((len(label),)) + label for label in labels) + ROOT


def label(text: str) -> bytes:
    """One label of a name, in lower case; raises ValueError if it is impossible."""
    encoded = text.lower().encode("ascii")
    if not 0 < len(encoded) <= _MAX_LABEL:
        raise ValueError(f"{text!r} is not a label of a domain name")
    return bytes((len(encoded),)) + encoded


def parent(name: bytes) -> bytes:
    """The name without its first label; empty for the root."""
    return name[1 + name[0] :]


def record(owner: bytes, type: int, ttl: int, data: bytes) -> bytes:
    """A record as it is sent."""
    return owner + _RECORD.pack(type, IN, ttl, len(data)) + data


def reverse_name(address: IPv4Address | IPv6Address) -> bytes:
    """The name of an address' PTR record."""
    return encode_name(address.reverse_pointer)


def soa(primary: bytes, mailbox: bytes, serial: int, *, negative_ttl: int) -> bytes:
    """The data of a zone's SOA record; its other times are CoreDNS' and concern only transfers."""
    return primary + mailbox + struct.pack("!5I", serial, 7200, 1800, 86_400, negative_ttl)


def srv(port: int, target: bytes) -> bytes:
    """The data of an SRV record; all have the same priority and weight."""
    return struct.pack("!3H", 0, 100, port) + target


def _fitting(found: Sequence[bytes], room: int) -> Iterator[bytes]:
    for one in found:
        room -= len(one)
        if room < 0:
            return
        yield one


def _opt(flags: int, extended_rcode: int = 0) -> bytes:
    """An OPT record without options."""
    return ROOT + _RECORD.pack(RecordType.OPT, EDNS_LIMIT, extended_rcode << 24 | flags, 0)


def _read_record(data: bytes, at: int) -> tuple[int, int, int, int]:
    """The end of the record at a place, its type, class and TTL; raises MalformedMessage."""
    head = _skip_name(data, at)
    try:
        kind, klass, ttl, size = _RECORD.unpack_from(data, head)
    except struct.error as error:
        raise MalformedMessage("incomplete record") from error
    end = head + _RECORD.size + size
    if end > len(data):
        raise MalformedMessage("incomplete record")
    return end, kind, klass, ttl


def _skip_labels(data: bytes, at: int) -> int:
    """The place after a name without pointers; raises MalformedMessage."""
    last = at + _MAX_NAME
    try:
        while length := data[at]:
            at += length + 1
            if length > _MAX_LABEL or at >= last:
                raise MalformedMessage("impossible name")
    except IndexError as error:
        raise MalformedMessage("incomplete name") from error
    return at + 1


def _skip_name(data: bytes, at: int) -> int:
    """The place after a name; raises MalformedMessage."""
    try:
        while length := data[at]:
            if length >= 0xC0:
                return at + 2
            if length > _MAX_LABEL:
                raise MalformedMessage("impossible name")
            at += length + 1
    except IndexError as error:
        raise MalformedMessage("incomplete name") from error
    return at + 1
