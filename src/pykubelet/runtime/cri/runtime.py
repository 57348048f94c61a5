"""Runs containers through CRI: Runtime, ChangeFeed, Commands, LogWriter.

Upstream: pkg/kubelet/kuberuntime, the calls of k8s.io/cri-client/pkg/remote_runtime.go and how long each may take
"""

import asyncio
import math
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cri_api.v1 import api_pb2 as cri

from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.runtime.changes import ChangeHints, Changes
from pykubelet.runtime.cri.channel import DEADLINE_EXCEEDED, NOT_FOUND, USUAL_SECONDS, Channel, CriFailure
from pykubelet.runtime.cri.container_config import container_config
from pykubelet.runtime.cri.deeds import Deeds
from pykubelet.runtime.cri.dns import Resolver
from pykubelet.runtime.cri.facts import Machine
from pykubelet.runtime.cri.images import CriImages
from pykubelet.runtime.cri.labels import HOSTNAME
from pykubelet.runtime.cri.looks import Looks
from pykubelet.runtime.cri.machine import read_resolver
from pykubelet.runtime.cri.pod_cgroups import PodCgroups
from pykubelet.runtime.cri.sandbox_config import sandbox_config
from pykubelet.runtime.cri.security import effective_user
from pykubelet.runtime.protocol import (
    ContainerRequest,
    ContainerState,
    Outcome,
    RuntimeFailure,
    RuntimePod,
    SandboxRequest,
)

_START_SECONDS = 5.0


class CriRuntime:
    """A container runtime that serves CRI."""

    def __init__(
        self, *, channel: Channel, looks: Looks, images: CriImages, hints: ChangeHints, deeds: Deeds, machine: Machine
    ) -> None:
        self._channel, self._looks, self._images, self._hints, self._deeds = channel, looks, images, hints, deeds
        self._machine, self._cgroups = machine, PodCgroups(machine)
        self._configs: dict[str, cri.PodSandboxConfig] = {}
        """By the id of the sandbox, as far as this process made it."""

    async def pods(self) -> Sequence[RuntimePod]:
        return await self._looks.everything()

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        return await self._looks.of_pod(uid)

    def changes(self) -> Changes:
        return self._hints.subscribe()

    async def create_sandbox(self, request: SandboxRequest) -> str:
        config = sandbox_config(request, self._machine, await asyncio.to_thread(self._make_ready_for, request.pod))
        # A sandbox may have to wait for its image and its network.
        asked = cri.RunPodSandboxRequest(config=config, runtime_handler=request.handler)
        answer = await self._channel.ask(asked, cri.RunPodSandboxResponse, timeout_seconds=2 * USUAL_SECONDS)
        id = answer.pod_sandbox_id
        self._looks.note_made(id, PodUid(request.pod.metadata.uid), is_sandbox=True)
        self._configs[id] = config
        return id

    def _make_ready_for(self, pod: Pod) -> Resolver:
        self._cgroups.make(pod)
        return read_resolver()

    async def create_container(self, request: ContainerRequest) -> str:
        try:
            sandbox = self._configs.get(request.sandbox_id) or await self._sandbox_again(request)
            has_user = effective_user(request.pod, request.container) is not None
            image_user = "" if has_user else await self._images.user_of(request.image_id)
            config = container_config(
                request, self._machine, log_directory=sandbox.log_directory, image_user=image_user or "0"
            )
            answer = await self._channel.ask(
                cri.CreateContainerRequest(pod_sandbox_id=request.sandbox_id, config=config, sandbox_config=sandbox),
                cri.CreateContainerResponse,
            )
        except CriFailure as failure:
            raise failure.plain() from failure
        self._looks.note_made(answer.container_id, PodUid(request.pod.metadata.uid), is_sandbox=False)
        return answer.container_id

    async def _sandbox_again(self, request: ContainerRequest) -> cri.PodSandboxConfig:
        """How a sandbox was asked for by a node before this one; CRI wants to hear it again with each container."""
        status = await self._looks.sandbox_status(request.sandbox_id)
        if status is None:
            raise RuntimeFailure(f'sandbox "{request.sandbox_id}" not found')
        again = SandboxRequest(
            pod=request.pod,
            attempt=status.metadata.attempt,
            hostname=status.annotations.get(HOSTNAME) or request.pod.spec.hostname or request.pod.metadata.name,
            # Logs are at <log directory>/<container>/<attempt>.log.
            log_directory=posixpath.dirname(posixpath.dirname(request.log_path)),
        )
        config = sandbox_config(again, self._machine, await asyncio.to_thread(read_resolver))
        self._configs[request.sandbox_id] = config
        return config

    async def start(self, container_id: str) -> None:
        request = cri.StartContainerRequest(container_id=container_id)
        try:
            with self._deeds.on(container_id):
                # Given up in the middle, the container would be killed and shown as one that could not be started.
                await self._channel.ask(request, cri.StartContainerResponse, finish_seconds=_START_SECONDS)
        except CriFailure as failure:
            raise failure.plain() from failure

    async def stop(self, id: str, grace_seconds: float) -> None:
        grace_seconds = max(grace_seconds, 0)
        if not await self._looks.is_sandbox(id):
            await self._stop_container(id, grace_seconds)
            return
        if grace_seconds > 0:
            # What does not end by itself now ends with the sandbox.
            stopping = [self._stop_container(one, grace_seconds) for one in await self._running_in(id)]
            await asyncio.gather(*stopping, return_exceptions=True)
        with _gone_is_fine(), self._deeds.on(id):
            await self._channel.ask(cri.StopPodSandboxRequest(pod_sandbox_id=id), cri.StopPodSandboxResponse)
        if (uid := self._looks.owner(id)) is not None:
            await asyncio.to_thread(self._cgroups.remove, uid)

    async def _running_in(self, sandbox_id: str) -> list[str]:
        uid = await self._looks.find_owner(sandbox_id)
        pod = await self._looks.of_pod(uid) if uid is not None else None
        containers = pod.containers if pod is not None else ()
        return [one.id for one in containers if one.sandbox_id == sandbox_id and one.state == ContainerState.RUNNING]

    async def _stop_container(self, id: str, grace_seconds: float) -> None:
        whole_seconds = math.ceil(grace_seconds)
        try:
            # CRI has whole seconds only. A stop that is given up leaves the container as it is, signalled once.
            async with asyncio.timeout(None if whole_seconds == grace_seconds else grace_seconds):
                await self._ask_to_stop(id, whole_seconds)
        except TimeoutError:
            await self._ask_to_stop(id, 0)

    async def _ask_to_stop(self, id: str, seconds: int) -> None:
        request = cri.StopContainerRequest(container_id=id, timeout=seconds)
        with _gone_is_fine(), self._deeds.on(id):
            await self._channel.ask(request, cri.StopContainerResponse, timeout_seconds=seconds + USUAL_SECONDS)

    async def remove(self, id: str) -> None:
        with _gone_is_fine(), self._deeds.on(id):
            if await self._looks.is_sandbox(id):
                await self._channel.ask(cri.RemovePodSandboxRequest(pod_sandbox_id=id), cri.RemovePodSandboxResponse)
            else:
                await self._channel.ask(cri.RemoveContainerRequest(container_id=id), cri.RemoveContainerResponse)
        self._looks.forget(id)
        self._configs.pop(id, None)

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout_seconds: float | None, limit_bytes: int
    ) -> Outcome:
        # Whole seconds again: ours end first, and the runtime hears of it.
        whole_seconds = math.ceil(timeout_seconds) if timeout_seconds is not None else 0
        request = cri.ExecSyncRequest(container_id=container_id, cmd=command, timeout=whole_seconds)
        deadline = None if timeout_seconds is None else timeout_seconds + USUAL_SECONDS
        try:
            async with asyncio.timeout(timeout_seconds):
                answer = await self._channel.ask(request, cri.ExecSyncResponse, timeout_seconds=deadline)
        except CriFailure as failure:
            if failure.code == DEADLINE_EXCEEDED:
                raise TimeoutError(failure.details) from failure
            raise
        return Outcome(answer.exit_code, (answer.stdout + answer.stderr)[:limit_bytes], answer.stderr[:limit_bytes])

    async def reopen_log(self, container_id: str) -> None:
        request = cri.ReopenContainerLogRequest(container_id=container_id)
        await self._channel.ask(request, cri.ReopenContainerLogResponse)


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    """Whoever wants something gone that is not there has got what it wanted."""
    try:
        yield
    except CriFailure as failure:
        if failure.code != NOT_FOUND:
            raise
