"""A simulated runtime in memory: containers, images and HTTP answers that follow scripts.

It implements Runtime, ChangeFeed, Commands and Usages. Its state outlives a node, as a real runtime's: pass the same object
to the next node. Behaviour comes from the test or from annotations of the pod:
`sim.pykubelet.dev/<container>: '{"runs": [{"seconds": 2, "exitCode": 1}]}'` is a crash loop.
"""

import asyncio
import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from pykubelet.aio.clock import Clock
from pykubelet.aio.msgspec_types import register_type
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import PodUid
from pykubelet.httpserver.http_client import HttpGetRequest
from pykubelet.httpserver.http_failure import HttpFailure
from pykubelet.runtimes.log_format import STDOUT, format_lines
from pykubelet.runtimes.pod_book import PodBook
from pykubelet.runtimes.protocol import (
    ChangeSubscription,
    CommandResult,
    ContainerRequest,
    ContainerResourceUsage,
    ContainerState,
    FileSystem,
    Image,
    RegistryCredentials,
    RuntimeFailure,
    RuntimePod,
    SandboxRequest,
)

KILLED = 137
"""The exit code of a killed container."""
_START_FAILED = 128
ANNOTATION = "sim.pykubelet.dev/"
"""The prefix of the annotation; the container's name follows."""

Call = Literal["create", "start", "stop", "run"]


class ContainerRun(Struct, frozen=True, gc=False, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One run of a container; without `seconds` it lasts until it is stopped."""

    seconds: float | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""


FOREVER = ContainerRun()


class Behaviour(Struct, frozen=True, gc=False, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The script of a container. By default it starts at once, is healthy, and runs until it is stopped."""

    create_error: str = ""
    start_error: str = ""
    start_seconds: float = 0.0
    runs: tuple[ContainerRun, ...] = ()
    """One for each attempt; the last one repeats."""
    stop_seconds: float = 0.0
    """The time from the stop signal to the end; the container is killed if the grace period is shorter."""
    stop_exit_code: int = 0
    is_healthy: bool = True
    """Commands return 0 and requests 200, or 1 and 503."""
    hangs_on: tuple[Call, ...] = ()
    """Calls that never return, as with a stuck shim."""
    output: tuple[str, ...] = ()
    """The lines that each run writes to its log when it starts."""
    memory_bytes: int = 0
    """The usage while it runs, likewise below."""
    layer_bytes: int = 0
    processes: int = 1

    def run_of(self, attempt: int) -> ContainerRun:
        return self.runs[min(attempt, len(self.runs) - 1)] if self.runs else FOREVER


class ImageBehaviour(Struct, frozen=True, gc=False, kw_only=True):
    """The script of an image: whether it is present, how long a pull takes, and the errors."""

    is_present: bool = False
    pull_seconds: float = 0.0
    pull_error: str = ""
    find_error: str = ""
    user: str | None = None
    needs_user: str = ""
    """The pull needs credentials with this user name."""
    size_bytes: int = 1_000_000
    is_pinned: bool = False
    remove_error: str = ""


def behaviour_of(pod: Pod, container: str, scripts: Mapping[str, Behaviour], default: Behaviour) -> Behaviour:
    """The script of a container: its pod's annotation, else the script for its name, else the default."""
    annotation = pod.metadata.annotations.get(ANNOTATION + container)
    if annotation is None:
        return scripts.get(container, default)
    try:
        return msgspec.json.decode(annotation, type=register_type(Behaviour))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RuntimeFailure(f"annotation {ANNOTATION}{container}: {error}") from error


@dataclass(slots=True, eq=False)
class _Actor:
    """A simulated container: its script, and when it ends."""

    behaviour: Behaviour
    log_path: str
    is_starting: bool = False
    timer: asyncio.TimerHandle | None = None
    stop_signalled_at: float | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class SimRuntime:
    """A runtime whose containers follow scripts, given by container name or by annotations of the pod."""

    def __init__(
        self,
        *,
        clock: Clock,
        scripts: Mapping[str, Behaviour] | None = None,
        default: Behaviour | None = None,
        sandbox_seconds: float = 0.0,
    ) -> None:
        self._clock, self._sandbox_seconds = clock, sandbox_seconds
        self._scripts, self._default = dict(scripts or {}), default or Behaviour()
        self._book = PodBook(clock)
        self._actors: dict[str, _Actor] = {}
        self._addresses = itertools.count(1)
        self._ips: dict[str, str] = {}
        """The address of each sandbox id."""
        self._pods_by_ip: dict[str, PodUid] = {}

    async def pods(self) -> Sequence[RuntimePod]:
        return self._book.pods()

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        return self._book.inspect(uid)

    def changes(self) -> ChangeSubscription:
        return self._book.changes()

    async def create_sandbox(self, request: SandboxRequest) -> str:
        if self._sandbox_seconds:
            await asyncio.sleep(self._sandbox_seconds)
        number = next(self._addresses)
        ip = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        sandbox_id = self._book.add_sandbox(request, ips=(ip,))
        self._ips[sandbox_id], self._pods_by_ip[ip] = ip, PodUid(request.pod.metadata.uid)
        return sandbox_id

    async def create_container(self, request: ContainerRequest) -> str:
        behaviour = behaviour_of(request.pod, request.container.name, self._scripts, self._default)
        await _hang_if(behaviour, "create")
        if behaviour.create_error:
            raise RuntimeFailure(behaviour.create_error)
        container_id = self._book.add_container(request)
        self._actors[container_id] = _Actor(behaviour, request.log_path)
        return container_id

    async def start(self, container_id: str) -> None:
        self._book.container(container_id)
        actor = self._actors[container_id]
        actor.is_starting = True
        try:
            await self._start(container_id, actor)
        finally:
            actor.is_starting = False

    async def _start(self, container_id: str, actor: _Actor) -> None:
        await _hang_if(actor.behaviour, "start")
        if actor.behaviour.start_seconds:
            await asyncio.sleep(actor.behaviour.start_seconds)
        container = self._book.container(container_id)
        if container.state != ContainerState.CREATED:
            raise RuntimeFailure(f'container "{container_id}" was started before')
        if actor.behaviour.output:
            await asyncio.to_thread(_write_output, actor, int(self._clock.now().timestamp()) * 10**9)
        self._book.note_start(container_id)
        if actor.behaviour.start_error:
            self._end(container_id, _START_FAILED, "StartError", actor.behaviour.start_error)
            raise RuntimeFailure(actor.behaviour.start_error)
        run = actor.behaviour.run_of(container.attempt)
        if run.seconds is not None:
            self._schedule(container_id, run.seconds, run.exit_code, run.reason, run.message)

    async def stop(self, id: str, grace_seconds: float) -> None:
        stopping = [container.id for container in self._book.running_in(id)]
        for container_id in stopping:
            self._signal_stop(container_id, grace_seconds)
        for container_id in stopping:
            await self._actors[container_id].ended.wait()
        self._book.note_stop(id)

    async def remove(self, id: str) -> None:
        # As containerd does: otherwise a start could succeed after the removal.
        if any(self._actors[one.id].is_starting for one in self._book.containers_in(id)):
            raise RuntimeFailure(f'"{id}" still starts')
        for gone in self._book.remove(id):
            self._actors.pop(gone, None)
            self._pods_by_ip.pop(self._ips.pop(gone, ""), None)

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout_seconds: float | None, limit_bytes: int
    ) -> CommandResult:
        if self._book.container(container_id).state != ContainerState.RUNNING:
            raise RuntimeFailure(f'container "{container_id}" is not running')
        behaviour = self._actors[container_id].behaviour
        async with asyncio.timeout(timeout_seconds):
            await _hang_if(behaviour, "run")
        if behaviour.is_healthy:
            return CommandResult(0, b"")
        return CommandResult(1, f"{' '.join(command)}: unhealthy".encode()[:limit_bytes])

    async def usages(self) -> Mapping[str, ContainerResourceUsage]:
        running = (one for pod in self._book.pods() for one in pod.containers if one.state == ContainerState.RUNNING)
        return {one.id: _usage(self._actors[one.id].behaviour, self._clock.now()) for one in running}

    def health_at(self, ip: str) -> bool | None:
        """Whether the pod at this address is healthy; None if nothing listens there."""
        pod = self._book.inspect(self._pods_by_ip.get(ip, PodUid("")))
        if pod is None or not any(ip in sandbox.ips and sandbox.is_ready for sandbox in pod.sandboxes):
            return None
        running = [one for one in pod.containers if one.state == ContainerState.RUNNING]
        return all(self._actors[one.id].behaviour.is_healthy for one in running) if running else None

    def behave(self, uid: PodUid, name: str, behaviour: Behaviour) -> None:
        """Change the script of the newest container with this name."""
        self._actors[self._newest(uid, name)].behaviour = behaviour

    def crash(self, uid: PodUid, name: str, exit_code: int = 1, reason: str = "") -> None:
        """End a running container now, as if by itself."""
        self._end(self._newest(uid, name), exit_code, reason)

    def lose_sandbox(self, uid: PodUid) -> None:
        """Kill the newest sandbox of a pod and its containers, as a reboot does."""
        pod = self._book.inspect(uid)
        assert pod is not None
        for container in self._book.running_in(pod.sandboxes[0].id):
            self._end(container.id, KILLED)
        self._book.note_stop(pod.sandboxes[0].id)

    def _newest(self, uid: PodUid, name: str) -> str:
        pod = self._book.inspect(uid)
        container = pod.newest(name) if pod is not None else None
        if container is None:
            raise RuntimeFailure(f'pod "{uid}" has no container "{name}"')
        return container.id

    def _signal_stop(self, container_id: str, grace_seconds: float) -> None:
        actor = self._actors[container_id]
        if "stop" in actor.behaviour.hangs_on:
            return
        now = asyncio.get_running_loop().time()
        if actor.stop_signalled_at is None:
            actor.stop_signalled_at = now
        ends_in = actor.stop_signalled_at + actor.behaviour.stop_seconds - now
        if ends_in <= grace_seconds:
            self._schedule(container_id, max(ends_in, 0), actor.behaviour.stop_exit_code)
        else:
            self._schedule(container_id, grace_seconds, KILLED)

    def _schedule(self, container_id: str, seconds: float, *how: Any) -> None:
        """End a container after some time, unless it ends before."""
        loop, actor = asyncio.get_running_loop(), self._actors[container_id]
        if actor.timer is None or loop.time() + seconds < actor.timer.when():
            if actor.timer is not None:
                actor.timer.cancel()
            actor.timer = loop.call_later(seconds, self._end, container_id, *how)

    def _end(self, container_id: str, exit_code: int, reason: str = "", message: str = "") -> None:
        actor = self._actors[container_id]
        if actor.timer is not None:
            actor.timer.cancel()
        self._book.note_exit(container_id, exit_code, reason, message)
        actor.ended.set()


def _write_output(actor: _Actor, at_nanoseconds: int) -> None:
    text = "".join(f"{line}\n" for line in actor.behaviour.output)
    with Path(actor.log_path).open("ab") as file:
        file.write(format_lines(at_nanoseconds, STDOUT, text.encode()))


def _usage(behaviour: Behaviour, at: datetime) -> ContainerResourceUsage:
    return ContainerResourceUsage(
        at=at,
        memory_bytes=behaviour.memory_bytes,
        working_set_bytes=behaviour.memory_bytes,
        layer_bytes=behaviour.layer_bytes,
        processes=behaviour.processes,
    )


async def _hang_if(behaviour: Behaviour, call: Call) -> None:
    if call in behaviour.hangs_on:
        await asyncio.Event().wait()


class SimHttpClient:
    """An HttpGetter that gets answers from simulated pods."""

    def __init__(self, runtime: SimRuntime) -> None:
        self._runtime = runtime

    async def get(self, request: HttpGetRequest) -> int:
        is_healthy = self._runtime.health_at(request.host)
        if is_healthy is None:
            raise HttpFailure(f"cannot connect to {request.host_port}: connection refused")
        return 200 if is_healthy else 503


class SimImages:
    """Images and ImageFs of a simulated machine; an image without a script is pulled at once."""

    def __init__(
        self, scripts: Mapping[str, ImageBehaviour] | None = None, *, disk_bytes: int = 1_000_000_000_000
    ) -> None:
        self._scripts, self._disk_bytes = dict(scripts or {}), disk_bytes
        self._present: dict[str, Image] = {}
        for name, script in self._scripts.items():
            if script.is_present:
                self._present[name] = _image(name, script)

    async def find(self, name: str) -> Image | None:
        error = self._script(name).find_error
        if error:
            raise RuntimeFailure(error)
        return self._present.get(name)

    async def pull(self, name: str, credentials: Sequence[RegistryCredentials]) -> Image:
        script = self._script(name)
        await asyncio.sleep(script.pull_seconds)
        if script.pull_error:
            raise RuntimeFailure(script.pull_error)
        if script.needs_user and script.needs_user not in {one.username for one in credentials}:
            raise RuntimeFailure(f"{name}: pull access denied")
        return self._present.setdefault(name, _image(name, script))

    async def images(self) -> Sequence[Image]:
        return list(self._present.values())

    async def remove_image(self, id: str) -> None:
        error = next((self._script(name).remove_error for name, one in self._present.items() if one.id == id), "")
        if error:
            raise RuntimeFailure(error)
        self._present = {name: image for name, image in self._present.items() if image.id != id}

    async def image_file_system(self) -> FileSystem:
        used = sum(image.size_bytes for image in self._present.values())
        return FileSystem(device=0, capacity_bytes=self._disk_bytes, available_bytes=max(self._disk_bytes - used, 0))

    def script(self, name: str, behaviour: ImageBehaviour) -> None:
        self._scripts[name] = behaviour

    def _script(self, name: str) -> ImageBehaviour:
        return self._scripts.get(name) or ImageBehaviour()


def _image(name: str, script: ImageBehaviour) -> Image:
    digest = hashlib.sha256(name.encode()).hexdigest()
    return Image(
        id=f"sha256:{digest}", names=(name,), size_bytes=script.size_bytes, user=script.user, is_pinned=script.is_pinned
    )
