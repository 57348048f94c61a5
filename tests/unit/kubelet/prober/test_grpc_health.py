"""gRPC health checks: the request and how the response is judged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.prober.grpc_probe import (
    UnaryResponse,
    connect_timeout,
    probe_result,
    request_message,
    serving_status,
)
from pykubelet.kubelet.prober.tcp_probe import ProbeAttempt, ProbeState

HEALTHY = ProbeAttempt(ProbeState.SUCCESS, "service healthy")


@pytest.mark.parametrize(
    ("answer", "state", "output"),
    [
        (UnaryResponse(0, "", b"\x08\x01"), ProbeState.SUCCESS, "service healthy"),
        (UnaryResponse(0, "", b""), ProbeState.FAILURE, 'service unhealthy (responded with "UNKNOWN")'),
        (UnaryResponse(0, "", b"\x08\x02"), ProbeState.FAILURE, 'service unhealthy (responded with "NOT_SERVING")'),
        (UnaryResponse(0, "", b"\x08\x03"), ProbeState.FAILURE, 'service unhealthy (responded with "SERVICE_UNKNOWN")'),
        (UnaryResponse(0, "", b"\x08\x81"), ProbeState.SUCCESS, "service healthy"),
        (UnaryResponse(0, "", b"\x08\x87\x01"), ProbeState.FAILURE, 'service unhealthy (responded with "135")'),
        (
            UnaryResponse(12, "unknown method", b""),
            ProbeState.FAILURE,
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown method",
        ),
        (UnaryResponse(4, "", b""), ProbeState.FAILURE, "timeout: health rpc did not complete within 1m30s"),
        (
            UnaryResponse(5, "unknown service", b""),
            ProbeState.FAILURE,
            "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service",
        ),
        (
            UnaryResponse(99, "", b""),
            ProbeState.FAILURE,
            "error: health rpc probe failed: rpc error: code = Code(99) desc = ",
        ),
    ],
)
def test_answer_is_judged_in_upstream_words(answer: UnaryResponse, state: ProbeState, output: str) -> None:
    """Only SERVING is healthy."""
    assert probe_result(answer, 90) == ProbeAttempt(state, output)


def test_unreached_server_is_a_failure_in_upstream_words() -> None:
    """The error is that of a connection timeout."""
    assert connect_timeout("[::1]:80", 1).output == (
        'timeout: failed to connect service "[::1]:80" within 1s: context deadline exceeded'
    )


@given(st.text(max_size=300), st.integers(0, 2**31 - 1))
def test_messages_have_one_field_with_a_length_or_a_number(service: str, status: int) -> None:
    """The service name is length-prefixed; a status of any size is decoded."""
    message = request_message(service)
    assert len(request_message("x" * 300)) == 1 + 2 + 300
    assert message.endswith(service.encode())
    assert bool(message) == bool(service)
    encoded, left = b"", status
    while left >= 128:
        encoded, left = encoded + bytes((left % 128 + 128,)), left // 128
    assert serving_status(b"\x08" + encoded + bytes((left,))) == status
