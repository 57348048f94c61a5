"""WebSocket messages between the client of an exec session and the node."""

import pytest

from pykubelet.api.serializer import encode
from pykubelet.client.websocket import (
    STDIN,
    V4,
    V5,
    ExecOutcome,
    end_of_input,
    message,
    read_exec_outcome,
    size_message,
)
from pykubelet.kubelet.server.streaming.remotecommand import SizeReader
from pykubelet.kubelet.server.streaming.session import SUCCESS, exit_status, failure_status
from pykubelet.kubelet.server.streaming.wsstream import ChannelMessage, ChannelProtocol, read_message


def test_node_parses_the_messages_of_the_client() -> None:
    """Data, terminal sizes and the end of input, which the older protocol cannot signal."""
    assert read_message(ChannelProtocol.V5, message(STDIN, b"hello")) == ChannelMessage(0, b"hello")
    assert read_message(ChannelProtocol.V5, end_of_input(V5) or b"") == ChannelMessage(0, b"", is_close=True)
    assert end_of_input(V4) is None
    (size,) = SizeReader().feed(size_message(80, 25)[1:])
    assert (size.columns, size.rows) == (80, 25)


@pytest.mark.parametrize(
    ("told", "ending"),
    [
        (encode(SUCCESS), ExecOutcome(0)),
        (encode(exit_status(["sh"], 137)), ExecOutcome(137)),
        (encode(failure_status("no such thing")), ExecOutcome(1, "Internal error occurred: no such thing")),
        (encode({"status": "Failure"}), ExecOutcome(1, "the command failed")),
        (
            encode({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [{"message": "x"}]}}),
            ExecOutcome(1, "the command failed"),
        ),
        (b"plain words", ExecOutcome(1, "plain words")),
        (b"[]", ExecOutcome(1, "[]")),
        (b"", ExecOutcome(1, "the connection ended before the command did")),
    ],
)
def test_outcome_is_read_from_the_status_of_the_node(told: bytes, ending: ExecOutcome) -> None:
    """An exit code, or the reason why there is none."""
    assert read_exec_outcome(told) == ending
