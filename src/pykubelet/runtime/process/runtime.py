"""Runs containers as processes: Runtime, ChangeFeed, Commands, Streams, LogWriter, Usages.

Open it for the length of a context. Whatever it started goes on when that is left, or the agent is killed, and the next
one finds it again. It is supervision, not a sandbox: containers see the machine's files, processes and network.
"""

import asyncio
import hashlib
import os
import pwd
import signal
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids
from pykubelet.aio.learned import learned
from pykubelet.api.keys import PodUid
from pykubelet.runtime.changes import ChangeHints, Changes
from pykubelet.runtime.process import sessions
from pykubelet.runtime.process.book import NO_HANDLE, Book, ContainerEntry
from pykubelet.runtime.process.cgroups import find_cgroups
from pykubelet.runtime.process.folders import Folders
from pykubelet.runtime.process.launcher import Launcher
from pykubelet.runtime.process.local_port import open_local_port
from pykubelet.runtime.process.own_ports import own_addresses
from pykubelet.runtime.process.records import SandboxRecord, State, User, pod_uid
from pykubelet.runtime.process.request import Machine, container_config, sandbox_record
from pykubelet.runtime.process.shim.identity import boot_id
from pykubelet.runtime.process.shim.ways import NONE
from pykubelet.runtime.process.usages import UsageReader
from pykubelet.runtime.process.users import Account
from pykubelet.runtime.process.wards import Wards
from pykubelet.runtime.protocol import (
    ContainerRequest,
    ContainerState,
    Outcome,
    RuntimeFailure,
    RuntimePod,
    SandboxRequest,
)
from pykubelet.runtime.streams import Connection, Session
from pykubelet.runtime.usage import Usage

_DISOBEDIENT_SECONDS = 10.0
"""From being killed to having ended; what takes longer hangs in the kernel, and the pod is told so."""
_SIGNAL_SECONDS = 2.0
"""A supervisor answers at once, unless it is stopped itself."""


class ProcessRuntime:
    """Containers as processes, their state below `root`; pods have the addresses of the machine, `ips`.

    `way` forbids what the machine would allow: see `shim/ways.py`. A container has at most `max_pids` processes, if any.
    """

    def __init__(
        self, *, root: Path, ips: tuple[str, ...], clock: Clock, ids: Ids, way: str | None = None, max_pids: int = 0
    ) -> None:
        self._clock, self._ids, self._way = clock, ids, way
        self._folders, self._launcher, self._hints = Folders(root.absolute()), Launcher(), ChangeHints()
        self._boot_id = boot_id()
        self._book = Book(self._boot_id, ips)
        self._machine = Machine(
            me=_myself(), account=_account, way=NONE, memory_bytes=_memory_bytes(), max_pids=max_pids
        )
        self._usages = UsageReader(cgroups=self._machine.cgroups)
        self._wards = Wards(folders=self._folders, clock=clock, changed=self._note_change)

    async def __aenter__(self) -> Self:
        """Find again what earlier agents started; OSError if another one works here."""
        await self._wards.on_disk(self._folders.open)
        try:
            await self._find_everything()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def _find_everything(self) -> None:
        found = await self._launcher.start()
        cgroups = await self._wards.on_disk(find_cgroups)
        self._machine = replace(self._machine, way=self._way or found, cgroups=cgroups)
        self._usages = UsageReader(cgroups=cgroups)
        for record in await self._wards.on_disk(lambda: list(self._folders.sandboxes())):
            self._book.put_sandbox(record)
        containers = await self._wards.on_disk(lambda: list(self._folders.containers()))
        for entry in await self._wards.find_again([ContainerEntry(*known) for known in containers]):
            self._book.put_container(entry)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave everything running."""
        await self._launcher.close()
        self._wards.close()
        self._folders.close()

    async def pods(self) -> Sequence[RuntimePod]:
        return list(self._book.pods())

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        return self._book.pod(uid)

    def changes(self) -> Changes:
        return self._hints.subscribe()

    async def create_sandbox(self, request: SandboxRequest) -> str:
        record = sandbox_record(request, id=self._new_id(), created_at=self._clock.now(), boot_id=self._boot_id)
        await self._write_sandbox(record)
        return record.id

    async def create_container(self, request: ContainerRequest) -> str:
        pod, _ = self._book.owner(request.sandbox_id)
        is_same = pod is not None and pod.facts.uid == request.pod.metadata.uid
        sandbox = pod.sandbox(request.sandbox_id) if pod is not None and is_same else None
        if sandbox is None or sandbox.is_stopped or sandbox.boot_id != self._boot_id:
            raise RuntimeFailure(f'sandbox "{request.sandbox_id}" is not ready')
        config = container_config(
            request, id=self._new_id(), hostname=sandbox.hostname, machine=self._machine, now=self._clock.now()
        )
        entry = ContainerEntry(config.facts)
        # Before it is on disk: whoever is cancelled now leaves nothing behind that nobody knows.
        self._book.put_container(entry)
        try:
            await self._wards.on_disk(self._folders.write_container, config)
        except OSError as error:
            self._book.remove(config.facts.id)
            raise RuntimeFailure(f"the container cannot be recorded: {error.strerror}") from error
        self._note_change(entry)
        return config.facts.id

    async def start(self, container_id: str) -> None:
        entry = self._container(container_id)
        if entry.is_starting or entry.state is not None or entry.exit is not None:
            raise RuntimeFailure(f'container "{container_id}" was started before')
        entry.is_starting = True
        message = await self._launch(entry)
        if message is None and self._folders.state(container_id) is None:
            # The spawner was killed with our request in its hands, and nobody has the container. Looked up right here, for
            # whoever is cancelled meanwhile would leave it undecided; it happens once in a blue moon.
            message = await self._launch(entry)
        if message is None:
            self._wards.conclude(entry)
        if failure := _failure(message):
            await entry.ended.wait()
            raise RuntimeFailure(failure)

    async def _launch(self, entry: ContainerEntry) -> dict[str, Any] | None:
        """Have a container started; what its supervisor reports, None if nobody does."""
        outcome: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()

        def report(message: dict[str, Any] | None) -> None:
            is_awaited = not outcome.done()
            if is_awaited:
                outcome.set_result(message)
            # Also if nobody waits any more: what runs must be known.
            if message is not None or not is_awaited:
                self._note_start(entry, message)

        try:
            await self._launcher.launch(self._folders.container(entry.facts.id), report)
        except BaseException:
            # Nobody was told to start it.
            entry.is_starting = False
            raise
        return await outcome

    def _note_start(self, entry: ContainerEntry, message: dict[str, Any] | None) -> None:
        if message is None or "error" in message:
            self._wards.conclude(entry)
            return
        entry.is_starting = False
        entry.state = msgspec.convert(message, learned(State))
        self._note_change(entry)
        if entry.state.supervisor is not None:
            self._wards.watch(entry, entry.state.supervisor)

    async def stop(self, id: str, grace_seconds: float) -> None:
        pod, container = self._book.owner(id)
        if pod is None:
            return
        stopping = [container] if container is not None else pod.in_sandbox(id)
        stopping = [one for one in stopping if one.is_alive]
        if grace_seconds > 0:
            for one in stopping:
                await self._tell_to_stop(one)
        if not await _all_ended(stopping, max(grace_seconds, 0)):
            await self._kill([one for one in stopping if not one.ended.is_set()])
        sandbox = pod.sandbox(id)
        if sandbox is not None and not sandbox.is_stopped:
            await self._write_sandbox(msgspec.structs.replace(sandbox, is_stopped=True))

    async def _tell_to_stop(self, entry: ContainerEntry) -> None:
        # Once: to many programs a second signal means something else.
        if not entry.is_told_to_stop:
            entry.is_told_to_stop = await self._signal(entry, entry.facts.stop_signal)

    async def _kill(self, entries: Sequence[ContainerEntry]) -> None:
        for entry in entries:
            if entry.handle != NO_HANDLE:
                # Somebody may have stopped the supervisor itself.
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(entry.handle, signal.SIGCONT)
            await self._signal(entry, signal.SIGKILL)
        if not await _all_ended(entries, _DISOBEDIENT_SECONDS):
            names = ", ".join(one.facts.name for one in entries if not one.ended.is_set())
            raise RuntimeFailure(f"{names}: killed, but the kernel does not let go of it")

    async def _signal(self, entry: ContainerEntry, number: int) -> bool:
        """Whether it was sent; one that cannot be reached is about to end, which is looked at anyway."""
        try:
            async with asyncio.timeout(_SIGNAL_SECONDS):
                await self._ask(entry, {"op": "signal", "signal": int(number)})
        except (RuntimeFailure, TimeoutError):
            return False
        return True

    async def remove(self, id: str) -> None:
        pod, container = self._book.owner(id)
        if pod is None:
            return
        removed = [container] if container is not None else pod.in_sandbox(id)
        if any(one.is_alive for one in removed):
            raise RuntimeFailure(f'"{id}" still runs')
        for one in removed:
            await self._wards.on_disk(self._folders.remove_container, one.facts.id)
        if container is None:
            await self._wards.on_disk(self._folders.remove_sandbox, id)
        self._book.remove(id)
        self._hints.offer(pod_uid(pod.facts))

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout_seconds: float | None, limit_bytes: int
    ) -> Outcome:
        folder = self._running(container_id)
        async with asyncio.timeout(timeout_seconds), sessions.execute(folder, command) as session:
            output, errors = await sessions.both_outputs(session, limit_bytes)
            return Outcome(await session.exit_code(), (output + errors)[:limit_bytes], errors)

    def execute(
        self, container_id: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AbstractAsyncContextManager[Session]:
        return sessions.execute(self._running(container_id), command, stdin=stdin, tty=tty)

    def attach(self, container_id: str, *, stdin: bool) -> AbstractAsyncContextManager[Session]:
        return sessions.attach(self._running(container_id), stdin=stdin, tty=self._container(container_id).facts.tty)

    def connect(self, sandbox_id: str, port: int) -> AbstractAsyncContextManager[Connection]:
        pod, _ = self._book.owner(sandbox_id)
        if pod is None:
            raise RuntimeFailure(f'sandbox "{sandbox_id}" not found')
        return open_local_port(port, lambda: self._wards.on_disk(own_addresses, port, pod.supervisors()))

    async def reopen_log(self, container_id: str) -> None:
        self._running(container_id)
        await self._ask(self._container(container_id), {"op": "reopen"})

    async def usages(self) -> Mapping[str, Usage]:
        return await self._wards.on_disk(self._usages.read, self._book.supervisors(), self._clock.now())

    async def _ask(self, entry: ContainerEntry, message: dict[str, Any]) -> None:
        await sessions.ask(self._folders.container(entry.facts.id), message)

    def _container(self, container_id: str) -> ContainerEntry:
        _, entry = self._book.owner(container_id)
        if entry is None:
            raise RuntimeFailure(f'container "{container_id}" not found')
        return entry

    def _running(self, container_id: str) -> Path:
        """The folder of a container that runs."""
        if self._container(container_id).tell().state != ContainerState.RUNNING:
            raise RuntimeFailure(f'container "{container_id}" is not running')
        return self._folders.container(container_id)

    async def _write_sandbox(self, record: SandboxRecord) -> None:
        try:
            await self._wards.on_disk(self._folders.write_sandbox, record)
        except OSError as error:
            raise RuntimeFailure(f"the sandbox cannot be recorded: {error.strerror}") from error
        self._book.put_sandbox(record)
        self._hints.offer(pod_uid(record.pod))

    def _note_change(self, entry: ContainerEntry) -> None:
        self._book.touch(entry)
        self._hints.offer(pod_uid(entry.facts.pod))

    def _new_id(self) -> str:
        return hashlib.sha256(self._ids.uid().encode()).hexdigest()


async def _all_ended(entries: Sequence[ContainerEntry], seconds: float) -> bool:
    """Whether all have ended, after waiting for them for so long at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for entry in entries:
                await entry.ended.wait()
            return True
    return all(entry.ended.is_set() for entry in entries)


def _failure(message: dict[str, Any] | None) -> str:
    if message is None:
        return "the supervisor ended before it could start the container"
    return str(message.get("error", ""))


def _myself() -> User:
    return User(uid=os.geteuid(), gid=os.getegid())


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _account(uid: int) -> Account | None:
    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        return None
    return Account(name=found.pw_name, gid=found.pw_gid, home=found.pw_dir)
