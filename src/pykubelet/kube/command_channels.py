"""What passes over the channels of a WebSocket between a command in a container and whoever runs it.

In: bytes for a channel, sizes of a terminal. Out: messages; and from the last message how the command ended.

Upstream: client-go/tools/remotecommand/{websocket,v4,v5}.go.
"""

from dataclasses import dataclass

from pykubelet.api.wire import DecodeError, decode_document, encode

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"
PROTOCOLS = (V5, V4)
"""Only the newer one can tell that there is no more input."""
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
_CLOSE = 255


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended: with an exit code, or not as it should, for a reason."""

    exit_code: int
    failure: str = ""


def message(channel: int, data: bytes) -> bytes:
    """Data for a channel."""
    return bytes([channel]) + data


def size_message(columns: int, rows: int) -> bytes:
    """How large the terminal is."""
    return message(RESIZE, encode({"Width": columns, "Height": rows}))


def end_of_input(protocol: str) -> bytes | None:
    """That no more input comes; None if the protocol has no word for it."""
    return bytes([_CLOSE, STDIN]) if protocol == V5 else None


def read_ending(data: bytes) -> Ending:
    """How a command ended, by what came on the error channel."""
    try:
        status = decode_document(data)
    except DecodeError:
        status = None
    if not isinstance(status, dict):
        return Ending(1, data.decode(errors="replace") or "the connection ended before the command did")
    if status.get("status") == "Success":
        return Ending(0)
    for cause in (status.get("details") or {}).get("causes") or ():
        code = str(cause.get("message", ""))
        if status.get("reason") == "NonZeroExitCode" and cause.get("reason") == "ExitCode" and code.isdecimal():
            return Ending(int(code))
    return Ending(1, str(status.get("message") or "the command failed"))
