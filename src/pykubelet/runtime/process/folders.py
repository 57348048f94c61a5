"""The door to the state folders: written, read and removed here. Everything blocks.

Only one agent at a time may use them: two would start everything twice.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from pykubelet.aio.learned import learned
from pykubelet.aio.log import get_logger
from pykubelet.runtime.process.records import ContainerConfig, ContainerFacts, ControlGroup, Exit, SandboxRecord, State
from pykubelet.runtime.process.shim.files import create_file, replace_file
from pykubelet.runtime.process.shim.limits import remove as remove_groups

log = get_logger(__name__)

_MODE = 0o700
_CONFIG, _STATE, _EXIT, _SANDBOX = "config.json", "state.json", "exit.json", "sandbox.json"

T = TypeVar("T")


class InUse(OSError):
    """Another agent works here."""


class _FactsOnly(Struct, frozen=True):
    """Of a container's configuration, what need not be kept secret or in memory."""

    facts: ContainerFacts


class _GroupsOnly(Struct, frozen=True):
    """Likewise, its control groups."""

    cgroups: tuple[ControlGroup, ...]


class Folders:
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
            raise InUse(error.errno, "another agent works in this folder", str(self._lock_path)) from error

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

    def containers(self) -> Iterator[tuple[ContainerFacts, State | None, Exit | None]]:
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

    def state(self, container_id: str) -> State | None:
        """Who supervises a container; None if nobody ever did."""
        return _read(self.container(container_id) / _STATE, State)

    def exit(self, container_id: str) -> Exit | None:
        """How a container ended; None if that is not recorded."""
        return _read(self.container(container_id) / _EXIT, Exit)

    def write_exit(self, container_id: str, exit: Exit) -> None:
        """Record an end that nobody else could."""
        replace_file(str(self.container(container_id) / _EXIT), msgspec.json.encode(exit))

    def forbid_start(self, container_id: str) -> bool:
        """See to it that a container is never started, unless it was."""
        return create_file(str(self.container(container_id) / _STATE), msgspec.json.encode(State()))

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
        return msgspec.json.decode(path.read_bytes(), type=learned(type))
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        log.warning("state file is broken", path=path, cause=str(error))
        return None
