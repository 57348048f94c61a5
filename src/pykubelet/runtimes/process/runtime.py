"""Runs containers as processes: Runtime, ChangeFeed, Commands, Streams, LogWriter, Usages.

Open it for the length of a context. Whatever it started goes on when that is left, or the agent is killed, and the next
one finds it again. It is supervision, not a sandbox: containers see the machine's files, processes and network.

The images of a machine that has none: every name is one, and it is here already.

A container runs a command of the machine, whatever its image is called.
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
from pykubelet.aio.msgspec_types import register_type
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.process import streaming
from pykubelet.runtimes.process.cgroups import find_cgroups
from pykubelet.runtimes.process.container_config import Account, ProcessHost, container_config, sandbox_record
from pykubelet.runtimes.process.pods import NO_HANDLE, ContainerEntry, ProcessPods
from pykubelet.runtimes.process.port_forward import open_local_port, own_addresses
from pykubelet.runtimes.process.shim.processes import boot_id
from pykubelet.runtimes.process.shim.view import NO_NAMESPACE
from pykubelet.runtimes.process.shims import ShimLauncher, Shims
from pykubelet.runtimes.process.state import ContainerStartRecord, ProcessUser, SandboxRecord, StateFolders, pod_uid
from pykubelet.runtimes.process.stats import UsageReader
from pykubelet.runtimes.protocol import (
    ChangeHints,
    ChangeSubscription,
    CommandResult,
    ContainerRequest,
    ContainerResourceUsage,
    ContainerState,
    ExecSession,
    Image,
    PortForwardConnection,
    RegistryCredentials,
    RuntimeFailure,
    RuntimePod,
    SandboxRequest,
)


class ProcessImages:
    """Says yes to every image. `uid` is who runs containers that name no user, for pods that must not run as root."""

    def __init__(self, uid: int) -> None:
        self._uid = uid

    async def find(self, name: str) -> Image | None:
        return self._image(name)

    async def pull(self, name: str, credentials: Sequence[RegistryCredentials]) -> Image:  # noqa: ARG002  nobody is asked
        return self._image(name)

    async def images(self) -> Sequence[Image]:
        return ()

    async def remove_image(self, id: str) -> None:
        """Nothing is kept, so there is nothing to remove."""

    def _image(self, name: str) -> Image:
        digest = hashlib.sha256(name.encode()).hexdigest()
        return Image(id=f"sha256:{digest}", names=(name,), user=str(self._uid))


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
        self._folders, self._launcher, self._hints = StateFolders(root.absolute()), ShimLauncher(), ChangeHints()
        self._boot_id = boot_id()
        self._book = ProcessPods(self._boot_id, ips)
        self._machine = ProcessHost(
            me=_myself(), account=_account, way=NO_NAMESPACE, memory_bytes=_memory_bytes(), max_pids=max_pids
        )
        self._usages = UsageReader(cgroups=self._machine.cgroups)
        self._wards = Shims(folders=self._folders, clock=clock, changed=self._note_change)

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

    def changes(self) -> ChangeSubscription:
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
        entry.state = msgspec.convert(message, register_type(ContainerStartRecord))
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
    ) -> CommandResult:
        folder = self._running(container_id)
        async with asyncio.timeout(timeout_seconds), streaming.execute(folder, command) as session:
            output, errors = await streaming.both_outputs(session, limit_bytes)
            return CommandResult(await session.exit_code(), (output + errors)[:limit_bytes], errors)

    def execute(
        self, container_id: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AbstractAsyncContextManager[ExecSession]:
        return streaming.execute(self._running(container_id), command, stdin=stdin, tty=tty)

    def attach(self, container_id: str, *, stdin: bool) -> AbstractAsyncContextManager[ExecSession]:
        return streaming.attach(self._running(container_id), stdin=stdin, tty=self._container(container_id).facts.tty)

    def connect(self, sandbox_id: str, port: int) -> AbstractAsyncContextManager[PortForwardConnection]:
        pod, _ = self._book.owner(sandbox_id)
        if pod is None:
            raise RuntimeFailure(f'sandbox "{sandbox_id}" not found')
        return open_local_port(port, lambda: self._wards.on_disk(own_addresses, port, pod.supervisors()))

    async def reopen_log(self, container_id: str) -> None:
        self._running(container_id)
        await self._ask(self._container(container_id), {"op": "reopen"})

    async def usages(self) -> Mapping[str, ContainerResourceUsage]:
        return await self._wards.on_disk(self._usages.read, self._book.supervisors(), self._clock.now())

    async def _ask(self, entry: ContainerEntry, message: dict[str, Any]) -> None:
        await streaming.ask(self._folders.container(entry.facts.id), message)

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


def _myself() -> ProcessUser:
    return ProcessUser(uid=os.geteuid(), gid=os.getegid())


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _account(uid: int) -> Account | None:
    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        return None
    return Account(name=found.pw_name, gid=found.pw_gid, home=found.pw_dir)
