"""Pretends to run containers: a Runtime, a ChangeFeed, Commands and Usages in memory.

What it keeps outlives the node that asked for it, as a real runtime's containers do: hand the same one to the next node.
"""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pykubelet.aio.clock import Clock
from pykubelet.api.keys import PodUid
from pykubelet.runtime.changes import Changes
from pykubelet.runtime.log_write import STDOUT, format_lines
from pykubelet.runtime.pod_book import PodBook
from pykubelet.runtime.protocol import (
    ContainerRequest,
    ContainerState,
    Outcome,
    RuntimeFailure,
    RuntimePod,
    SandboxRequest,
)
from pykubelet.runtime.sim.behaviour import Behaviour, Call, behaviour_of
from pykubelet.runtime.usage import Usage

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

    def changes(self) -> Changes:
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
    ) -> Outcome:
        if self._book.container(container_id).state != ContainerState.RUNNING:
            raise RuntimeFailure(f'container "{container_id}" is not running')
        behaviour = self._actors[container_id].behaviour
        async with asyncio.timeout(timeout_seconds):
            await _hang_if(behaviour, "run")
        if behaviour.is_healthy:
            return Outcome(0, b"")
        return Outcome(1, f"{' '.join(command)}: unhealthy".encode()[:limit_bytes])

    async def usages(self) -> Mapping[str, Usage]:
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


def _usage(behaviour: Behaviour, at: datetime) -> Usage:
    return Usage(
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
