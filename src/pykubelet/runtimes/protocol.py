"""What a node asks of whatever runs its containers: the door to a node of your own in Python.

A pod is a sandbox (what its containers share) and containers in it. The node decides what to start and stop
(`plan.py`); a runtime only does it, and tells what exists. Calls may be made for many pods at once; each does one thing,
may take its time, and raises `RuntimeFailure` if it cannot. What the runtime started outlives the node's process:
after a restart the node asks `pods` and goes on from there.

A runtime may offer more than `Runtime`: `Images` if it has any to pull, `ChangeFeed` to say what changed instead of being
asked every second, `Commands` and `Streams` for exec, attach and port-forward, `LogWriter` to have its logs rotated.

What containers use of the machine, as far as a runtime can tell.

Live streams to containers, for whoever serves exec, attach and port-forward.

A runtime that offers them is a `Streams`. Everything is opened for the length of a context, and closed with it: leaving
that of a command ends the command, leaving any other ends nothing.

How full a file system is, and which one images are on.

Upstream: ImageFsStats in pkg/kubelet/stats/cri_stats_provider.go

Hints about changed pods, for any number of readers: for runtimes that tell of changes.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from pykubelet.api.generated.core import ContainerUser, Pod
from pykubelet.api.pods import AnyContainer, PodUid


class ChangeSubscription(AsyncIterator[PodUid]):
    """Hints for one reader; a pod that changes again before it was read is told once."""

    def __init__(self) -> None:
        self._waiting: dict[PodUid, None] = {}
        self._wake = asyncio.Event()

    def offer(self, uid: PodUid) -> None:
        """Something of this pod changed."""
        self._waiting[uid] = None
        self._wake.set()

    async def __anext__(self) -> PodUid:
        while not self._waiting:
            self._wake.clear()
            await self._wake.wait()
        uid = next(iter(self._waiting))
        del self._waiting[uid]
        return uid


class ChangeHints:
    """Tells all readers; one that is gone costs nothing."""

    def __init__(self) -> None:
        self._readers: WeakSet[ChangeSubscription] = WeakSet()

    def subscribe(self) -> ChangeSubscription:
        """A reader of what changes from now on."""
        reader = ChangeSubscription()
        self._readers.add(reader)
        return reader

    def offer(self, uid: PodUid) -> None:
        """Something of this pod changed."""
        for reader in self._readers:
            reader.offer(uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystem:
    """One reading; `device` tells file systems apart. One that makes inodes as it needs them has none to count."""

    device: int
    capacity_bytes: int
    available_bytes: int
    inodes: int = 0
    inodes_free: int = 0


class ImageFs(Protocol):
    """Knows where images are. A runtime that has images to remove offers it."""

    async def image_file_system(self) -> FileSystem:
        """The file system with the images, as it is now; RuntimeFailure if that cannot be told."""


def read_file_system(path: str) -> FileSystem:
    """The file system that a path is on; OSError if there is no such path. Blocks for a moment."""
    found = os.statvfs(path)
    return FileSystem(
        device=Path(path).stat().st_dev,
        capacity_bytes=found.f_blocks * found.f_frsize,
        available_bytes=found.f_bavail * found.f_frsize,
        inodes=found.f_files,
        inodes_free=found.f_ffree,
    )


class RuntimeFailure(Exception):
    """It could not be done; `reason` is the waiting reason a user sees, if there is a better one than usual.

    `retry_at` is when it is worth trying again, if that is known.
    """

    def __init__(self, message: str, *, reason: str = "", retry_at: datetime | None = None) -> None:
        super().__init__(message)
        self.message, self.reason, self.retry_at = message, reason, retry_at


class ContainerState(StrEnum):
    """Where a container is in its life."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContainer:
    """One container as the runtime knows it; `attempt` is how often one of its name was started before.

    `image_id` is what users see as `imageID`; `user` is who its first process runs as, if the runtime tells.
    """

    id: str
    name: str
    state: ContainerState
    sandbox_id: str = ""
    attempt: int = 0
    image: str = ""
    image_id: str = ""
    hash: str = ""
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    user: ContainerUser | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What the containers of a pod share, one of possibly several over its life."""

    id: str
    attempt: int = 0
    is_ready: bool = True
    created_at: datetime
    ips: tuple[str, ...] = ()
    host_network: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePod:
    """Everything the runtime has of a pod, newest first."""

    uid: PodUid
    namespace: str
    name: str
    sandboxes: tuple[Sandbox, ...] = ()
    containers: tuple[RuntimeContainer, ...] = ()

    def newest(self, name: str) -> RuntimeContainer | None:
        """The newest container of this name."""
        return next((container for container in self.containers if container.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRequest:
    """A sandbox to make: the pod it is for, the how-manieth it is, where logs of its containers go.

    `handler` is the way of running containers that the pod's runtime class names; empty for the usual one.
    """

    pod: Pod
    attempt: int
    hostname: str
    log_directory: str
    handler: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A path of the machine to be seen at a path of the container."""

    host_path: str
    container_path: str
    read_only: bool = False
    propagation: str = "None"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """A container to make, everything resolved: nothing in it is to be expanded or looked up any more."""

    pod: Pod
    sandbox_id: str
    container: AnyContainer
    attempt: int
    hash: str
    image_id: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    mounts: tuple[Mount, ...]
    log_path: str
    """Absolute; the container's output goes there in the CRI log format."""
    target_id: str = ""
    """For debugging: the container whose processes it is to see; empty for none."""


class Runtime(Protocol):
    """Runs containers. Stopping or removing what is not there is no failure."""

    async def pods(self) -> Sequence[RuntimePod]:
        """Everything there is, also of pods the node does not know."""

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        """What there is of one pod, as of now."""

    async def create_sandbox(self, request: SandboxRequest) -> str:
        """Make a sandbox, ready for containers; its id."""

    async def create_container(self, request: ContainerRequest) -> str:
        """Make a container without starting it; its id."""

    async def start(self, container_id: str) -> None:
        """Start a container that was made."""

    async def stop(self, id: str, grace_seconds: float) -> None:
        """Stop a container, politely first, or a sandbox with all in it; returns when it has stopped.

        May be cancelled and asked for again, with less grace than is left: then that is what is left.
        """

    async def remove(self, id: str) -> None:
        """Forget a stopped container or sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image on this machine; `user` is the number or name its containers run as, None if the image has no say.

    A pinned one is the runtime's own, and never removed to make room.
    """

    id: str
    names: tuple[str, ...]
    size_bytes: int = 0
    user: str | None = None
    is_pinned: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class RegistryCredentials:
    """A name and password for a registry; never shown."""

    username: str
    password: str


class Images(Protocol):
    """The images of a machine."""

    async def find(self, name: str) -> Image | None:
        """The image of this name, if it is here."""

    async def pull(self, name: str, credentials: Sequence[RegistryCredentials]) -> Image:
        """Fetch an image; tries each of the credentials."""

    async def images(self) -> Sequence[Image]:
        """All that are here."""

    async def remove_image(self, id: str) -> None:
        """Remove one."""


class ChangeFeed(Protocol):
    """Says which pods to look at. Hints only: one too many costs an inspection, one too few waits for the next relist."""

    def changes(self) -> AsyncIterator[PodUid]:
        """The pods of which something changed, as it happens, from this call on."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended and what it printed: its output, then its errors, both cut at the size asked for."""

    exit_code: int
    output: bytes
    errors: bytes = b""
    """What of it came by standard error; empty where nobody can tell."""


class Commands(Protocol):
    """Runs commands in containers, for probes and hooks."""

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout_seconds: float | None, limit_bytes: int
    ) -> CommandResult:
        """Run a command to its end, which comes after `timeout_seconds` as a TimeoutError; None waits.

        Whoever is cancelled while waiting ends the command, never the container.
        """


class LogWriter(Protocol):
    """Writes the log files itself and keeps them open, so it must be told when one was moved away."""

    async def reopen_log(self, container_id: str) -> None:
        """Go on in a new file at the container's log path."""


class ByteReader(Protocol):
    """Bytes that come."""

    async def read(self) -> bytes:
        """Some of them; none at the end."""


class ByteWriter(Protocol):
    """Bytes that go. What nobody takes any more is dropped, and that is no failure."""

    async def write(self, data: bytes) -> None:
        """Hand on all of them; returns when there is room for more."""

    async def close(self) -> None:
        """There will be no more."""


class ExecSession(Protocol):
    """A program and its streams. With a terminal, all output comes on `stdout`."""

    @property
    def stdin(self) -> ByteWriter | None:
        """Its input, if that was asked for."""

    @property
    def stdout(self) -> ByteReader:
        """Its output."""

    @property
    def stderr(self) -> ByteReader | None:
        """Its other output, unless it has a terminal."""

    def resize(self, columns: int, rows: int) -> None:
        """The terminal has another size now; nothing happens without one."""

    async def exit_code(self) -> int:
        """How it ended, once it has; what it wrote may still have to be read then."""


class PortForwardConnection(Protocol):
    """A connection to a port."""

    @property
    def reader(self) -> ByteReader:
        """What comes from there."""

    @property
    def writer(self) -> ByteWriter:
        """What goes there."""


class Streams(Protocol):
    """Opens streams; RuntimeFailure, when asked or on entering the context, if that cannot be."""

    def execute(
        self, container_id: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AbstractAsyncContextManager[ExecSession]:
        """Run a command in a container."""

    def attach(self, container_id: str, *, stdin: bool) -> AbstractAsyncContextManager[ExecSession]:
        """Watch the program a container was made for, from now on, and talk to it if it listens."""

    def connect(self, sandbox_id: str, port: int) -> AbstractAsyncContextManager[PortForwardConnection]:
        """Connect to a port of a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResourceUsage:
    """One reading; what is not known is None."""

    at: datetime
    cpu_nanoseconds: int | None = None
    """Of all cores together, since the start."""
    memory_bytes: int | None = None
    """With what the kernel keeps for it and could drop."""
    working_set_bytes: int | None = None
    """Of that, what cannot be dropped at once."""
    rss_bytes: int | None = None
    swap_bytes: int | None = None
    layer_bytes: int | None = None
    """On disk: what the container wrote over its image."""
    layer_inodes: int | None = None
    processes: int | None = None


class Usages(Protocol):
    """Measures containers."""

    async def usages(self) -> Mapping[str, ContainerResourceUsage]:
        """The usage of every container that runs, by its id; those that cannot be measured are missing."""
