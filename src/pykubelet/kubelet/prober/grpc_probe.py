"""Probes a container with one call of the gRPC health protocol, over a new connection.

h2 speaks HTTP/2; it is imported with the first gRPC probe (docs/decisions/0009). The two messages of
grpc.health.v1.Health/Check have one field each and are encoded here. As upstream does, the probe dials again until its
timeout as long as no gRPC server answers.

Upstream: pkg/probe/grpc/grpc.go
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pykubelet.api.field_errors import go_quote
from pykubelet.api.times import format_duration
from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.http_client import KUBERNETES_VERSION
from pykubelet.httpserver.http_failure import dial_failure, host_port
from pykubelet.kubelet.prober.tcp_probe import ProbeAttempt, ProbeState, opened

if TYPE_CHECKING:
    from h2.events import Event

Field = tuple[str, str]

_PATH = "/grpc.health.v1.Health/Check"
_SERVING = 1
_SERVING_STATUS_NAMES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_DEADLINE_EXCEEDED = 4
_UNIMPLEMENTED = 12
_CODE_NAMES = [
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
_FRAME_HEADER_BYTES = 9
_SETTINGS_FRAME = 4
_GOAWAY_FRAME = 7
# SETTINGS_MAX_FRAME_SIZE of a client that does not set it.
_MAX_FRAME_BYTES = 16384
# Far more than any health check responds.
_MAX_RESPONSE_BYTES = 2**16
_STREAM = 1
# Before dialling again.
_PAUSE_SECONDS = 1.0


async def probe_grpc(
    host: str, port: int, service: str, timeout_seconds: int, dialer: Dialer | None = None
) -> ProbeAttempt:
    """Call the health service; succeed if it responds that the given service is serving."""
    address = host_port(host, port)
    call = UnaryCall(request_fields(address, timeout_seconds), request_message(service))
    try:
        async with asyncio.timeout(timeout_seconds):
            while True:
                try:
                    async with opened(host, port, dialer or Dialer()) as (reader, writer):
                        return probe_result(await _response(call, reader, writer), timeout_seconds)
                except (GrpcCallError, OSError) as error:
                    if call.is_connected:
                        cause = dial_failure(host, port, error) if isinstance(error, OSError) else str(error)
                        return rpc_failure("Unavailable", cause)
                await asyncio.sleep(_PAUSE_SECONDS)
                call = UnaryCall(request_fields(address, timeout_seconds), request_message(service))
    except TimeoutError:
        return rpc_timeout(timeout_seconds) if call.is_connected else connect_timeout(address, timeout_seconds)


async def _response(call: "UnaryCall", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> "UnaryResponse":
    writer.write(call.opening)
    while call.response is None:
        data = await reader.read(2**14)
        if not data:
            raise GrpcCallError("error reading from server: EOF")
        writer.write(call.receive(data))
    return call.response


class GrpcCallError(Exception):
    """The server does not speak HTTP/2 or gRPC, or it ended the call; the message says how."""


@dataclass(frozen=True, slots=True)
class UnaryResponse:
    """The gRPC status of a call, the server's message for it, and the encoded response if there is one."""

    status: int
    text: str
    message: bytes


class UnaryCall:
    """One gRPC call with one message each way, without a network: bytes received in, bytes to send out."""

    def __init__(self, headers: Sequence[Field], message: bytes) -> None:
        from h2.config import H2Configuration
        from h2.connection import H2Connection

        self._connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._connection.initiate_connection()
        self._connection.send_headers(_STREAM, headers)
        self._connection.send_data(_STREAM, b"\x00" + len(message).to_bytes(4) + message, end_stream=True)
        self.opening: bytes = self._connection.data_to_send()
        """What to send first: preface, settings, headers and message."""
        self.is_connected = False
        """Whether the server has sent its HTTP/2 settings."""
        self.response: UnaryResponse | None = None
        self._buffer = b""
        self._received = 0
        self._fields: dict[str, str] = {}
        self._body = b""

    def receive(self, data: bytes) -> bytes:
        """Process received bytes and return the bytes to send in reply; raises GrpcCallError."""
        from h2.exceptions import H2Error

        self._buffer += data
        self._received += len(data)
        if self._received > _MAX_RESPONSE_BYTES:
            raise GrpcCallError("the response is too large")
        try:
            while self.response is None and (frame := self._next_frame()):
                for event in self._connection.receive_data(frame):
                    self._handle(event)
        except (H2Error, ValueError) as error:
            raise GrpcCallError(str(error)) from error
        return self._connection.data_to_send()

    def _next_frame(self) -> bytes:
        """The next complete frame for h2; empty if there is none yet.

        A GOAWAY that still covers our stream is dropped, because h2 would close the connection: a server that shuts
        down gracefully sends it and then the response.
        """
        while len(self._buffer) >= _FRAME_HEADER_BYTES:
            length, kind = int.from_bytes(self._buffer[:3]), self._buffer[3]
            if length > _MAX_FRAME_BYTES or not (self.is_connected or kind == _SETTINGS_FRAME):
                raise GrpcCallError("error reading server preface: http2: frame too large or not expected")
            end = _FRAME_HEADER_BYTES + length
            if len(self._buffer) < end:
                break
            frame, self._buffer = self._buffer[:end], self._buffer[end:]
            if kind != _GOAWAY_FRAME:
                return frame
            if int.from_bytes(frame[_FRAME_HEADER_BYTES:][:4]) & 0x7FFFFFFF < _STREAM:
                raise GrpcCallError("the server is going away")
        return b""

    def _handle(self, event: "Event") -> None:
        from h2 import events

        match event:
            case events.RemoteSettingsChanged():
                self.is_connected = True
            case events.ResponseReceived() | events.TrailersReceived():
                self._fields |= {str(name): str(value) for name, value in event.headers}
            case events.DataReceived():
                self._body += event.data
            case events.StreamEnded():
                self._finish()
            case events.StreamReset():
                raise GrpcCallError(f"stream terminated by RST_STREAM with error code: {int(event.error_code)}")

    def _finish(self) -> None:
        status = self._fields.get("grpc-status", "")
        if not status.isdecimal():
            http = self._fields.get(":status", "")
            raise GrpcCallError(f"unexpected HTTP status code received from server: {http}")
        length = int.from_bytes(self._body[1:5])
        message = self._body[5 : 5 + length] if self._body[:1] == b"\x00" else b""
        self.response = UnaryResponse(int(status), unquote(self._fields.get("grpc-message", "")), message)


def request_fields(address: str, timeout_seconds: int) -> tuple[Field, ...]:
    return (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", _PATH),
        (":authority", address),
        ("content-type", "application/grpc"),
        ("user-agent", f"kube-probe/{KUBERNETES_VERSION}"),
        ("te", "trailers"),
        ("grpc-timeout", f"{timeout_seconds}S"),
    )


def request_message(service: str) -> bytes:
    name = service.encode()
    return b"\x0a" + _varint(len(name)) + name if name else b""


def probe_result(answer: UnaryResponse, timeout_seconds: int) -> ProbeAttempt:
    if answer.status == _UNIMPLEMENTED:
        text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
        return ProbeAttempt(ProbeState.FAILURE, text + answer.text)
    if answer.status == _DEADLINE_EXCEEDED:
        return rpc_timeout(timeout_seconds)
    if answer.status:
        code = _CODE_NAMES[answer.status] if answer.status < len(_CODE_NAMES) else f"Code({answer.status})"
        return rpc_failure(code, answer.text)
    serving = serving_status(answer.message)
    if serving == _SERVING:
        return ProbeAttempt(ProbeState.SUCCESS, "service healthy")
    name = _SERVING_STATUS_NAMES.get(serving, str(serving))
    return ProbeAttempt(ProbeState.FAILURE, f"service unhealthy (responded with {go_quote(name)})")


def rpc_failure(code: str, text: str) -> ProbeAttempt:
    return ProbeAttempt(ProbeState.FAILURE, f"error: health rpc probe failed: rpc error: code = {code} desc = {text}")


def rpc_timeout(timeout_seconds: int) -> ProbeAttempt:
    return ProbeAttempt(
        ProbeState.FAILURE, f"timeout: health rpc did not complete within {format_duration(timeout_seconds)}"
    )


def connect_timeout(address: str, timeout_seconds: int) -> ProbeAttempt:
    """The result if no gRPC server answered within the timeout."""
    within = f"within {format_duration(timeout_seconds)}: context deadline exceeded"
    return ProbeAttempt(ProbeState.FAILURE, f"timeout: failed to connect service {go_quote(address)} {within}")


def serving_status(message: bytes) -> int:
    """The serving status of a HealthCheckResponse; 0 if it has none."""
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
