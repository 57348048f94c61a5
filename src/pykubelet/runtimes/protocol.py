"""The protocols between a node and its container runtime.

Implement them for a runtime of your own. A pod is a sandbox, which its containers share, and the containers in it. The kubelet decides what to start and stop; a
runtime does it and reports what exists. Calls may be concurrent; each does one thing, may take long, and raises
`RuntimeFailure` if it fails. Containers outlive the kubelet: after a restart it calls `pods` and continues from there.

A runtime may offer more than `Runtime`: `Images` if it pulls images, `ChangeFeed` to report changes instead of being
polled every second, `Commands` and `Streams` for exec, attach and port-forward, `LogWriter` for log rotation, `Usages`
for statistics.

Upstream: pkg/kubelet/container/runtime.go, staging/src/k8s.io/cri-api/pkg/apis/services.go
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


class RuntimeFailure(Exception):
    """An operation failed. `reason` is the waiting reason that users see, if it differs from the usual one.

    `retry_at` is when to try again, if that is known.
    """

    def __init__(self, message: str, *, reason: str = "", retry_at: datetime | None = None) -> None:
        super().__init__(message)
        self.message, self.reason, self.retry_at = message, reason, retry_at


class ContainerState(StrEnum):
    """The state of a container at the runtime."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContainer:
    """One container at the runtime; `attempt` counts its predecessors of the same name, starting at 0.

    `image_id` becomes the status field `imageID`; `user` is the user of the first process, if the runtime reports it.
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
    """The environment that the containers of a pod share; a pod may have several over time."""

    id: str
    attempt: int = 0
    is_ready: bool = True
    created_at: datetime
    ips: tuple[str, ...] = ()
    host_network: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePod:
    """All sandboxes and containers of a pod, newest first."""

    uid: PodUid
    namespace: str
    name: str
    sandboxes: tuple[Sandbox, ...] = ()
    containers: tuple[RuntimeContainer, ...] = ()

    def newest(self, name: str) -> RuntimeContainer | None:
        """The newest container with this name."""
        return next((container for container in self.containers if container.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRequest:
    """A sandbox to create: its pod, its attempt number starting at 0, the directory for container logs.

    `handler` is the runtime handler of the pod's RuntimeClass; empty for the default handler.
    """

    pod: Pod
    attempt: int
    hostname: str
    log_directory: str
    handler: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A path of the host mounted at a path of the container."""

    host_path: str
    container_path: str
    read_only: bool = False
    propagation: str = "None"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """A container to create; all variables and references are resolved."""

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
    """For ephemeral containers: the container whose processes it sees; empty for none."""


class Runtime(Protocol):
    """Runs containers. Stopping or removing something that does not exist succeeds."""

    async def pods(self) -> Sequence[RuntimePod]:
        """All pods, including those the kubelet does not know."""

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        """The current state of one pod; None if there is nothing."""

    async def create_sandbox(self, request: SandboxRequest) -> str:
        """Create a sandbox that is ready for containers; its id."""

    async def create_container(self, request: ContainerRequest) -> str:
        """Create a container without starting it; its id."""

    async def start(self, container_id: str) -> None:
        """Start a created container."""

    async def stop(self, id: str, grace_seconds: float) -> None:
        """Stop a container, gracefully first, or a sandbox with all its containers; returns when it has stopped.

        The call may be cancelled and repeated with a shorter grace period, which then applies.
        """

    async def remove(self, id: str) -> None:
        """Remove a container or sandbox that does not run. A container that was created will never start then.

        RuntimeFailure while a container is being started.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image on this machine; `user` is the number or name its containers run as, None if it sets none.

    A pinned image belongs to the runtime and is never removed to free disk space.
    """

    id: str
    names: tuple[str, ...]
    size_bytes: int = 0
    user: str | None = None
    is_pinned: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class RegistryCredentials:
    """User name and password for a registry; excluded from repr."""

    username: str
    password: str


class Images(Protocol):
    """Manages the images on this machine."""

    async def find(self, name: str) -> Image | None:
        """The image with this name; None if it is not on this machine."""

    async def pull(self, name: str, credentials: Sequence[RegistryCredentials]) -> Image:
        """Pull an image; tries the credentials in order."""

    async def images(self) -> Sequence[Image]:
        """All images on this machine."""

    async def remove_image(self, id: str) -> None:
        """Remove an image by its id."""


class ChangeFeed(Protocol):
    """Reports which pods to inspect. A needless hint costs an inspection; a missing one waits for the next relist."""

    def changes(self) -> AsyncIterator[PodUid]:
        """The pods that change from this call on."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code and output of a command: stdout followed by stderr, cut at the requested size."""

    exit_code: int
    output: bytes
    errors: bytes = b""
    """The part from stderr; empty if the runtime cannot separate it."""


class Commands(Protocol):
    """Runs commands in containers, for probes and hooks."""

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout_seconds: float | None, limit_bytes: int
    ) -> CommandResult:
        """Run a command to its end; TimeoutError after `timeout_seconds`, None waits without limit.

        Cancelling the call ends the command, not the container.
        """


class LogWriter(Protocol):
    """Writes log files and can reopen them after a rotation."""

    async def reopen_log(self, container_id: str) -> None:
        """Continue in a new file at the container's log path."""


class ByteReader(Protocol):
    """A stream of bytes to read."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""


class ByteWriter(Protocol):
    """A stream of bytes to write. Data that the peer no longer reads is dropped without an error."""

    async def write(self, data: bytes) -> None:
        """Write all bytes; waits while the peer is slow."""

    async def close(self) -> None:
        """Close the stream; the peer reads its end."""


class ExecSession(Protocol):
    """A running command and its streams. With a terminal, all output comes on `stdout`."""

    @property
    def stdin(self) -> ByteWriter | None:
        """The input, if it was requested."""

    @property
    def stdout(self) -> ByteReader:
        """The output of the command."""

    @property
    def stderr(self) -> ByteReader | None:
        """The error output; None with a terminal."""

    def resize(self, columns: int, rows: int) -> None:
        """Resize the terminal; does nothing without one."""

    async def exit_code(self) -> int:
        """The exit code, once the command has ended; its output may still be unread."""


@dataclass(frozen=True, slots=True)
class PortForwardConnection:
    """A connection to a port of a pod: the bytes from it, and to it."""

    reader: ByteReader
    writer: ByteWriter


class Streams(Protocol):
    """Opens streams to containers for the duration of a context; RuntimeFailure if that is not possible.

    Leaving the context of a command ends the command; leaving any other context ends nothing.
    """

    def execute(
        self, container_id: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AbstractAsyncContextManager[ExecSession]:
        """Run a command in a container and connect to it."""

    def attach(self, container_id: str, *, stdin: bool) -> AbstractAsyncContextManager[ExecSession]:
        """Connect to the output of a container from now on, and to its input if it has one."""

    def connect(self, sandbox_id: str, port: int) -> AbstractAsyncContextManager[PortForwardConnection]:
        """Connect to a port of a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResourceUsage:
    """The resource usage of a container at a time; unknown values are None."""

    at: datetime
    cpu_nanoseconds: int | None = None
    """Of all cores, since the start of the container."""
    memory_bytes: int | None = None
    """Including the page cache."""
    working_set_bytes: int | None = None
    """The part of the memory that cannot be reclaimed at once."""
    rss_bytes: int | None = None
    swap_bytes: int | None = None
    layer_bytes: int | None = None
    """The size of the writable layer on disk."""
    layer_inodes: int | None = None
    processes: int | None = None


class Usages(Protocol):
    """Measures the resource usage of containers."""

    async def usages(self) -> Mapping[str, ContainerResourceUsage]:
        """The usage of each running container by id; omits containers that cannot be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystem:
    """The state of a file system; `device` identifies it. `inodes` is 0 if the file system has no fixed number."""

    device: int
    capacity_bytes: int
    available_bytes: int
    inodes: int = 0
    inodes_free: int = 0


class ImageFs(Protocol):
    """Reports the file system of images; needed for image garbage collection."""

    async def image_file_system(self) -> FileSystem:
        """The current state of the file system with the images; RuntimeFailure if it is unknown."""


def read_file_system(path: str) -> FileSystem:
    """The file system of a path; OSError if the path does not exist. Blocks briefly."""
    found = os.statvfs(path)
    return FileSystem(
        device=Path(path).stat().st_dev,
        capacity_bytes=found.f_blocks * found.f_frsize,
        available_bytes=found.f_bavail * found.f_frsize,
        inodes=found.f_files,
        inodes_free=found.f_ffree,
    )


class ChangeSubscription(AsyncIterator[PodUid]):
    """The hints for one subscriber; a pod that changes again before it was read appears once."""

    def __init__(self) -> None:
        self._waiting: dict[PodUid, None] = {}
        self._wake = asyncio.Event()

    def offer(self, uid: PodUid) -> None:
        """Add a pod that has changed."""
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
    """Sends hints about changed pods to all subscribers; helps to implement ChangeFeed."""

    def __init__(self) -> None:
        self._subscriptions: WeakSet[ChangeSubscription] = WeakSet()

    def subscribe(self) -> ChangeSubscription:
        """A subscription to all later changes; it ends when it is garbage collected."""
        subscription = ChangeSubscription()
        self._subscriptions.add(subscription)
        return subscription

    def offer(self, uid: PodUid) -> None:
        """Report a pod that has changed."""
        for subscription in self._subscriptions:
            subscription.offer(uid)
