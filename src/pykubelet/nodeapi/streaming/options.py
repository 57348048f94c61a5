"""What a request for exec, attach or port-forward asks for in its query.

Upstream: NewOptions and NewV4Options in staging/src/k8s.io/kubelet/pkg/cri/streaming/{remotecommand,portforward}
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pykubelet.api.validation.field_errors import go_quote
from pykubelet.nodeapi.replies import Refused

# Each port takes two channels, and the last of 256 means something else.
MAX_PORTS = 127

Query = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """Which streams the caller wants; a terminal has no errors of its own."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


def first(query: Query, name: str) -> str:
    """The first value of a parameter; empty if there is none."""
    return next((value for key, value in query if key == name), "")


def command_options(query: Query) -> CommandOptions:
    """The streams asked for; Refused if there are none."""
    tty = first(query, "tty") == "1"
    options = CommandOptions(
        stdin=first(query, "input") == "1",
        stdout=first(query, "output") == "1",
        stderr=first(query, "error") == "1" and not tty,
        tty=tty,
    )
    if not (options.stdin or options.stdout or options.stderr):
        raise Refused(400, "you must specify at least 1 of stdin, stdout, stderr")
    return options


def forward_ports(query: Query) -> tuple[int, ...]:
    """The ports that a WebSocket with channels is to carry; Refused if there are none."""
    values = [value for key, value in query if key == "port"]
    if not values:
        raise Refused(400, 'query parameter "port" is required')
    if "" in values:
        raise Refused(400, 'query parameter "port" cannot be empty')
    ports = tuple(_port(part, value) for value in values for part in value.split(","))
    if len(ports) > MAX_PORTS:
        raise Refused(400, f"at most {MAX_PORTS} ports can be forwarded over one WebSocket")
    return ports


def stream_port(text: str) -> int | None:
    """The port that a stream's header names; None if it names none."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 else 0
    return number if 0 < number < 2**16 else None


def _port(text: str, whole: str) -> int:
    port = stream_port(text)
    if port is None:
        what = "must be > 0" if text.strip("0") == "" and text else "cannot be parsed as a port"
        raise Refused(400, f"port {go_quote(whole)} {what}")
    return port
