"""Stores sandboxes and containers on disk, so that a restarted kubelet finds them again.

`<root>/sandboxes/<id>/sandbox.json` and `<root>/containers/<id>/{config,state,exit}.json`: the kubelet writes the first
two, the container's shim the others. Only one kubelet at a time may use the folders: two would start everything twice. All
methods of StateFolders block.
"""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from pykubelet.aio.log import get_logger
from pykubelet.aio.msgspec_types import register_type
from pykubelet.api.pods import PodUid
from pykubelet.api.times import from_nanoseconds
from pykubelet.podnetwork.host_ports import PortMapping
from pykubelet.runtimes.cgroup_removal import destroy_cgroups
from pykubelet.runtimes.folder_lock import FolderLock
from pykubelet.runtimes.process.shim.processes import ProcessIdentity
from pykubelet.runtimes.process.shim.wire import create_file, make_spare, replace_file
from pykubelet.runtimes.protocol import ContainerState, Mount, RuntimeContainer, Sandbox

log = get_logger(__name__)

_MODE = 0o700
_CONFIG, _STATE, _EXIT, _SANDBOX = "config.json", "state.json", "exit.json", "sandbox.json"

T = TypeVar("T")


class ProcessPodRecord(Struct, frozen=True, gc=False, kw_only=True):
    """The pod that a sandbox or container belongs to."""

    uid: PodUid
    namespace: str
    name: str


class SandboxRecord(Struct, frozen=True, gc=False, kw_only=True):
    """A sandbox, which only groups the containers of one pod; it ends with the boot of the machine."""

    id: str
    pod: ProcessPodRecord
    attempt: int
    created_at: datetime
    boot_id: str
    hostname: str
    host_network: bool
    address: str = ""
    """The address of the pod's own network; empty if the pod uses the machine's."""
    mappings: tuple[PortMapping, ...] = ()
    """The host ports that lead to that address."""
    is_stopped: bool = False

    def value(self, boot_id: str, ips: tuple[str, ...]) -> Sandbox:
        """The sandbox as the Runtime reports it; it is not ready after a reboot."""
        return Sandbox(
            id=self.id,
            attempt=self.attempt,
            is_ready=not self.is_stopped and self.boot_id == boot_id,
            created_at=self.created_at,
            ips=() if self.host_network else (self.address,) if self.address else ips,
            host_network=self.host_network,
        )


class ContainerRecord(Struct, frozen=True, gc=False, kw_only=True):
    """The facts of a container that are fixed at its creation."""

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
    """The user and groups of a container."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class ControlGroup(Struct, frozen=True, gc=False, kw_only=True):
    """A cgroup to create for a container, with its limits."""

    path: str
    values: tuple[tuple[str, int | str], ...]


class ContainerConfig(Struct, frozen=True, gc=False, kw_only=True):
    """Everything a shim needs to run a container. Contains secrets in the environment."""

    facts: ContainerRecord
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    cwd: str
    user: ProcessUser | None
    """None to keep the kubelet's user."""
    way: str
    """How the container gets its mount namespace: see `shim/rootfs.py`."""
    network: str
    """The file of the pod's network namespace; empty for the machine's network."""
    network_holder: str
    """The folder of the process in whose user namespace the network is; empty if there is none."""
    mounts: tuple[Mount, ...]
    read_only_root: bool
    hostname: str
    log_path: str
    stop_signal: int
    """Repeated here, because the shim does not read `facts`; likewise `tty`."""
    tty: bool
    stdin: bool
    stdin_once: bool
    limits: tuple[tuple[str, int], ...]
    oom_score_adj: int
    """Ignored where the machine does not permit setting it."""
    cgroups: tuple[ControlGroup, ...]
    dropped_capabilities: tuple[int, ...]
    no_new_privileges: bool

    def __repr__(self) -> str:
        return f"ContainerConfig({self.facts.id})"


class ContainerStartRecord(Struct, frozen=True, gc=False, kw_only=True):
    """The shim and the first process of a container; without a shim, it must never be started."""

    supervisor: ProcessIdentity | None = None
    main: ProcessIdentity | None = None
    started_at: int = 0


class ContainerExitRecord(Struct, frozen=True, gc=False, kw_only=True):
    """Exit code, reason and time of a container's end."""

    exit_code: int
    reason: str
    finished_at: int
    message: str = ""


def runtime_container(
    facts: ContainerRecord, state: ContainerStartRecord | None, exit: ContainerExitRecord | None
) -> RuntimeContainer:
    """The container as the Runtime reports it; without an exit record its shim is alive."""
    if exit is not None:
        phase = ContainerState.EXITED
    elif state is not None and state.main is not None:
        phase = ContainerState.RUNNING
    else:
        phase = ContainerState.CREATED
    started_at = from_nanoseconds(state.started_at) if state is not None and state.started_at else None
    finished_at = from_nanoseconds(exit.finished_at) if exit is not None else None
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
        # A container that could not be started has the time of the attempt.
        started_at=started_at or finished_at,
        finished_at=finished_at,
        exit_code=exit.exit_code if exit is not None else 0,
        reason=exit.reason if exit is not None else "",
        message=exit.message if exit is not None else "",
    )


class _FactsOnly(Struct, frozen=True):
    """The part of a container's configuration that is kept in memory; it has no secrets."""

    facts: ContainerRecord


class _GroupsOnly(Struct, frozen=True):
    """The part of a container's configuration that is needed to remove it."""

    cgroups: tuple[ControlGroup, ...]


class StateFolders:
    """Reads and writes the state of sandboxes and containers below `root`."""

    def __init__(self, root: Path) -> None:
        self._root, self._containers, self._sandboxes = root, root / "containers", root / "sandboxes"
        self._lock = FolderLock(root / "lock")

    def open(self) -> None:
        """Create the folders and lock them; FolderInUse if another kubelet has the lock."""
        for folder in (self._root, self._containers, self._sandboxes):
            folder.mkdir(_MODE, parents=True, exist_ok=True)
        # Earlier versions created it for everybody.
        self._root.chmod(_MODE)
        self._lock.acquire()

    def close(self) -> None:
        self._lock.release()

    def container(self, container_id: str) -> Path:
        return self._containers / container_id

    def sandboxes(self) -> Iterator[SandboxRecord]:
        """All sandboxes; removes incomplete ones that an interruption has left."""
        for folder in sorted(self._sandboxes.iterdir()):
            record = _read(folder / _SANDBOX, SandboxRecord)
            if record is not None and record.id == folder.name:
                yield record
            else:
                shutil.rmtree(folder, ignore_errors=True)

    def containers(self) -> Iterator[tuple[ContainerRecord, ContainerStartRecord | None, ContainerExitRecord | None]]:
        """All containers with their records; removes incomplete ones likewise."""
        for folder in sorted(self._containers.iterdir()):
            config = _read(folder / _CONFIG, _FactsOnly)
            if config is not None and config.facts.id == folder.name:
                # The exit record first: the others do not change after it.
                exit = self.exit(folder.name)
                yield config.facts, self.state(folder.name), exit
            else:
                shutil.rmtree(folder, ignore_errors=True)

    def write_sandbox(self, record: SandboxRecord) -> None:
        """Create or replace a sandbox. It can be stopped even if the disk is full by then."""
        folder = self._sandboxes / record.id
        if record.is_stopped:
            replace_file(str(folder / _SANDBOX), msgspec.json.encode(record))
        else:
            self._create(folder, _SANDBOX, msgspec.json.encode(record), spares=(_SANDBOX,))

    def write_resolv_conf(self, sandbox_id: str, text: str) -> str:
        """Writes the resolv.conf of a pod, for users of any kind, unless it is there; returns its path."""
        path = self._sandboxes / sandbox_id / "resolv.conf"
        if not path.exists() or path.read_text() != text:
            # Replaced, because containers that run have the old file mounted.
            temporary = path.with_suffix(".new")
            temporary.write_text(text)
            temporary.chmod(0o644)
            temporary.replace(path)
        return str(path)

    def write_container(self, config: ContainerConfig) -> None:
        """Create a container. Its start and its end can be recorded even if the disk is full by then."""
        folder = self.container(config.facts.id)
        self._create(folder, _CONFIG, msgspec.json.encode(config), spares=(_STATE, _EXIT))

    def _create(self, folder: Path, name: str, content: bytes, *, spares: tuple[str, ...]) -> None:
        """Create a folder with one file and spares of others; nothing stays of it if that fails."""
        folder.mkdir(_MODE)
        try:
            for spare in spares:
                make_spare(str(folder / spare))
            replace_file(str(folder / name), content)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def kill_members(self, container_id: str) -> None:
        """Kill what is left in the cgroups of a container whose shim was killed; its removal tries again."""
        with suppress(OSError):
            destroy_cgroups(self._cgroups(container_id))

    def state(self, container_id: str) -> ContainerStartRecord | None:
        """The start record of a container; None if no shim has claimed it."""
        return _read(self.container(container_id) / _STATE, ContainerStartRecord)

    def exit(self, container_id: str) -> ContainerExitRecord | None:
        """The exit record of a container, if there is one."""
        return _read(self.container(container_id) / _EXIT, ContainerExitRecord)

    def write_exit(self, container_id: str, exit: ContainerExitRecord) -> None:
        """Store the exit record of a container whose shim did not."""
        replace_file(str(self.container(container_id) / _EXIT), msgspec.json.encode(exit))

    def forbid_start(self, container_id: str) -> bool:
        """Prevent every start of a container; False if a shim has claimed it already."""
        return create_file(str(self.container(container_id) / _STATE), msgspec.json.encode(ContainerStartRecord()))

    def remove_container(self, container_id: str) -> None:
        """Remove a container that has ended, with whatever its processes have left; OSError if that fails.

        An interrupted removal leaves no valid container and can be repeated.
        """
        destroy_cgroups(self._cgroups(container_id))
        _remove_folder(self.container(container_id), _CONFIG)

    def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox; OSError if that fails. An interrupted removal leaves no valid sandbox."""
        _remove_folder(self._sandboxes / sandbox_id, _SANDBOX)

    def _cgroups(self, container_id: str) -> list[Path]:
        """The cgroups of a container; none if it was removed already."""
        config = _read(self.container(container_id) / _CONFIG, _GroupsOnly)
        return [Path(group.path) for group in config.cgroups] if config is not None else []


def _remove_folder(folder: Path, record: str) -> None:
    """Removes a folder; the record that makes it valid first."""
    (folder / record).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _read(path: Path, type: type[T]) -> T | None:
    """Reads a record; None if it is missing, or damaged by a power loss."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=register_type(type))
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        log.warning("state file is broken", path=path, cause=str(error))
        return None
