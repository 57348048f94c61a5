"""Pretends to run containers: a Runtime, a ChangeFeed, Commands and Usages in memory.

What it keeps outlives the node that asked for it, as a real runtime's containers do: hand the same one to the next node.

Images that only pretend: present, slow to pull or broken, as scripted by their name.

Requests to simulated pods: answered by whoever would listen there.

How a simulated container behaves: data, from a test or from the annotations of its pod.

An annotation `sim.pykubelet.dev/<container>: '{"runs": [{"seconds": 2, "exitCode": 1}]}'` is a crash loop.
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
from pykubelet.httpserver.http_client import HttpFailure, HttpGetRequest
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

ANNOTATION = "sim.pykubelet.dev/"
"""The container's name follows."""

Call = Literal["create", "start", "stop", "run"]


class ContainerRun(Struct, frozen=True, gc=False, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One run of a container; without `seconds` it lasts until it is stopped."""

    seconds: float | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""


FOREVER = ContainerRun()


class Behaviour(Struct, frozen=True, gc=False, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a container does. The default starts at once, is healthy, runs until it is stopped, and then obeys at once."""

    create_error: str = ""
    start_error: str = ""
    start_seconds: float = 0.0
    runs: tuple[ContainerRun, ...] = ()
    """One for each attempt, the last of them for all that follow."""
    stop_seconds: float = 0.0
    """From being told to stop to having stopped; more than the grace means it gets killed."""
    stop_exit_code: int = 0
    is_healthy: bool = True
    """What commands and requests find: 0 and 200, or 1 and 503."""
    hangs_on: tuple[Call, ...] = ()
    """Calls that never answer: a stuck shim."""
    output: tuple[str, ...] = ()
    """What each run writes to its log when it starts."""
    memory_bytes: int = 0
    """What it uses while it runs, likewise below."""
    layer_bytes: int = 0
    processes: int = 1

    def run_of(self, attempt: int) -> ContainerRun:
        """What the container does at this attempt."""
        return self.runs[min(attempt, len(self.runs) - 1)] if self.runs else FOREVER


class ImageBehaviour(Struct, frozen=True, gc=False, kw_only=True):
    """An image: whether it is here already, how long a pull takes, and why it fails, if it does."""

    is_present: bool = False
    pull_seconds: float = 0.0
    pull_error: str = ""
    find_error: str = ""
    user: str | None = None
    needs_user: str = ""
    """Only with credentials of this user name it is given."""
    size_bytes: int = 1_000_000
    is_pinned: bool = False
    remove_error: str = ""


def behaviour_of(pod: Pod, container: str, scripts: Mapping[str, Behaviour], default: Behaviour) -> Behaviour:
    """How a container behaves: as its pod's annotation says, else the script of its name, else as all others."""
    annotation = pod.metadata.annotations.get(ANNOTATION + container)
    if annotation is None:
        return scripts.get(container, default)
    try:
        return msgspec.json.decode(annotation, type=register_type(Behaviour))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RuntimeFailure(f"annotation {ANNOTATION}{container}: {error}") from error


KILLED = 137
"""What a container ends with that would not end by itself."""
_START_FAILED = 128


@dataclass(slots=True, eq=False)
class _Actor:
    """Plays one container: how it behaves, and when it ends."""

    behaviour: Behaviour
    log_path: str
    timer: asyncio.TimerHandle | None = None
    told_to_stop_at: float | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class SimRuntime:
    """A runtime whose containers do what scripts say, by the name of the container or the annotations of its pod."""

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
        """By the id of the sandbox."""
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
            self._tell_to_stop(container_id, grace_seconds)
        for container_id in stopping:
            await self._actors[container_id].ended.wait()
        self._book.note_stop(id)

    async def remove(self, id: str) -> None:
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
        """Whether a request to this address finds a healthy pod; None if nobody listens there."""
        pod = self._book.inspect(self._pods_by_ip.get(ip, PodUid("")))
        if pod is None or not any(ip in sandbox.ips and sandbox.is_ready for sandbox in pod.sandboxes):
            return None
        running = [one for one in pod.containers if one.state == ContainerState.RUNNING]
        return all(self._actors[one.id].behaviour.is_healthy for one in running) if running else None

    def behave(self, uid: PodUid, name: str, behaviour: Behaviour) -> None:
        """Have the newest container of this name behave otherwise from now on."""
        self._actors[self._newest(uid, name)].behaviour = behaviour

    def crash(self, uid: PodUid, name: str, exit_code: int = 1, reason: str = "") -> None:
        """Let a running container end by itself, now."""
        self._end(self._newest(uid, name), exit_code, reason)

    def lose_sandbox(self, uid: PodUid) -> None:
        """Let the newest sandbox of a pod die, and all in it, as when the machine was started anew."""
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

    def _tell_to_stop(self, container_id: str, grace_seconds: float) -> None:
        actor = self._actors[container_id]
        if "stop" in actor.behaviour.hangs_on:
            return
        now = asyncio.get_running_loop().time()
        if actor.told_to_stop_at is None:
            actor.told_to_stop_at = now
        obeys_in = actor.told_to_stop_at + actor.behaviour.stop_seconds - now
        if obeys_in <= grace_seconds:
            self._schedule(container_id, max(obeys_in, 0), actor.behaviour.stop_exit_code)
        else:
            self._schedule(container_id, grace_seconds, KILLED)

    def _schedule(self, container_id: str, seconds: float, *how: Any) -> None:
        """Let a container end in a while, unless it ends before anyway."""
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
        # Nobody sets it.
        await asyncio.Event().wait()


class SimHttpClient:
    """Asks simulated pods; an HttpDoor."""

    def __init__(self, runtime: SimRuntime) -> None:
        self._runtime = runtime

    async def get(self, request: HttpGetRequest) -> int:
        is_healthy = self._runtime.health_at(request.host)
        if is_healthy is None:
            raise HttpFailure(f"cannot connect to {request.host_port}: connection refused")
        return 200 if is_healthy else 503


class SimImages:
    """The images of a simulated machine, on a disk of their own; one of no script is pulled at once. Also an ImageFs."""

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
        """Have the image behave like this from now on."""
        self._scripts[name] = behaviour

    def _script(self, name: str) -> ImageBehaviour:
        return self._scripts.get(name) or ImageBehaviour()


def _image(name: str, script: ImageBehaviour) -> Image:
    digest = hashlib.sha256(name.encode()).hexdigest()
    return Image(
        id=f"sha256:{digest}",
        names=(name,),
        size_bytes=script.size_bytes,
        user=script.user,
        is_pinned=script.is_pinned,
    )
