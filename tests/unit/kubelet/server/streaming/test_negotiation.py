"""Stream negotiation and messages: channels, terminal sizes, protocols, options, final status."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.httpserver.response import HttpError
from pykubelet.kubelet.server.streaming.negotiation import (
    Carrier,
    StreamProtocol,
    UpgradeOffer,
    agree_on_command,
    agree_on_forward,
    has_exit_codes,
    has_resizes,
    listed,
)
from pykubelet.kubelet.server.streaming.remotecommand import SizeReader
from pykubelet.kubelet.server.streaming.session import (
    SUCCESS,
    CommandOptions,
    TerminalSize,
    command_options,
    ending,
    exit_status,
    failure_status,
    forward_ports,
    stream_port,
)
from pykubelet.kubelet.server.streaming.wsstream import ChannelMessage, ChannelProtocol, read_message, write_message

V5, V4, TUNNEL = "v5.channel.k8s.io", "v4.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"


@given(st.sampled_from(ChannelProtocol), st.integers(0, 9), st.binary(max_size=50))
def test_messages_come_out_as_they_went_in(protocol: ChannelProtocol, channel: int, data: bytes) -> None:
    """In every protocol; the base64 protocols produce text."""
    message = write_message(protocol, channel, data)
    assert read_message(protocol, message) == ChannelMessage(channel, data)
    assert message.isascii() or not protocol.is_base64


def test_only_version_five_closes_channels() -> None:
    """The message is 0xff and the channel number; a bare 0xff is an error."""
    closing = ChannelMessage(0, b"", is_close=True)
    assert read_message(ChannelProtocol.V5, b"\xff\x00") == closing
    assert read_message(ChannelProtocol.V4, b"\xff\x00") == ChannelMessage(255, b"\x00")
    with pytest.raises(ValueError, match="one channel"):
        read_message(ChannelProtocol.V5, b"\xff")


def test_messages_without_meaning_are_passed_over() -> None:
    """Empty messages and invalid base64."""
    assert read_message(ChannelProtocol.V5, b"") is None
    assert read_message(ChannelProtocol.V4_BASE64, b"0?") is None


@given(st.lists(st.tuples(st.integers(0, 65535), st.integers(0, 65535)), max_size=4), st.integers(1, 10))
def test_sizes_come_out_however_they_are_cut(sizes: list[tuple[int, int]], step: int) -> None:
    """The input is a sequence of JSON objects, cut anywhere."""
    sent = "\n".join(json.dumps({"Width": columns, "Height": rows}) for columns, rows in sizes).encode()
    reader = SizeReader()
    found = [size for at in range(0, len(sent), step) for size in reader.feed(sent[at : at + step])]
    assert (found, reader.is_broken) == ([TerminalSize(*size) for size in sizes], False)


@pytest.mark.parametrize(
    "sent", [b"[80,24]", b"nonsense", b'{"Width":-1}', b'{"Width":true}', b'{"Width":"80"}', b'{"a":' * 2000]
)
def test_malformed_size_ends_the_sizes(sent: bytes) -> None:
    """Sizes before it are read, later ones are not."""
    reader = SizeReader()
    assert reader.feed(b'{"Width":1,"Height":2}' + sent) == [TerminalSize(1, 2)]
    assert reader.is_broken
    assert reader.feed(b'{"Width":3,"Height":4}') == []


def web_socket(*protocols: str) -> UpgradeOffer:
    return UpgradeOffer("Upgrade", "websocket", protocols, ())


def spdy(*protocols: str) -> UpgradeOffer:
    return UpgradeOffer("keep-alive, Upgrade", "SPDY/3.1", (), protocols)


@pytest.mark.parametrize(
    ("offer", "expected"),
    [
        (web_socket(V5), StreamProtocol(Carrier.CHANNELS, V5)),
        (web_socket("other", V4, V5), StreamProtocol(Carrier.CHANNELS, V4)),
        (web_socket(), StreamProtocol(Carrier.CHANNELS, "")),
        (web_socket("v4.base64.channel.k8s.io"), StreamProtocol(Carrier.CHANNELS, "v4.base64.channel.k8s.io")),
        (spdy(V5, V4), StreamProtocol(Carrier.SPDY, V4)),
        (spdy("v2.channel.k8s.io"), StreamProtocol(Carrier.SPDY, "v2.channel.k8s.io")),
    ],
)
def test_command_uses_the_first_supported_protocol(offer: UpgradeOffer, expected: StreamProtocol) -> None:
    """The order is that of the client."""
    assert agree_on_command(offer) == expected


@pytest.mark.parametrize(
    ("offer", "expected"),
    [
        (web_socket(V4, TUNNEL), StreamProtocol(Carrier.TUNNEL, TUNNEL)),
        (web_socket(V4), StreamProtocol(Carrier.CHANNELS, V4)),
        (spdy("portforward.k8s.io"), StreamProtocol(Carrier.SPDY, "portforward.k8s.io")),
    ],
)
def test_forward_prefers_tunnelled_spdy(offer: UpgradeOffer, expected: StreamProtocol) -> None:
    """It is preferred to channels."""
    assert agree_on_forward(offer) == expected


@pytest.mark.parametrize(
    ("offer", "code"),
    [
        (UpgradeOffer("", "", (), ()), 400),
        (UpgradeOffer("Upgrade", "h2c", (), (V4,)), 400),
        (spdy(), 400),
        (spdy("v9.channel.k8s.io"), 403),
        (web_socket("v9.channel.k8s.io"), 403),
    ],
    ids=["plain", "h2c", "no version", "unknown over spdy", "unknown over websocket"],
)
def test_unsupported_protocol_is_refused(offer: UpgradeOffer, code: int) -> None:
    """The status codes are upstream's."""
    for agree in (agree_on_command, agree_on_forward):
        with pytest.raises(HttpError) as refused:
            agree(offer)
        assert refused.value.reply.code == code


def test_refusal_names_the_supported_protocols() -> None:
    """The client can then choose again."""
    with pytest.raises(HttpError) as refused:
        agree_on_forward(spdy("x"))
    assert ("X-Accepted-Stream-Protocol-Versions", "portforward.k8s.io") in refused.value.reply.headers
    assert "client supports [x], server accepts [portforward.k8s.io]" in str(refused.value)


def test_abilities_follow_the_protocol() -> None:
    """Resizing needs version 3, exit codes version 4; a WebSocket always has a resize channel."""
    versions = [
        StreamProtocol(Carrier.SPDY, name) for name in ("channel.k8s.io", "v2.channel.k8s.io", "v3.channel.k8s.io", V4)
    ]
    assert [has_resizes(version) for version in versions] == [False, False, True, True]
    assert [has_exit_codes(version) for version in versions] == [False, False, False, True]
    assert has_resizes(StreamProtocol(Carrier.CHANNELS, ""))
    assert has_exit_codes(StreamProtocol(Carrier.CHANNELS, "v4.base64.channel.k8s.io"))


def test_lists_in_headers_are_taken_apart() -> None:
    """From several headers, or from one with commas."""
    assert listed(["a, b", "", "c,"]) == ("a", "b", "c")


def test_terminal_has_no_stderr_stream() -> None:
    """With a terminal, stderr is ignored; without any stream the request is rejected."""
    query = [("input", "1"), ("output", "1"), ("error", "1")]
    assert command_options(query) == CommandOptions(stdin=True, stdout=True, stderr=True)
    assert command_options([*query, ("tty", "1")]) == CommandOptions(stdin=True, stdout=True, tty=True)
    for nothing in ([], [("tty", "1"), ("error", "1")], [("output", "true")]):
        with pytest.raises(HttpError, match="at least 1 of stdin, stdout, stderr"):
            command_options(nothing)


def test_ports_of_a_query() -> None:
    """From several parameters, or from one with commas."""
    assert forward_ports([("port", "80,443"), ("other", "1"), ("port", "8080")]) == (80, 443, 8080)


@pytest.mark.parametrize("value", [None, "", "0", "65536", "-1", "http", "80,", "٣", ",".join(["80"] * 128)])
def test_invalid_ports_are_refused(value: str | None) -> None:
    """Missing, zero, too large, not a number, or too many."""
    with pytest.raises(HttpError) as refused:
        forward_ports([] if value is None else [("port", value)])
    assert refused.value.reply.code == 400


@given(st.integers(-10, 70000))
def test_port_of_a_stream_is_one_that_exists(number: int) -> None:
    """Ports are in the range from 1 to 65535."""
    assert stream_port(str(number)) == (number if 1 <= number <= 65535 else None)


def test_final_status_depends_on_the_protocol() -> None:
    """It is a Status with the exit code, or in older protocols a sentence."""
    status = exit_status(["sh", "-c", "exit 3"], 3)
    expected = {"causes": [{"reason": "ExitCode", "message": "3"}]}
    told = json.loads(ending(status, as_status=True))
    assert (told["status"], told["reason"], told["details"]) == ("Failure", "NonZeroExitCode", expected)
    assert b"exit code 3" in ending(status, as_status=False)
    assert json.loads(ending(exit_status(["true"], 0), as_status=True)) == {"metadata": {}, "status": "Success"}
    assert ending(SUCCESS, as_status=False) == b""
    assert json.loads(ending(failure_status("no"), as_status=True))["message"] == "Internal error occurred: no"
