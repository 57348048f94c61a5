"""Starts one container: pulls the image, resolves settings, creates, starts, runs the post-start hook.

Each failure is reported as an event and raised as a RuntimeFailure with the waiting reason of the container.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/kubelet/kuberuntime/security_context_others.go
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import EphemeralContainer, ObjectReference, Pod
from pykubelet.api.pods import AnyContainer, pod_label
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, container_reference, format_pod, without_id
from pykubelet.kubelet.images.image_manager import EMPTY_KEYRING, DockerKeyring
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

log = get_logger(__name__)

_MAX_USER_ID = 2**31 - 1


def must_know_user(pod: Pod, container: AnyContainer) -> bool:
    """Whether the image's user matters: root is forbidden and the pod names no user."""
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
        problem = f"image has non-numeric user ({image_user}), cannot verify user is non-root"
        return f"container has runAsNonRoot and {problem} {where}"
    if number == 0:
        return f"container has runAsNonRoot and image will run as root {where}"
    if not 0 < number <= _MAX_USER_ID:
        problem = f"image has an invalid user id ({number}). (Must be 1-({_MAX_USER_ID}))"
        return f"container has runAsNonRoot and {problem} {where}"
    return ""


def _setting(pod: Pod, container: AnyContainer, name: str) -> bool | int | None:
    """A setting of the container's security context, else of the pod's."""
    for context in (container.security_context, pod.spec.security_context):
        value: bool | int | None = getattr(context, name, None)
        if value is not None:
            return value
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """Command, environment and mounts of a container, with all references resolved."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()


class RuntimeHelper(Protocol):
    """Resolves environment, files and host names of pods; `RunContainerOptions` above implements it."""

    def hostname(self, pod: Pod) -> str:
        """The host name inside the pod."""

    async def dns_warnings(self, pod: Pod) -> Sequence[str]:
        """What the pod's DNS settings ask for beyond the limits of resolvers."""

    async def container(
        self, pod: Pod, container: AnyContainer, ips: Sequence[str], *, attempt: int
    ) -> ContainerSettings:
        """The settings of a container; RuntimeFailure if something it refers to is missing."""


class ContainerImages(Protocol):
    """Provides images on this machine: ImageManager, or NoImages for a runtime without images."""

    async def ensure(
        self,
        pod: Pod,
        container: AnyContainer,
        involved: ObjectReference,
        credentials: Sequence[RegistryCredentials] = (),
    ) -> str:
        """The id of the container's image, pulled if necessary; RuntimeFailure with the waiting reason."""

    async def user_of(self, container: AnyContainer) -> str | None:
        """The user of the container's image, a number or a name; None if it sets none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxContext:
    """The sandbox that containers of a pod are started in, and what the runtime has of the pod."""

    pod: Pod
    observed: RuntimePod
    sandbox_id: str
    ips: tuple[str, ...]
    keyring: DockerKeyring = EMPTY_KEYRING


class ContainerStarter:
    """Starts containers in two steps: `prepare` pulls the image and resolves settings, `launch` creates and starts."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        images: ContainerImages,
        helper: RuntimeHelper,
        logs: LogDirectory,
        hooks: HandlerRunner,
        killer: ContainerKiller,
        events: EventRecorder,
    ) -> None:
        self._runtime, self._images, self._helper, self._logs = runtime, images, helper, logs
        self._hooks, self._killer, self._events = hooks, killer, events

    async def prepare(self, context: SandboxContext, container: AnyContainer) -> ContainerRequest:
        """The request that creates the container; nothing is created yet, and it may be called again."""
        pod = context.pod
        reference = container_reference(pod, container.name)
        try:
            credentials = context.keyring.credentials(container.image)
            image_id = await self._images.ensure(pod, container, reference, credentials)
        except RuntimeFailure as failure:
            # The image manager has reported the cause already.
            self._events.event(reference, WARNING, "Failed", f"Error: {failure.reason}")
            raise
        try:
            return await self._request(context, container, image_id)
        except RuntimeFailure as failure:
            self._fail(pod, container, failure, failure.reason or "CreateContainerConfigError")

    async def _request(self, context: SandboxContext, container: AnyContainer, image_id: str) -> ContainerRequest:
        pod = context.pod
        target_id = _target_id(context.observed, container)
        user = await self._images.user_of(container) if must_know_user(pod, container) else None
        if refusal := verify_run_as_non_root(pod, container, user):
            raise RuntimeFailure(refusal)
        names = pod_names(pod)
        try:
            log_names = await self._logs.prepare(names, container.name)
        except OSError as error:
            message = f"create container log directory for container {container.name} failed: {error.strerror}"
            raise RuntimeFailure(message) from error
        attempt = next_attempt(container.name, context.observed, log_names)
        settings = await self._helper.container(pod, container, context.ips, attempt=attempt)
        return ContainerRequest(
            pod=pod,
            sandbox_id=context.sandbox_id,
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
        """Create the container, start it, run its post-start hook. Cancelling leaves it in the state it has reached."""
        pod, container = request.pod, request.container
        try:
            container_id = await self._runtime.create_container(request)
        except RuntimeFailure as failure:
            self._fail(pod, container, failure, failure.reason or "CreateContainerError")
        reference = container_reference(pod, container.name)
        self._events.event(reference, NORMAL, "Created", f"Created container: {container.name}")
        try:
            await self._runtime.start(container_id)
        except RuntimeFailure as failure:
            self._fail(pod, container, failure, "RunContainerError", container_id)
        self._events.event(reference, NORMAL, "Started", f"Started container {container.name}")
        await self._logs.link(pod_names(pod), container.name, container_id, request.log_path)
        hook = container.lifecycle.post_start if container.lifecycle else None
        if hook is not None:
            try:
                await self._hooks.run(container_id, pod, container, hook)
            except HookFailure as failure:
                await self._end_after_failed_hook(pod, container, container_id, failure)
                raise RuntimeFailure(str(failure), reason="PostStartHookError") from failure

    async def _end_after_failed_hook(
        self, pod: Pod, container: AnyContainer, container_id: str, failure: HookFailure
    ) -> None:
        facts = {"pod": pod_label(pod), "container": container.name}
        log.warning("post-start hook failed", cause=str(failure), **facts)
        # The hook's output may hold a secret, so the event does not quote it.
        self._events.event(
            container_reference(pod, container.name), WARNING, "FailedPostStartHook", "PostStartHook failed"
        )
        try:
            await self._killer.kill_container(pod, container, container_id, message="FailedPostStartHook")
        except RuntimeFailure as not_killed:
            log.warning("container not killed after failed post-start hook", cause=not_killed.message, **facts)

    def _fail(
        self, pod: Pod, container: AnyContainer, failure: RuntimeFailure, reason: str, container_id: str = ""
    ) -> NoReturn:
        message = without_id(f"Error: {failure.message}", container_id, container.name)
        self._events.event(container_reference(pod, container.name), WARNING, "Failed", message)
        raise RuntimeFailure(failure.message, reason=reason, retry_at=failure.retry_at) from failure


def _target_id(observed: RuntimePod, container: AnyContainer) -> str:
    """The id of the container that an ephemeral container targets; empty if it targets none."""
    name = container.target_container_name if isinstance(container, EphemeralContainer) else ""
    target = observed.newest(name) if name else None
    if name and target is None:
        raise RuntimeFailure(f"unable to find target container {name}")
    return target.id if target is not None else ""
