"""Asking a runtime's streaming server to speak SPDY, and reading how a command ended there.

Pure. Upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/spdy/roundtripper.go,
staging/src/k8s.io/client-go/tools/remotecommand/v4.go
"""

from urllib.parse import urlsplit

from pykubelet.api.wire import DecodeError, decode_document
from pykubelet.runtime.protocol import RuntimeFailure

COMMAND_PROTOCOL = "v4.channel.k8s.io"
PORT_PROTOCOL = "portforward.k8s.io"
HEAD_END = b"\r\n\r\n"
_SWITCHED = "101"


def upgrade_request(url: str, protocol: str) -> bytes:
    """The head of the request; there is no body."""
    parts = urlsplit(url)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    lines = (
        f"POST {target} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Connection: Upgrade",
        "Upgrade: SPDY/3.1",
        f"X-Stream-Protocol-Version: {protocol}",
        "Content-Length: 0",
    )
    return "\r\n".join(lines).encode() + HEAD_END


def refusal(head: bytes, protocol: str) -> str:
    """Why the server does not speak SPDY with us in this protocol; empty if it does."""
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if first.split(" ")[1:2] != [_SWITCHED]:
        return f"unable to upgrade connection: {first}"
    if fields.get("upgrade", "").upper() != "SPDY/3.1":
        return "unable to upgrade: missing upgrade headers in response"
    # Old servers name none when there is only one.
    agreed = fields.get("x-stream-protocol-version", protocol)
    return "" if agreed == protocol else f"unable to negotiate protocol: server answers with {agreed!r}"


def exit_code_of(told: bytes) -> int:
    """The exit code in what came on the error stream; RuntimeFailure if the command did not come that far."""
    try:
        status = decode_document(told)
        if status["status"] == "Success":
            return 0
        if status.get("reason") == "NonZeroExitCode":
            return next(int(cause["message"]) for cause in status["details"]["causes"] if cause["reason"] == "ExitCode")
        message = str(status["message"])
    except (DecodeError, KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        lost = "the connection to the container runtime was lost"
        raise RuntimeFailure(told.decode(errors="replace") or lost) from error
    raise RuntimeFailure(message)
