"""Heads of answers that are passed on: which change the protocol, and how the others end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.proxy.heads import answer_bytes, asked_upgrade, changes_protocol, last_head

_NAMES = st.sampled_from(["Connection", "keep-alive", "Content-Length", "X-Connection", "Date"])
_HEADERS = st.lists(st.tuples(_NAMES, st.text("a:1 ", max_size=5)), max_size=6)


@pytest.mark.parametrize(
    ("head", "changes", "length"),
    [
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\n", True, None, id="agreed"),
        pytest.param(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 12 \r\n\r\n", False, 12, id="refused"),
        pytest.param(b"HTTP/1.1 200 101 OK\r\nX-Content-Length: 7\r\n\r\n", False, None, id="looks-alike"),
        pytest.param(b"HTTP/1.0 101 Sure\r\nContent-Length: -1\r\n\r\n", False, None, id="old"),
    ],
)
def test_answer_says_whether_it_changes_the_protocol_and_how_long_it_is(
    head: bytes, *, changes: bool, length: int | None
) -> None:
    """Only 101 of HTTP/1.1 changes anything; a length is one that stands there."""
    assert (changes_protocol(head), answer_bytes(head)) == (changes, length)


@given(_HEADERS)
def test_last_head_ends_the_connection_and_keeps_all_else(headers: list[tuple[str, str]]) -> None:
    """What the other side says of its connection is not what we say of ours."""
    lines = [f"{name}: {value}" for name, value in headers]
    head = "\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode()
    kept = [line for line in lines if not line.lower().startswith(("connection:", "keep-alive:"))]
    assert last_head(head).decode().split("\r\n") == ["HTTP/1.1 200 OK", *kept, "Connection: close", "", ""]


def test_upgrade_is_found_by_its_header_in_any_case() -> None:
    """Header names have no case."""
    assert asked_upgrade([("Host", "x"), ("uPGRADE", "websocket")]) == "websocket"
    assert asked_upgrade([("Connection", "Upgrade")]) == ""
