"""What the page asks of the rest of the program, as narrow as its use."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from msgspec import Struct

from pykubelet.aio.broadcast import Subscription
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.resources import Resource
from pykubelet.api.wire import Document
from pykubelet.kube.client import Reader
from pykubelet.web.pod_row import Standing
from pykubelet.web.usage_history import Point, Reading

Write = Callable[[bytes], Awaitable[None]]
"""Sends a part of an answer; ConnectionError or TimeoutError if nobody takes it."""


class Unavailable(Exception):
    """What was asked for is not to be had; the message says why."""


class NodePod(NamedTuple):
    """A pod of this node with its newest status."""

    pod: Pod
    status: PodStatus
    standing: Standing


class NodeView(Protocol):
    """The pods of this node."""

    def keys(self) -> Iterable[str]:
        """All of them, as `namespace/name`."""

    def key_of(self, uid: str) -> str | None:
        """The key of a pod by its UID; None if it is not known."""

    def pod(self, key: str) -> NodePod | None:
        """A pod of this node; None if it is none of this node, or no more."""

    def sources(self) -> tuple["SourceState", ...]:
        """Where pods come from, and whether all of each are known."""


class SourceState(Struct, frozen=True, rename="camel"):
    """One source of pods."""

    name: str
    is_ready: bool


class SourceProblem(Protocol):
    """What is wrong with a manifest."""

    @property
    def where(self) -> str:
        """Which."""

    @property
    def message(self) -> str:
        """What."""


class Explanations(Protocol):
    """Why pods are where they are."""

    async def explain(self, namespace: str, name: str) -> Document | None:
        """What was decided about a pod and what it waits for; None if there is no such pod."""


class Probes(Protocol):
    """What probes found lately."""

    def findings(self, key: str) -> Iterable[Struct]:
        """The last findings of each probe of a pod."""


class LogOptions(NamedTuple):
    """Which log, and how much of its past."""

    namespace: str
    pod: str
    container: str
    previous: bool = False
    tail_lines: int = 500


class Logs(Protocol):
    """The logs of containers."""

    async def open(self, options: LogOptions) -> Callable[[Write], Awaitable[None]]:
        """What copies a log, and goes on as long as the container writes; Unavailable if there is none."""


class Measures(Protocol):
    """What pods use of the machine."""

    async def read(self) -> Mapping[str, Reading]:
        """A reading of every pod that runs, by key; Unavailable if nobody can tell."""


class Usage(Protocol):
    """What pods used lately."""

    def points(self, key: str) -> tuple[Point, ...]:
        """The last minutes of a pod."""


class Objects(Reader, Protocol):
    """What an API server has."""

    async def served(self) -> tuple[Resource, ...]:
        """Every resource whose objects can be listed."""


class LiveState(Protocol):
    """What all browsers show, and its changes."""

    def reading(self) -> AbstractContextManager[tuple[bytes, Subscription[bytes]]]:
        """Everything now, and what changes from now on."""

    def everything(self) -> bytes:
        """Everything now."""
