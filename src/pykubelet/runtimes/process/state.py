"""What is known of sandboxes and containers on disk, and what that says about them.

`<root>/sandboxes/<id>/sandbox.json` and `<root>/containers/<id>/{config,state,exit}.json`: the agent writes the first two
kinds, the container's supervisor the others.

The door to the state folders: written, read and removed here. Everything blocks.

Only one agent at a time may use them: two would start everything twice.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from pykubelet.aio.log import get_logger
from pykubelet.aio.msgspec_types import register_type
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.process.shim.processes import ProcessIdentity
from pykubelet.runtimes.process.shim.processes import remove_cgroups as remove_groups
from pykubelet.runtimes.process.shim.wire import create_file, replace_file
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, Sandbox

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ProcessPodRecord(Struct, frozen=True, gc=False, kw_only=True):
    """Whose it is."""

    uid: str
    namespace: str
    name: str


class SandboxRecord(Struct, frozen=True, gc=False, kw_only=True):
    """What the containers of a pod share: here only that they are one pod's, on one boot of the machine."""

    id: str
    pod: ProcessPodRecord
    attempt: int
    created_at: datetime
    boot_id: str
    hostname: str
    host_network: bool
    is_stopped: bool = False

    def tell(self, boot_id: str, ips: tuple[str, ...]) -> Sandbox:
        """The sandbox as others see it; none outlives a boot."""
        return Sandbox(
            id=self.id,
            attempt=self.attempt,
            is_ready=not self.is_stopped and self.boot_id == boot_id,
            created_at=self.created_at,
            ips=() if self.host_network else ips,
            host_network=self.host_network,
        )


class ContainerRecord(Struct, frozen=True, gc=False, kw_only=True):
    """What the node told about a container when it was made."""

    id: str
    pod: ProcessPodRecord
    sandbox_id: str
    name: str
    attempt: int
    image: str
    image_id: str
    hash: str
    created_at: datetime
    stop_signal: int
    tty: bool


class ProcessUser(Struct, frozen=True, gc=False, kw_only=True):
    """Whom a container runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class MountConfig(Struct, frozen=True, gc=False, kw_only=True):
    """A file or folder of the machine to be seen at a path of the container."""

    host_path: str
    container_path: str
    read_only: bool
    propagation: str


class ControlGroup(Struct, frozen=True, gc=False, kw_only=True):
    """A control group to be made for a container, with its limits."""

    path: str
    values: tuple[tuple[str, int | str], ...]


class ContainerConfig(Struct, frozen=True, gc=False, kw_only=True):
    """Everything a supervisor has to know. Holds secrets: the environment."""

    facts: ContainerRecord
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    cwd: str
    user: ProcessUser | None
    """None to stay who we are."""
    way: str
    """How it gets a view of its own: see `shim/namespace.py`."""
    mounts: tuple[MountConfig, ...]
    read_only_root: bool
    hostname: str
    log_path: str
    stop_signal: int
    """Once more, for the supervisor reads no facts; likewise `tty`."""
    tty: bool
    stdin: bool
    stdin_once: bool
    limits: tuple[tuple[str, int], ...]
    oom_score_adj: int
    """Kept where the machine does not let us set it."""
    cgroups: tuple[ControlGroup, ...]
    dropped_capabilities: tuple[int, ...]
    no_new_privileges: bool

    def __repr__(self) -> str:
        return f"ContainerConfig({self.facts.id})"


class ContainerStartRecord(Struct, frozen=True, gc=False, kw_only=True):
    """Who supervises and what runs. Without a supervisor: nobody ever will."""

    supervisor: ProcessIdentity | None = None
    main: ProcessIdentity | None = None
    started_at: int = 0


class ContainerExitRecord(Struct, frozen=True, gc=False, kw_only=True):
    """How a container ended."""

    exit_code: int
    reason: str
    finished_at: int
    message: str = ""


def runtime_container(
    facts: ContainerRecord, state: ContainerStartRecord | None, exit: ContainerExitRecord | None
) -> RuntimeContainer:
    """The container as others see it, its supervisor being alive unless there is an exit."""
    if exit is not None:
        phase = ContainerState.EXITED
    elif state is not None and state.main is not None:
        phase = ContainerState.RUNNING
    else:
        phase = ContainerState.CREATED
    started_at = _time(state.started_at) if state is not None and state.started_at else None
    finished_at = _time(exit.finished_at) if exit is not None else None
    return RuntimeContainer(
        id=facts.id,
        name=facts.name,
        state=phase,
        sandbox_id=facts.sandbox_id,
        attempt=facts.attempt,
        image=facts.image,
        image_id=facts.image_id,
        hash=facts.hash,
        created_at=facts.created_at,
        # One that could not be started has at least tried.
        started_at=started_at or finished_at,
        finished_at=finished_at,
        exit_code=exit.exit_code if exit is not None else 0,
        reason=exit.reason if exit is not None else "",
        message=exit.message if exit is not None else "",
    )


def pod_uid(pod: ProcessPodRecord) -> PodUid:
    """The pod's UID."""
    return PodUid(pod.uid)


def _time(nanoseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


log = get_logger(__name__)

_MODE = 0o700
_CONFIG, _STATE, _EXIT, _SANDBOX = "config.json", "state.json", "exit.json", "sandbox.json"

T = TypeVar("T")


class StateFoldersInUse(OSError):
    """Another agent works here."""


class _FactsOnly(Struct, frozen=True):
    """Of a container's configuration, what need not be kept secret or in memory."""

    facts: ContainerRecord


class _GroupsOnly(Struct, frozen=True):
    """Likewise, its control groups."""

    cgroups: tuple[ControlGroup, ...]


class StateFolders:
    """The folders below `root`."""

    def __init__(self, root: Path) -> None:
        self._containers, self._sandboxes = root / "containers", root / "sandboxes"
        self._lock_path = root / "lock"
        self._lock = -1

    def open(self) -> None:
        """Make what is missing and keep others out; InUse if somebody was first."""
        for folder in (self._containers, self._sandboxes):
            folder.mkdir(_MODE, parents=True, exist_ok=True)
        self._lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise StateFoldersInUse(error.errno, "another agent works in this folder", str(self._lock_path)) from error

    def close(self) -> None:
        """Let others in."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def container(self, container_id: str) -> Path:
        """The folder of a container."""
        return self._containers / container_id

    def sandboxes(self) -> Iterator[SandboxRecord]:
        """All sandboxes; what is left of one that was being made or removed is cleared away."""
        for folder in sorted(self._sandboxes.iterdir()):
            record = _read(folder / _SANDBOX, SandboxRecord)
            if record is not None and record.id == folder.name:
                yield record
            else:
                shutil.rmtree(folder, ignore_errors=True)

    def containers(self) -> Iterator[tuple[ContainerRecord, ContainerStartRecord | None, ContainerExitRecord | None]]:
        """All containers with what is known of them, likewise."""
        for folder in sorted(self._containers.iterdir()):
            config = _read(folder / _CONFIG, _FactsOnly)
            if config is not None and config.facts.id == folder.name:
                # The end first: what is written down before it cannot change any more.
                exit = self.exit(folder.name)
                yield config.facts, self.state(folder.name), exit
            else:
                shutil.rmtree(folder, ignore_errors=True)

    def write_sandbox(self, record: SandboxRecord) -> None:
        """Make a sandbox, or change one."""
        folder = self._sandboxes / record.id
        folder.mkdir(_MODE, exist_ok=True)
        replace_file(str(folder / _SANDBOX), msgspec.json.encode(record))

    def write_container(self, config: ContainerConfig) -> None:
        """Make a container."""
        folder = self.container(config.facts.id)
        folder.mkdir(_MODE)
        replace_file(str(folder / _CONFIG), msgspec.json.encode(config))

    def state(self, container_id: str) -> ContainerStartRecord | None:
        """Who supervises a container; None if nobody ever did."""
        return _read(self.container(container_id) / _STATE, ContainerStartRecord)

    def exit(self, container_id: str) -> ContainerExitRecord | None:
        """How a container ended; None if that is not recorded."""
        return _read(self.container(container_id) / _EXIT, ContainerExitRecord)

    def write_exit(self, container_id: str, exit: ContainerExitRecord) -> None:
        """Record an end that nobody else could."""
        replace_file(str(self.container(container_id) / _EXIT), msgspec.json.encode(exit))

    def forbid_start(self, container_id: str) -> bool:
        """See to it that a container is never started, unless it was."""
        return create_file(str(self.container(container_id) / _STATE), msgspec.json.encode(ContainerStartRecord()))

    def remove_container(self, container_id: str) -> None:
        """Forget a container; half removed, it is no container any more."""
        folder = self.container(container_id)
        config = _read(folder / _CONFIG, _GroupsOnly)
        if config is not None:
            # Empty by now; its supervisor has removed them, unless it was killed.
            remove_groups([{"path": group.path} for group in config.cgroups])
        with suppress(FileNotFoundError):
            (folder / _CONFIG).unlink()
            shutil.rmtree(folder)

    def remove_sandbox(self, sandbox_id: str) -> None:
        """Forget a sandbox, likewise."""
        folder = self._sandboxes / sandbox_id
        with suppress(FileNotFoundError):
            (folder / _SANDBOX).unlink()
            shutil.rmtree(folder)


def _read(path: Path, type: type[T]) -> T | None:
    """A record; None if there is none, or a loss of power has left half of one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=register_type(type))
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        log.warning("state file is broken", path=path, cause=str(error))
        return None
