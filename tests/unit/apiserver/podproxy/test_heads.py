"""Heads of proxied responses: which upgrade the protocol, and how the others end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.podproxy.handler import (
    body_length,
    closing_head,
    is_chunked,
    missing_slash,
    requested_upgrade,
    status_code,
)

_NAMES = st.sampled_from(["Connection", "keep-alive", "Content-Length", "X-Connection", "Date"])
_HEADERS = st.lists(st.tuples(_NAMES, st.text("a:1 ", max_size=5)), max_size=6)


@pytest.mark.parametrize(
    ("head", "code", "length", "chunked"),
    [
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\n", 101, None, False, id="agreed"),
        pytest.param(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 12 \r\n\r\n", 403, 12, False, id="refused"),
        pytest.param(b"HTTP/1.0 200 101 OK\r\nX-Content-Length: 7\r\n\r\n", 200, None, False, id="looks-alike"),
        pytest.param(b"HTTP/1.1 400\r\nTransfer-encoding: gzip, Chunked\r\n\r\n", 400, None, True, id="chunks"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: transfer-encoding: chunked\r\n\r\n", 200, None, False, id="no-chunks"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\nContent-Length: -1\r\n\r\n", 0, None, False, id="not-http"),
        pytest.param(b"HTTP/1.1 2000 Sure\r\n\r\n", 0, None, False, id="no-code"),
    ],
)
def test_response_head_gives_code_and_length(head: bytes, code: int, length: int | None, *, chunked: bool) -> None:
    """Only real headers count, not texts that resemble them."""
    assert (status_code(head), body_length(head), is_chunked(head)) == (code, length, chunked)


@given(_HEADERS)
def test_last_head_ends_the_connection_and_keeps_all_else(headers: list[tuple[str, str]]) -> None:
    """Connection headers of the other side are replaced by ours."""
    lines = [f"{name}: {value}" for name, value in headers]
    head = "\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode()
    kept = [line for line in lines if not line.lower().startswith(("connection:", "keep-alive:"))]
    assert closing_head(head).decode().split("\r\n") == ["HTTP/1.1 200 OK", *kept, "Connection: close", "", ""]


def test_root_of_what_is_proxied_ends_with_a_slash() -> None:
    """Browsers would resolve its relative links one level higher otherwise."""
    root = "/api/v1/namespaces/a/pods/b/proxy"
    assert missing_slash("GET", f"{root}?x=/") == f"{root}/?x=/"
    assert missing_slash("HEAD", root) == f"{root}/"
    assert missing_slash("GET", f"{root}/") == missing_slash("POST", root) == ""


def test_upgrade_needs_two_headers_in_any_case() -> None:
    """Header names are case-insensitive; either header alone requests no upgrade."""
    both = [("Host", "x"), ("uPGRADE", "websocket"), ("connection", "keep-alive, Upgrade")]
    assert requested_upgrade(both) == "websocket"
    assert requested_upgrade(both[:2]) == ""
    assert requested_upgrade([("Connection", "Upgrade")]) == ""
