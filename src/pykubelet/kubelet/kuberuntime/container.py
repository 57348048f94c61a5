"""Starts one container: image, settings, log, create, start, post-start hook.

`prepare` gets everything ready that is needed, `launch` makes the container; who is cancelled before has started nothing.
Each failure is an event and a RuntimeFailure whose reason is what users see the container waiting for.

Upstream: startContainer in pkg/kubelet/kuberuntime/kuberuntime_container.go

Whether a container that must not run as root would.

Upstream: verifyRunAsNonRoot in pkg/kubelet/kuberuntime/security_context_others.go
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import EphemeralContainer, ObjectReference, Pod
from pykubelet.kubelet.events import (
    NORMAL,
    WARNING,
    AnyContainer,
    EventReporter,
    container_reference,
    format_pod,
    without_id,
)
from pykubelet.kubelet.images.keyring import EMPTY_KEYRING, DockerKeyring
from pykubelet.kubelet.kuberuntime.pod_actions import container_hash, next_attempt
from pykubelet.kubelet.kuberuntime.termination import ContainerKiller
from pykubelet.kubelet.lifecycle.handlers import HandlerRunner, HookFailure
from pykubelet.kubelet.logs.log_directory import LogDirectory, pod_names
from pykubelet.runtimes.protocol import (
    ContainerRequest,
    Mount,
    RegistryCredentials,
    Runtime,
    RuntimeFailure,
    RuntimePod,
)

_GREATEST_USER = 2**31 - 1


def must_know_user(pod: Pod, container: AnyContainer) -> bool:
    """Whether it matters whom the image runs as: root is forbidden and the pod names no user."""
    return bool(_setting(pod, container, "run_as_non_root")) and _setting(pod, container, "run_as_user") is None


def verify_run_as_non_root(pod: Pod, container: AnyContainer, image_user: str | None) -> str:
    """Why the container may not start; empty if it may. `image_user` counts only if it `must_know_user`."""
    if not _setting(pod, container, "run_as_non_root"):
        return ""
    where = f'(pod: "{format_pod(pod)}", container: {container.name})'
    user = _setting(pod, container, "run_as_user")
    if user is not None:
        return f"container's runAsUser breaks non-root policy {where}" if user == 0 else ""
    if image_user is None:
        return ""
    try:
        number = int(image_user)
    except ValueError:
        told = f"image has non-numeric user ({image_user}), cannot verify user is non-root"
        return f"container has runAsNonRoot and {told} {where}"
    if number == 0:
        return f"container has runAsNonRoot and image will run as root {where}"
    if not 0 < number <= _GREATEST_USER:
        told = f"image has an invalid user id ({number}). (Must be 1-({_GREATEST_USER}))"
        return f"container has runAsNonRoot and {told} {where}"
    return ""


def _setting(pod: Pod, container: AnyContainer, name: str) -> bool | int | None:
    """What the container's security context says, else the pod's."""
    for context in (container.security_context, pod.spec.security_context):
        value: bool | int | None = getattr(context, name, None)
        if value is not None:
            return value
    return None


log = get_logger(__name__)

CREATE_CONTAINER_CONFIG_ERROR = "CreateContainerConfigError"
CREATE_CONTAINER_ERROR = "CreateContainerError"
RUN_CONTAINER_ERROR = "RunContainerError"
POST_START_HOOK_ERROR = "PostStartHookError"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """What a container runs with, everything resolved."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()


class PodSettings(Protocol):
    """Knows environment, files and names of pods."""

    def hostname(self, pod: Pod) -> str:
        """The name the pod's machine has in its own eyes."""

    async def container(
        self, pod: Pod, container: AnyContainer, ips: Sequence[str], *, attempt: int
    ) -> ContainerSettings:
        """What a container is to run with; RuntimeFailure if something it refers to is missing."""


class ContainerImages(Protocol):
    """Sees to it that images are here."""

    async def ensure(
        self,
        pod: Pod,
        container: AnyContainer,
        involved: ObjectReference,
        credentials: Sequence[RegistryCredentials] = (),
    ) -> str:
        """The id of the container's image, which is then here; RuntimeFailure with the reason if it cannot be had."""

    async def user_of(self, container: AnyContainer) -> str | None:
        """Whom the container's image runs as: a number or a name; None if it does not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxContext:
    """Where containers of a pod are started: its sandbox, and what there is of the pod already."""

    pod: Pod
    observed: RuntimePod
    sandbox_id: str
    ips: tuple[str, ...]
    keyring: DockerKeyring = EMPTY_KEYRING


class ContainerStarter:
    """Starts containers."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        images: ContainerImages,
        settings: PodSettings,
        logs: LogDirectory,
        hooks: HandlerRunner,
        killer: ContainerKiller,
        events: EventReporter,
    ) -> None:
        self._runtime, self._images, self._settings, self._logs = runtime, images, settings, logs
        self._hooks, self._killer, self._events = hooks, killer, events

    async def prepare(self, place: SandboxContext, container: AnyContainer) -> ContainerRequest:
        """All that is needed to make the container, which is not made yet; a second time finds what the first has done."""
        pod = place.pod
        reference = container_reference(pod, container.name)
        try:
            credentials = place.keyring.credentials(container.image)
            image_id = await self._images.ensure(pod, container, reference, credentials)
        except RuntimeFailure as failure:
            # The puller has told the whole story already.
            self._events.event(reference, WARNING, "Failed", f"Error: {failure.reason}")
            raise
        try:
            return await self._request(place, container, image_id)
        except RuntimeFailure as failure:
            self._fail(pod, container, failure, failure.reason or CREATE_CONTAINER_CONFIG_ERROR)

    async def _request(self, place: SandboxContext, container: AnyContainer, image_id: str) -> ContainerRequest:
        pod = place.pod
        target_id = _target_id(place.observed, container)
        user = await self._images.user_of(container) if must_know_user(pod, container) else None
        if refusal := verify_run_as_non_root(pod, container, user):
            raise RuntimeFailure(refusal)
        names = pod_names(pod)
        try:
            log_names = await self._logs.prepare(names, container.name)
        except OSError as error:
            told = f"create container log directory for container {container.name} failed: {error.strerror}"
            raise RuntimeFailure(told) from error
        attempt = next_attempt(container.name, place.observed, log_names)
        settings = await self._settings.container(pod, container, place.ips, attempt=attempt)
        return ContainerRequest(
            pod=pod,
            sandbox_id=place.sandbox_id,
            container=container,
            attempt=attempt,
            hash=container_hash(container),
            image_id=image_id,
            command=settings.command,
            args=settings.args,
            environment=settings.environment,
            mounts=settings.mounts,
            log_path=self._logs.path(names, container.name, attempt),
            target_id=target_id,
        )

    async def launch(self, request: ContainerRequest) -> None:
        """Make the container, start it, run its hook. Whoever cancels this finds it as far as it came."""
        pod, container = request.pod, request.container
        try:
            container_id = await self._runtime.create_container(request)
        except RuntimeFailure as failure:
            self._fail(pod, container, failure, failure.reason or CREATE_CONTAINER_ERROR)
        reference = container_reference(pod, container.name)
        self._events.event(reference, NORMAL, "Created", f"Created container: {container.name}")
        try:
            await self._runtime.start(container_id)
        except RuntimeFailure as failure:
            self._fail(pod, container, failure, RUN_CONTAINER_ERROR, container_id)
        self._events.event(reference, NORMAL, "Started", f"Started container {container.name}")
        await self._logs.link(pod_names(pod), container.name, container_id, request.log_path)
        hook = container.lifecycle.post_start if container.lifecycle else None
        if hook is not None:
            try:
                await self._hooks.run(container_id, pod, container, hook)
            except HookFailure as failure:
                await self._end_after_failed_hook(pod, container, container_id, failure)
                raise RuntimeFailure(str(failure), reason=POST_START_HOOK_ERROR) from failure

    async def _end_after_failed_hook(
        self, pod: Pod, container: AnyContainer, container_id: str, failure: HookFailure
    ) -> None:
        facts = {"pod": format_pod(pod), "container": container.name}
        log.warning("post-start hook failed", cause=str(failure), **facts)
        # What the hook said may hold a secret, so the event does not tell.
        self._events.event(
            container_reference(pod, container.name), WARNING, "FailedPostStartHook", "PostStartHook failed"
        )
        try:
            await self._killer.kill_container(pod, container, container_id, message="FailedPostStartHook")
        except RuntimeFailure as not_killed:
            log.warning("container not killed after its failed hook", cause=not_killed.message, **facts)

    def _fail(
        self, pod: Pod, container: AnyContainer, failure: RuntimeFailure, reason: str, container_id: str = ""
    ) -> NoReturn:
        told = without_id(f"Error: {failure.message}", container_id, container.name)
        self._events.event(container_reference(pod, container.name), WARNING, "Failed", told)
        raise RuntimeFailure(failure.message, reason=reason, retry_at=failure.retry_at) from failure


def _target_id(observed: RuntimePod, container: AnyContainer) -> str:
    """The container that an ephemeral one is to look into."""
    name = container.target_container_name if isinstance(container, EphemeralContainer) else ""
    target = observed.newest(name) if name else None
    if name and target is None:
        raise RuntimeFailure(f"unable to find target container {name}")
    return target.id if target is not None else ""
