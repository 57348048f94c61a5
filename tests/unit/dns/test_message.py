"""The wire format: what dnspython writes is read, what is written dnspython reads, and nothing else gets through."""

import struct
from ipaddress import IPv4Address

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pykubelet.dns.message import (
    CLASSIC_LIMIT,
    EDNS_LIMIT,
    MAX_MESSAGE,
    TO_QUESTION,
    MalformedMessage,
    Query,
    Rcode,
    RecordType,
    Sections,
    encode_name,
    expand_name,
    header_response,
    is_query,
    is_response_to,
    make_query,
    read_query,
    readdressed,
    record,
    records,
    respond,
)

LABELS = st.text("abcXYZ019-_", min_size=1, max_size=20)
NAMES = st.lists(LABELS, min_size=1, max_size=6).map(".".join)
ADDRESS = IPv4Address("192.0.2.1").packed


def asked(name: str = "web.test", type: str = "A", *, payload: int | None = None) -> Query:
    """A query with EDNS if a size is given."""
    edns = -1 if payload is None else 0
    return read_query(dns.message.make_query(name, type, use_edns=edns, payload=payload or 0).to_wire())


@settings(max_examples=100)
@given(name=NAMES, type=st.sampled_from(["A", "AAAA", "SRV", "PTR", "TXT"]), size=st.integers(0, 65_535))
def test_query_is_read_with_its_case_kept_for_the_response(name: str, type: str, size: int) -> None:
    message = dns.message.make_query(name, type, use_edns=0, payload=size)
    query = read_query(message.to_wire())
    assert query.name == encode_name(name)
    assert (query.id, query.type, query.klass) == (message.id, dns.rdatatype.from_text(type), 1)
    assert query.udp_limit == min(max(size, CLASSIC_LIMIT), EDNS_LIMIT)
    response = dns.message.from_wire(respond(query, Rcode.NOERROR, limit=MAX_MESSAGE, is_authority=True))
    assert response.question[0].name.to_text() == f"{name}."
    assert message.is_response(response)


@settings(max_examples=100)
@given(count=st.integers(0, 100), edns=st.booleans(), size=st.integers(512, 4096))
def test_response_says_when_records_are_missing_and_is_never_too_long(count: int, edns: bool, size: int) -> None:
    query = asked(payload=size if edns else None)
    rows = [record(TO_QUESTION, RecordType.A, 5, bytes((10, 0, 0, n))) for n in range(count)]
    data = respond(query, Rcode.NOERROR, Sections(rows), limit=query.udp_limit, is_authority=True)
    assert len(data) <= query.udp_limit
    found = dns.message.from_wire(data)
    kept = [one.address for one in found.answer[0]] if found.answer else []
    assert kept == [f"10.0.0.{n}" for n in range(len(kept))]
    assert bool(found.flags & dns.flags.TC) == (len(kept) < count)
    assert (found.edns >= 0) == edns


def test_additional_records_are_left_out_before_the_answer_is_cut() -> None:
    query = asked()
    rows = [record(TO_QUESTION, RecordType.A, 5, ADDRESS)] * 20
    data = respond(query, Rcode.NOERROR, Sections(rows, additional=rows), limit=512, is_authority=True)
    found = dns.message.from_wire(data)
    assert not found.flags & dns.flags.TC
    assert found.additional == []


@pytest.mark.parametrize("at", range(12, 44))
def test_every_incomplete_query_is_malformed(at: int) -> None:
    data = dns.message.make_query("web.default", "A", use_edns=0).to_wire()
    assert len(data) == 40
    if at < len(data):
        with pytest.raises(MalformedMessage):
            read_query(data[:at])
    else:
        with pytest.raises(MalformedMessage):
            read_query(data + bytes(at - len(data) + 1))


def test_queries_with_a_pointer_two_questions_or_answers_are_malformed() -> None:
    tail = struct.pack("!2H", 1, 1)
    good = b"\x03web\x00" + tail
    for counts, body in [
        ((1, 0, 0, 0), b"\xc0\x0c" + tail),
        ((2, 0, 0, 0), good + good),
        ((0, 0, 0, 0), b""),
        ((1, 1, 0, 0), good + b"\x00" + struct.pack("!HHIH", 1, 1, 5, 4) + ADDRESS),
        ((1, 0, 0, 0), b"\x3f" + b"a" * 63 + b"\x40" + b"b" * 64 + b"\x00" + tail),
        ((1, 0, 0, 0), (b"\x3f" + b"a" * 63) * 4 + b"\x00" + tail),
    ]:
        with pytest.raises(MalformedMessage):
            read_query(struct.pack("!6H", 7, 0x100, *counts) + body)
    assert read_query(struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + good).name == b"\x03web\x00"


@settings(max_examples=400)
@given(st.binary(max_size=120), st.booleans())
@example(b"", False)
@example(bytes(12), False)
def test_any_bytes_are_read_or_malformed(noise: bytes, with_header: bool) -> None:
    """Whatever arrives: a query, an error that the server knows, or nothing that deserves a response."""
    data = struct.pack("!6H", 1, 0x100, 1, 0, 0, 1) + noise if with_header else noise
    if not is_query(data):
        return
    try:
        query = read_query(data)
    except MalformedMessage:
        assert dns.message.from_wire(header_response(data, Rcode.FORMERR)).rcode() == dns.rcode.FORMERR
        return
    response = respond(query, Rcode.NXDOMAIN, limit=query.udp_limit, is_authority=True)
    assert response[:2] == data[:2]
    assert query.question in data


@settings(max_examples=300)
@given(st.binary(max_size=200), st.integers(0, 3), st.integers(0, 3))
def test_any_response_of_another_server_is_walked_or_malformed(noise: bytes, answers: int, others: int) -> None:
    """Neither pointers in a circle nor wrong sizes do harm, also not to names that are expanded."""
    query = asked()
    data = struct.pack("!6H", 7, 0x8180, 1, answers, others, 0) + query.question + noise
    try:
        for one in records(data):
            assert one.end <= len(data)
            assert len(expand_name(data, one.start)) <= 255
        assert len(readdressed(data, query, limit=512)) <= 512
    except MalformedMessage:
        return


def test_names_in_a_circle_are_malformed() -> None:
    with pytest.raises(MalformedMessage):
        expand_name(b"\x00" * 12 + b"\x01a\xc0\x0c", 12)
    with pytest.raises(MalformedMessage):
        expand_name(b"\x00" * 12 + b"\xc0\x0c", 12)


def test_only_the_response_to_the_question_counts() -> None:
    query = asked("Web.test")
    response = dns.message.make_response(dns.message.from_wire(make_query(77, query))).to_wire()
    assert is_response_to(response, 77, query)
    assert not is_response_to(response, 78, query)
    assert not is_response_to(response, 77, asked("web.test", "AAAA"))
    assert not is_response_to(response, 77, asked("other.test"))
    assert not is_response_to(make_query(77, query), 77, query)
    assert not is_response_to(b"", 77, query)


def test_response_of_another_server_becomes_the_clients() -> None:
    """It gets the client's ID, case and limit; the other server's OPT record and authority are not passed on."""
    query = asked("WEB.test", payload=600)
    other = dns.message.make_response(dns.message.make_query("web.test", "A", use_edns=0))
    other.answer = [dns.rrset.from_text("web.test.", 60, "IN", "A", *(f"192.0.2.{n}" for n in range(1, 60)))]
    other.flags |= dns.flags.AA
    whole = dns.message.from_wire(readdressed(other.to_wire(), query, limit=MAX_MESSAGE))
    assert (whole.id, whole.question[0].name.to_text(), len(whole.answer[0])) == (query.id, "WEB.test.", 59)
    assert whole.flags & (dns.flags.AA | dns.flags.RA | dns.flags.TC) == dns.flags.RA
    assert (whole.edns, whole.payload) == (0, EDNS_LIMIT)
    cut = readdressed(other.to_wire(), query, limit=query.udp_limit)
    assert len(cut) <= 600
    assert dns.message.from_wire(cut).flags & dns.flags.TC


@pytest.mark.parametrize("text", ["", ".", "a..b", f"{'a' * 64}.b", ".".join(["a" * 60] * 5)])
def test_impossible_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a domain name"):
        encode_name(text)
