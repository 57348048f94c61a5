"""What a gRPC health check sends, and what the answer means.

Pure. The two messages of grpc.health.v1.Health/Check have one field each, so they are read and written here.
Upstream: pkg/probe/grpc/grpc.go
"""

from pykubelet.agent.probes.finding import Finding, State
from pykubelet.agent.probes.hpack import Field
from pykubelet.agent.probes.http2_call import Answer
from pykubelet.api.durations import format_duration
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.runtime.http_get import VERSION

_PATH = "/grpc.health.v1.Health/Check"
SERVING = 1
_STATUS_NAMES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
DEADLINE_EXCEEDED = 4
UNIMPLEMENTED = 12
_CODES = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
]


def request_fields(address: str, timeout_seconds: int) -> tuple[Field, ...]:
    """The header fields of the call."""
    return (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", _PATH),
        (":authority", address),
        ("content-type", "application/grpc"),
        ("user-agent", f"kube-probe/{VERSION}"),
        ("te", "trailers"),
        ("grpc-timeout", f"{timeout_seconds}S"),
    )


def request_message(service: str) -> bytes:
    """A HealthCheckRequest."""
    name = service.encode()
    return b"\x0a" + _varint(len(name)) + name if name else b""


def judge(answer: Answer, timeout_seconds: int) -> Finding:
    """What an answer means."""
    if answer.status == UNIMPLEMENTED:
        text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
        return Finding(State.FAILURE, text + answer.text)
    if answer.status == DEADLINE_EXCEEDED:
        return rpc_timeout(timeout_seconds)
    if answer.status:
        code = _CODES[answer.status] if answer.status < len(_CODES) else f"Code({answer.status})"
        return rpc_failure(code, answer.text)
    serving = serving_status(answer.message)
    if serving == SERVING:
        return Finding(State.SUCCESS, "service healthy")
    name = _STATUS_NAMES.get(serving, str(serving))
    return Finding(State.FAILURE, f"service unhealthy (responded with {go_quote(name)})")


def rpc_failure(code: str, text: str) -> Finding:
    """The call ended in an error."""
    return Finding(State.FAILURE, f"error: health rpc probe failed: rpc error: code = {code} desc = {text}")


def rpc_timeout(timeout_seconds: int) -> Finding:
    """The call took too long."""
    return Finding(State.FAILURE, f"timeout: health rpc did not complete within {format_duration(timeout_seconds)}")


def connect_timeout(address: str, timeout_seconds: int) -> Finding:
    """No gRPC server was reached in time."""
    within = f"within {format_duration(timeout_seconds)}: context deadline exceeded"
    return Finding(State.FAILURE, f"timeout: failed to connect service {go_quote(address)} {within}")


def serving_status(message: bytes) -> int:
    """The status in a HealthCheckResponse; 0 if it says nothing."""
    if message[:1] != b"\x08":
        return 0
    value = shift = 0
    for byte in message[1:]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    return value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))
