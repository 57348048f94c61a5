"""Protocols beside CRI: containerd's events, and connections to the runtime's streams."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.runtimes.cri.events import ContainerdEvent, read_containerd_event, subscription
from pykubelet.runtimes.cri.streaming import PORT_PROTOCOL, exit_code_of, upgrade_refusal, upgrade_request
from pykubelet.runtimes.protocol import RuntimeFailure


def varint(number: int) -> bytes:
    if number < 0x80:
        return bytes([number])
    return bytes([number & 0x7F | 0x80]) + varint(number >> 7)


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def envelope(topic: str, id: str, more: bytes = b"") -> bytes:
    event = field(1, id.encode()) + more
    any_event = field(1, b"containerd.events.TaskDelete") + field(2, event)
    # A timestamp: seconds as a varint, and nanoseconds.
    time = field(1, varint(1 << 3) + varint(1_700_000_000) + varint(2 << 3) + varint(5))
    return time + field(2, b"k8s.io") + field(3, topic.encode()) + field(4, any_event)


@settings(max_examples=50)
@given(topic=st.text(max_size=200), id=st.text(max_size=300), number=st.integers(0, 2**64 - 1))
def test_event_is_read_whatever_else_it_holds(topic: str, id: str, number: int) -> None:
    """Varints of any size and unknown fields are skipped."""
    more = varint(3 << 3) + varint(number) + varint(9 << 3 | 1) + bytes(8) + varint(10 << 3 | 5) + bytes(4)
    assert read_containerd_event(envelope(topic, id, more)) == ContainerdEvent(topic, id)


@settings(max_examples=200)
@given(st.binary(max_size=60) | st.builds(lambda cut: envelope("/tasks/delete", "x" * 64)[:cut], st.integers(0, 130)))
def test_malformed_event_is_a_value_error(data: bytes) -> None:
    """Any bytes give an event or a ValueError."""
    try:
        found = read_containerd_event(data)
    except ValueError:
        return
    assert isinstance(found, ContainerdEvent)


def test_number_without_an_end_is_no_event() -> None:
    """Decoding stops instead of reading on."""
    with pytest.raises(ValueError, match="too long"):
        read_containerd_event(b"\xff" * 20)


def test_subscription_is_one_filter() -> None:
    """Its length fits in one byte."""
    data = subscription()
    assert (data[0], data[1]) == (0x0A, len(data) - 2)
    assert data[1] < 0x80
    assert b"namespace==k8s.io" in data


def test_request_asks_for_spdy() -> None:
    """It goes to the address that the runtime returned."""
    lines = upgrade_request("http://127.0.0.1:1234/exec/abc?x=1", "v4.channel.k8s.io").decode().split("\r\n")
    assert lines[0] == "POST /exec/abc?x=1 HTTP/1.1"
    assert {"Host: 127.0.0.1:1234", "Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io"} <= set(lines)
    assert upgrade_request("http://h", "p").startswith(b"POST / HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        (f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {PORT_PROTOCOL}", ""),
        ("HTTP/1.1 101 Switching Protocols\r\nupgrade: spdy/3.1", ""),
        ("HTTP/1.1 404 Not Found\r\n", "unable to upgrade connection: HTTP/1.1 404 Not Found"),
        ("HTTP/1.1 101 OK\r\nUpgrade: websocket", "missing upgrade headers"),
        ("HTTP/1.1 101 OK\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: other", "server answers with 'other'"),
        ("", "unable to upgrade connection"),
    ],
    ids=["agreed", "silently agreed", "refused", "other protocol", "other version", "nothing"],
)
def test_answer_is_checked(head: str, problem: str) -> None:
    """The response is checked before data is sent."""
    found = upgrade_refusal(f"{head}\r\n\r\n".encode(), PORT_PROTOCOL)
    assert problem in found
    assert bool(found) is bool(problem)


def test_exit_code_is_in_the_status() -> None:
    """A status of Success means zero."""
    assert exit_code_of(b'{"metadata":{},"status":"Success"}') == 0
    causes = b'{"causes":[{"reason":"ExitCode","message":"7"}]}'
    assert exit_code_of(b'{"status":"Failure","reason":"NonZeroExitCode","details":' + causes + b"}") == 7


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (b'{"status":"Failure","reason":"InternalError","message":"no such program"}', "no such program"),
        (b"", "the connection to the container runtime was lost"),
        (b"plain words", "plain words"),
        (b"[]", r"\[\]"),
        (b'{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[]}}', "NonZeroExitCode"),
    ],
    ids=["internal error", "lost", "words", "other", "no code"],
)
def test_command_that_did_not_come_to_its_end_is_a_failure(told: bytes, message: str) -> None:
    """The message is the runtime's."""
    with pytest.raises(RuntimeFailure, match=message):
        exit_code_of(told)
