"""Runs containers as processes of the machine, each supervised by a shim.

`ProcessRuntime` implements Runtime, ChangeFeed, Commands, Streams, LogWriter and Usages for the duration of a context.
Containers keep running when the context ends or the kubelet is killed; the next one finds them again. Images are only
names: a container runs a command of the machine. This is supervision, not a sandbox: containers see the machine's files
and processes, and its network unless pods have their own.
"""

import asyncio
import hashlib
import os
import pwd
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids
from pykubelet.aio.msgspec_types import register_type
from pykubelet.api.pods import PodUid
from pykubelet.podnetwork.pod_networks import PodNetworkError, PodNetworks
from pykubelet.runtimes.dns import NO_CLUSTER_DNS, ClusterDns
from pykubelet.runtimes.process import streaming
from pykubelet.runtimes.process.cgroups import find_cgroups
from pykubelet.runtimes.process.container_config import (
    Account,
    ProcessHost,
    container_config,
    pod_resolv_conf,
    port_mappings,
    sandbox_record,
)
from pykubelet.runtimes.process.pods import NO_HANDLE, ContainerEntry, ProcessPods
from pykubelet.runtimes.process.port_forward import open_local_port, open_pod_port, own_addresses
from pykubelet.runtimes.process.shim.processes import boot_id
from pykubelet.runtimes.process.shim.rootfs import NO_NAMESPACE
from pykubelet.runtimes.process.shims import ShimLauncher, Shims
from pykubelet.runtimes.process.state import ContainerStartRecord, ProcessUser, SandboxRecord, StateFolders
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

_KILL_SECONDS = 10.0
"""How long a killed container may take to end; one that takes longer hangs in the kernel."""
_KILL_AGAIN_SECONDS = 0.2
"""How long to wait before killing again; a shim needs some milliseconds until it can be asked."""
_SIGNAL_SECONDS = 2.0
"""The timeout of a signal request; a shim answers at once, unless it is stopped itself."""


class ProcessRuntime:
    """Containers as processes, with their state below `root`.

    Pods get networks of their own from `networks`; if these are not enabled, they share the machine's network and its
    addresses `ips`. `way` overrides the detected namespace method of `shim/rootfs.py`. A container has at most `max_pids`
    processes if that is positive.
    """

    def __init__(
        self,
        *,
        root: Path,
        ips: tuple[str, ...],
        clock: Clock,
        ids: Ids,
        way: str | None = None,
        max_pids: int = 0,
        cluster_dns: ClusterDns = NO_CLUSTER_DNS,
        networks: PodNetworks | None = None,
    ) -> None:
        self._cluster_dns, self._networks = cluster_dns, networks or PodNetworks(root.absolute() / "networks")
        self._clock, self._ids, self._way = clock, ids, way
        self._folders, self._launcher, self._hints = StateFolders(root.absolute()), ShimLauncher(), ChangeHints()
        self._boot_id = boot_id()
        self._pods = ProcessPods(self._boot_id, ips)
        self._host = _process_host(max_pids)
        self._usages = UsageReader(cgroups=self._host.cgroups)
        self._shims = Shims(folders=self._folders, clock=clock, changed=self._changed)

    async def __aenter__(self) -> Self:
        """Restore the containers of earlier kubelets; OSError if another kubelet uses the state folder."""
        await self._shims.in_thread(self._folders.open)
        try:
            await self._restore()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def _restore(self) -> None:
        found = await self._launcher.start()
        cgroups = await self._shims.in_thread(find_cgroups)
        self._host = replace(self._host, way=self._way or found, cgroups=cgroups)
        self._usages = UsageReader(cgroups=cgroups)
        await self._restore_sandboxes(await self._shims.in_thread(lambda: list(self._folders.sandboxes())))
        containers = await self._shims.in_thread(lambda: list(self._folders.containers()))
        for entry in await self._shims.restore([ContainerEntry(*known) for known in containers]):
            self._pods.put_container(entry)

    async def _restore_sandboxes(self, records: Sequence[SandboxRecord]) -> None:
        lost = await _lost_networks(self._networks, records, self._boot_id)
        for record in records:
            # A sandbox without its network cannot get containers; the kubelet replaces it.
            self._pods.put_sandbox(msgspec.structs.replace(record, is_stopped=True) if record.id in lost else record)

    async def restore_networks(self) -> None:
        """Stop the sandboxes whose networks are gone because the process that kept them was killed."""
        lost = await _lost_networks(self._networks, records := self._pods.sandboxes(), self._boot_id)
        for record in (one for one in records if one.id in lost):
            await self._record_stop(msgspec.structs.replace(record, is_stopped=True))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching; containers keep running."""
        await self._launcher.close()
        await self._networks.close()
        self._shims.close()
        self._folders.close()

    async def pods(self) -> Sequence[RuntimePod]:
        return list(self._pods.pods())

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        return self._pods.pod(uid)

    def changes(self) -> ChangeSubscription:
        return self._hints.subscribe()

    async def create_sandbox(self, request: SandboxRequest) -> str:
        record = sandbox_record(request, id=_new_id(self._ids), created_at=self._clock.now(), boot_id=self._boot_id)
        has_network = self._networks.is_enabled and not record.host_network
        # In memory before it is on disk, so that a cancelled call leaves nothing unknown behind; ready with its network.
        self._pods.put_sandbox(msgspec.structs.replace(record, is_stopped=has_network))
        try:
            if has_network:
                ports = port_mappings(request.pod)
                with _failures():
                    address = await self._networks.attach(record.id, ports)
                record = msgspec.structs.replace(record, address=address, mappings=ports)
                self._pods.put_sandbox(record)
            await self._write_sandbox(record)
        except RuntimeFailure:
            await self.remove(record.id)
            raise
        self._hints.offer(record.pod.uid)
        return record.id

    async def _write_sandbox(self, record: SandboxRecord) -> None:
        with _failures("the sandbox cannot be recorded"):
            await self._shims.finish_in_thread(self._folders.write_sandbox, record)

    async def create_container(self, request: ContainerRequest) -> str:
        (pod, _), uid = self._pods.owner(request.sandbox_id), request.pod.metadata.uid
        sandbox = pod.sandbox(request.sandbox_id) if pod is not None and pod.facts.uid == uid else None
        if sandbox is None or sandbox.is_stopped or sandbox.boot_id != self._boot_id:
            raise RuntimeFailure(f'sandbox "{request.sandbox_id}" is not ready')
        config = container_config(
            request,
            id=_new_id(self._ids),
            hostname=sandbox.hostname,
            resolv_conf=await self._shims.in_thread(self._write_resolv_conf, request),
            network=str(self._networks.path(sandbox.id)) if sandbox.address else "",
            network_holder=self._networks.holder,
            host=self._host,
            now=self._clock.now(),
        )
        entry = ContainerEntry(config.facts)
        self._pods.put_container(entry)
        try:
            await self._shims.finish_in_thread(self._folders.write_container, config)
        except OSError as error:
            await self.remove(config.facts.id)
            raise RuntimeFailure(f"the container cannot be recorded: {error.strerror}") from error
        self._changed(entry)
        return config.facts.id

    def _write_resolv_conf(self, request: ContainerRequest) -> str:
        """The path of the pod's own resolv.conf; empty if it uses the machine's."""
        text = pod_resolv_conf(request.pod, self._cluster_dns, self._host.way)
        with _failures("the pod's resolv.conf cannot be written"):
            return self._folders.write_resolv_conf(request.sandbox_id, text) if text else ""

    async def start(self, container_id: str) -> None:
        entry = self._container(container_id)
        if entry.is_starting or entry.state is not None or entry.exit is not None:
            raise RuntimeFailure(f'container "{container_id}" was started before')
        entry.is_starting = True
        message = await self._launch(entry)
        if message is None and self._folders.state(container_id) is None:
            # The spawner was killed with our request, and no shim has the container. Read without a thread, because
            # cancelling in between would leave the container undecided; this is very rare.
            message = await self._launch(entry)
        if message is None:
            self._shims.conclude(entry)
        if failure := _failure(message):
            await entry.ended.wait()
            raise RuntimeFailure(failure)

    async def _launch(self, entry: ContainerEntry) -> dict[str, Any] | None:
        """Start a container; the report of its shim, None if there is none."""
        outcome: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()

        def report(message: dict[str, Any] | None) -> None:
            is_awaited = not outcome.done()
            if is_awaited:
                outcome.set_result(message)
            # Also after a cancellation: a container that runs must be recorded.
            if message is not None or not is_awaited:
                self._record_start(entry, message)

        try:
            await self._launcher.launch(self._folders.container(entry.facts.id), report)
        except BaseException:
            # The request was not sent.
            entry.is_starting = False
            raise
        return await outcome

    def _record_start(self, entry: ContainerEntry, message: dict[str, Any] | None) -> None:
        if message is None or "error" in message:
            self._shims.conclude(entry)
            return
        entry.is_starting = False
        entry.state = msgspec.convert(message, register_type(ContainerStartRecord))
        self._changed(entry)
        if entry.state.supervisor is not None:
            self._shims.watch(entry, entry.state.supervisor)

    async def stop(self, id: str, grace_seconds: float) -> None:
        pod, container = self._pods.owner(id)
        if pod is None:
            return
        stopping = [one for one in ([container] if container is not None else pod.in_sandbox(id)) if one.is_alive]
        if grace_seconds > 0:
            for one in stopping:
                await self._signal_stop(one)
        if not await _all_ended(stopping, max(grace_seconds, 0)):
            await self._kill([one for one in stopping if not one.ended.is_set()])
        sandbox = pod.sandbox(id)
        if sandbox is not None and not sandbox.is_stopped:
            with _failures():
                await self._networks.detach(id)
            await self._record_stop(msgspec.structs.replace(sandbox, is_stopped=True))

    async def _signal_stop(self, entry: ContainerEntry) -> None:
        # Only once: many programs treat a second signal differently.
        if not entry.was_signalled:
            entry.was_signalled = await self._signal(entry, entry.facts.stop_signal)

    async def _kill(self, entries: Sequence[ContainerEntry]) -> None:
        deadline = asyncio.get_running_loop().time() + _KILL_SECONDS
        while not await self._ended_by_kill(entries):
            if asyncio.get_running_loop().time() > deadline:
                names = ", ".join(one.facts.name for one in entries if not one.ended.is_set())
                raise RuntimeFailure(f"{names}: killed, but the kernel does not end it")

    async def _ended_by_kill(self, entries: Sequence[ContainerEntry]) -> bool:
        """Kills containers; False if one runs a moment later: a shim that just starts cannot be asked yet."""
        for entry in (one for one in entries if not one.ended.is_set()):
            if entry.handle != NO_HANDLE:
                # The shim itself may be stopped.
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(entry.handle, signal.SIGCONT)
            await self._signal(entry, signal.SIGKILL)
        return await _all_ended(entries, _KILL_AGAIN_SECONDS)

    async def _signal(self, entry: ContainerEntry, number: int) -> bool:
        """Whether the signal was sent; a shim that cannot be reached is about to end."""
        try:
            async with asyncio.timeout(_SIGNAL_SECONDS):
                await self._ask(entry, {"op": "signal", "signal": int(number)})
        except (RuntimeFailure, TimeoutError):
            return False
        return True

    async def remove(self, id: str) -> None:
        pod, container = self._pods.owner(id)
        if pod is None:
            return
        removed = [container] if container is not None else pod.in_sandbox(id)
        if any(one.is_alive for one in removed):
            raise RuntimeFailure(f'"{id}" still {"starts" if any(one.is_starting for one in removed) else "runs"}')
        try:
            for one in removed:
                await self._shims.in_thread(self._folders.remove_container, one.facts.id)
            if container is None:
                with _failures():
                    await self._networks.detach(id)
                await self._shims.in_thread(self._folders.remove_sandbox, id)
        except OSError as error:
            raise RuntimeFailure(f'"{id}" cannot be removed: {error.filename}: {error.strerror}') from error
        self._pods.remove(id)
        self._hints.offer(pod.facts.uid)

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
        pod, _ = self._pods.owner(sandbox_id)
        sandbox = pod.sandbox(sandbox_id) if pod is not None else None
        if pod is None or sandbox is None:
            raise RuntimeFailure(f'sandbox "{sandbox_id}" not found')
        if sandbox.address:
            return open_pod_port(port, lambda family: self._networks.open_socket(sandbox_id, family))
        return open_local_port(port, lambda: self._shims.in_thread(own_addresses, port, pod.supervisors()))

    async def reopen_log(self, container_id: str) -> None:
        self._running(container_id)
        await self._ask(self._container(container_id), {"op": "reopen"})

    async def usages(self) -> Mapping[str, ContainerResourceUsage]:
        return await self._shims.in_thread(self._usages.read, self._pods.supervisors(), self._clock.now())

    async def _ask(self, entry: ContainerEntry, message: dict[str, Any]) -> None:
        await streaming.ask(self._folders.container(entry.facts.id), message)

    def _container(self, container_id: str) -> ContainerEntry:
        _, entry = self._pods.owner(container_id)
        if entry is None:
            raise RuntimeFailure(f'container "{container_id}" not found')
        return entry

    def _running(self, container_id: str) -> Path:
        """The state folder of a running container; RuntimeFailure if it does not run."""
        if self._container(container_id).value().state != ContainerState.RUNNING:
            raise RuntimeFailure(f'container "{container_id}" is not running')
        return self._folders.container(container_id)

    async def _record_stop(self, record: SandboxRecord) -> None:
        await self._write_sandbox(record)
        self._pods.put_sandbox(record)
        self._hints.offer(record.pod.uid)

    def _changed(self, entry: ContainerEntry) -> None:
        self._pods.touch(entry)
        self._hints.offer(entry.facts.pod.uid)


class ProcessImages:
    """Images for a runtime without images: every image counts as present and runs as user `uid`."""

    def __init__(self, uid: int) -> None:
        self._uid = uid

    async def find(self, name: str) -> Image | None:
        return self._image(name)

    async def pull(self, name: str, credentials: Sequence[RegistryCredentials]) -> Image:  # noqa: ARG002  nothing is pulled
        return self._image(name)

    async def images(self) -> Sequence[Image]:
        return ()

    async def remove_image(self, id: str) -> None:
        """Does nothing: there are no images."""

    def _image(self, name: str) -> Image:
        digest = hashlib.sha256(name.encode()).hexdigest()
        return Image(id=f"sha256:{digest}", names=(name,), user=str(self._uid))


async def _lost_networks(networks: PodNetworks, records: Sequence[SandboxRecord], boot_id: str) -> Collection[str]:
    """Take over the networks of sandboxes; returns the sandboxes whose networks are gone."""
    known = {one.id: one.address for one in records if one.address and one.value(boot_id, ()).is_ready}
    _, last = max(((one.created_at, one.address) for one in records if one.address), default=(None, ""))
    with _failures():
        return await networks.open(known, last, {one.id: one.mappings for one in records})


def _new_id(ids: Ids) -> str:
    return hashlib.sha256(ids.uid().encode()).hexdigest()


async def _all_ended(entries: Sequence[ContainerEntry], seconds: float) -> bool:
    """Waits until all have ended, for at most `seconds`; whether they have."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for entry in entries:
                await entry.ended.wait()
            return True
    return all(entry.ended.is_set() for entry in entries)


@contextmanager
def _failures(what: str = "") -> Iterator[None]:
    """Translates errors of files, which `what` describes, and of pod networks."""
    try:
        yield
    except PodNetworkError as error:
        raise RuntimeFailure(str(error)) from error
    except OSError as error:
        raise RuntimeFailure(f"{what}: {error.strerror}") from error


def _process_host(max_pids: int) -> ProcessHost:
    return ProcessHost(
        me=ProcessUser(uid=os.geteuid(), gid=os.getegid()),
        account=_account,
        way=NO_NAMESPACE,
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        max_pids=max_pids,
    )


def _failure(message: dict[str, Any] | None) -> str:
    if message is None:
        return "the shim ended before it could start the container"
    return str(message.get("error", ""))


def _account(uid: int) -> Account | None:
    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        return None
    return Account(name=found.pw_name, gid=found.pw_gid, home=found.pw_dir)
