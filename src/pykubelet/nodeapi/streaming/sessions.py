"""What a request for exec, attach or port-forward has become, once it is allowed and possible."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pykubelet.api.wire import Document
from pykubelet.nodeapi.streaming.console import ByteSink, ByteSource, Console
from pykubelet.nodeapi.streaming.options import CommandOptions


@dataclass(frozen=True, slots=True)
class CommandSession:
    """A command, or the streams of a container, to be connected with a caller."""

    options: CommandOptions
    tty: bool
    """Whether there is a terminal; for attach the container decides that."""
    run: Callable[[Console], Awaitable[Document]]
    """Does it, and gives the Status that says how it ended. ConnectionError if the caller is gone."""


@dataclass(frozen=True, slots=True)
class ForwardSession:
    """Ports of a pod to be connected with a caller."""

    ports: tuple[int, ...]
    """For a WebSocket with channels; otherwise each stream names its own."""
    forward: Callable[[int, ByteSource, ByteSink], Awaitable[str]]
    """Connects one port until the end, and gives what went wrong, if anything. ConnectionError if either side broke off."""
