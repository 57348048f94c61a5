"""Kills containers and pods, and reads the termination messages of exited containers.

Killing runs pre-stop hooks, stops sidecars last and in order, and respects grace periods. A termination message comes from the container's file, or from the end of its log.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/kubelet/kuberuntime/kuberuntime_termination_order.go
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.threads import in_thread
from pykubelet.api.generated.core import Container, LifecycleHandler, Pod, PodSpec
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.pods import AnyContainer, is_restartable_init_container, pod_label
from pykubelet.client.recorder import NORMAL, WARNING, EventRecorder, container_reference, format_pod, without_id
from pykubelet.kubelet.kuberuntime.pod_actions import (
    MINIMUM_GRACE_SECONDS,
    KillReason,
    SyncAction,
    SyncResult,
    failed_result,
    kill_grace_seconds,
)
from pykubelet.kubelet.lifecycle.handlers import HandlerRunner, HookFailure
from pykubelet.kubelet.logs.log_lines import LogFilter, LogQuery
from pykubelet.kubelet.volumemanager.pod_dirs import pod_dir, read_end, read_last_lines
from pykubelet.runtimes.protocol import ContainerState, Runtime, RuntimeContainer, RuntimeFailure, RuntimePod

log = get_logger(__name__)

MAX_FILE_BYTES = 4096
MAX_LOG_BYTES = 2048
MAX_LOG_LINES = 80


def termination_dependencies(pod: Pod, running: Collection[str]) -> Mapping[str, frozenset[str]]:
    """For each running sidecar, the running containers that end before it.

    Sidecars end after all regular containers, in reverse order of their start.
    """
    sidecars = [one.name for one in pod.spec.init_containers if is_restartable_init_container(one)]
    regular = [one.name for one in pod.spec.containers]
    return {
        name: frozenset(running).intersection((*regular, *sidecars[index + 1 :]))
        for index, name in enumerate(sidecars)
        if name in running
    }


@dataclass(frozen=True, slots=True)
class TerminationOrdering:
    """Which containers of a pod wait for which others when the pod ends, and which have ended."""

    waits_for: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ended: Mapping[str, asyncio.Event] = field(default_factory=dict)

    async def wait(self, name: str, limit_seconds: float) -> bool:
        """Wait until a container may be stopped, but no longer than its grace period; False if that is over."""
        try:
            async with asyncio.timeout(limit_seconds):
                for other in self.waits_for.get(name, ()):
                    await self.ended[other].wait()
        except TimeoutError:
            return False
        return True

    def record_end(self, name: str) -> None:
        if name in self.ended:
            self.ended[name].set()


NO_ORDERING = TerminationOrdering()


class ContainerKiller:
    """Kills containers: pre-stop hook first, then the stop signal, all within the grace period.

    When a call returns, nothing runs any more. Cancelling it does not affect containers that were not signalled yet.
    """

    def __init__(self, *, runtime: Runtime, hooks: HandlerRunner, events: EventRecorder, clock: Clock) -> None:
        self._runtime, self._hooks, self._events, self._clock = runtime, hooks, events, clock

    async def kill_pod(
        self, pod: Pod | None, observed: RuntimePod, *, grace_seconds: int | None = None
    ) -> tuple[SyncResult, ...]:
        """Kill all containers of a pod, then its sandboxes; `grace_seconds` overrides the pod's grace period.

        `pod` is None for a pod whose spec is no longer known; its containers have no hooks then.
        """
        if pod is None:
            pod = pod_from_runtime(observed)
        running = [one for one in observed.containers if one.state == ContainerState.RUNNING]
        names = {one.name for one in running}
        ordering = TerminationOrdering(termination_dependencies(pod, names), {name: asyncio.Event() for name in names})
        async with asyncio.TaskGroup() as group:
            kills = [
                group.create_task(
                    self._kill_one(pod, one.id, one.name, grace_seconds=grace_seconds, ordering=ordering),
                    name=f"kill {one.name} of {format_pod(pod)}",
                )
                for one in running
            ]
        return *(kill.result() for kill in kills), await self._stop_sandboxes(observed)

    async def _kill_one(
        self, pod: Pod, container_id: str, name: str, *, grace_seconds: int | None, ordering: TerminationOrdering
    ) -> SyncResult:
        container = container_spec(pod, name)
        try:
            await self.kill_container(pod, container, container_id, grace_seconds=grace_seconds, ordering=ordering)
        except RuntimeFailure as failure:
            return failed_result(SyncAction.KILL_CONTAINER, name, failure)
        return SyncResult(action=SyncAction.KILL_CONTAINER, target=name)

    async def _stop_sandboxes(self, observed: RuntimePod) -> SyncResult:
        result = SyncResult(action=SyncAction.KILL_SANDBOX, target=observed.uid)
        for sandbox in observed.sandboxes:
            try:
                # Its containers had their grace period already.
                await self._runtime.stop(sandbox.id, 0)
            except RuntimeFailure as failure:
                result = failed_result(SyncAction.KILL_SANDBOX, observed.uid, failure)
        return result

    async def kill_container(
        self,
        pod: Pod,
        container: AnyContainer,
        container_id: str,
        *,
        message: str = "",
        reason: KillReason = KillReason.OTHER,
        grace_seconds: int | None = None,
        ordering: TerminationOrdering = NO_ORDERING,
    ) -> None:
        """Kill one container; RuntimeFailure if it cannot be stopped."""
        grace = kill_grace_seconds(pod, container, reason)
        text = without_id(message or f"Stopping container {container.name}", container_id, container.name)
        self._events.event(container_reference(pod, container.name), NORMAL, "Killing", text)
        if grace_seconds is not None:
            grace = grace_seconds
        hook = container.lifecycle.pre_stop if container.lifecycle else None
        if hook is not None and grace > 0:
            grace -= await self._pre_stop(pod, container, container_id, hook, grace)
        if grace > 0:
            before = self._clock.monotonic()
            if not await ordering.wait(container.name, grace):
                message = "container stopped before its turn: grace period is over"
                log.info(message, pod=pod_label(pod), container=container.name)
            # The grace period counts whole seconds; fractions are rounded in favour of the container.
            grace -= int(self._clock.monotonic() - before)
        await self._runtime.stop(container_id, max(grace, MINIMUM_GRACE_SECONDS))
        ordering.record_end(container.name)

    async def _pre_stop(
        self, pod: Pod, container: AnyContainer, container_id: str, hook: LifecycleHandler, grace: int
    ) -> int:
        """Run the pre-stop hook within the grace period; how many whole seconds it took."""
        before = self._clock.monotonic()
        facts = {"pod": pod_label(pod), "container": container.name}
        try:
            async with asyncio.timeout(grace):
                await self._hooks.run(container_id, pod, container, hook)
        except TimeoutError:
            log.info("pre-stop hook not completed within the grace period", grace_seconds=grace, **facts)
        except HookFailure as failure:
            # The hook's output may hold a secret, so the event does not quote it.
            log.warning("pre-stop hook failed", cause=str(failure), **facts)
            self._events.event(
                container_reference(pod, container.name), WARNING, "FailedPreStopHook", "PreStopHook failed"
            )
        return int(self._clock.monotonic() - before)


def container_spec(pod: Pod, name: str) -> AnyContainer:
    """The spec of a pod's container by name; only the name for a container that the pod does not list."""
    listed: tuple[AnyContainer, ...] = (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)
    return next((container for container in listed if container.name == name), Container(name=name))


def pod_from_runtime(observed: RuntimePod) -> Pod:
    """A pod with what the runtime knows of it, for a pod whose spec is gone."""
    names = dict.fromkeys(container.name for container in observed.containers)
    return Pod(
        metadata=ObjectMeta(name=observed.name, namespace=observed.namespace, uid=observed.uid),
        spec=PodSpec(containers=tuple(Container(name=name) for name in names)),
    )


class TerminationMessages:
    """Adds the termination messages of exited containers to what the runtime reports of a pod.

    The files of containers are below `root`, the kubelet's directory; `log_path` returns the path of a container's log.
    """

    def __init__(self, root: str, log_path: Callable[[Pod, RuntimeContainer], str]) -> None:
        self._root, self._log_path = root, log_path

    async def fill(self, pod: Pod, observed: RuntimePod) -> RuntimePod:
        """`observed` with the message of each container that has exited."""
        if all(container.state != ContainerState.EXITED for container in observed.containers):
            return observed
        spec = pod.spec
        listed: tuple[AnyContainer, ...] = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
        specs = {container.name: container for container in listed}
        containers = [await self._with_message(pod, specs.get(one.name), one) for one in observed.containers]
        return replace(observed, containers=tuple(containers))

    async def _with_message(self, pod: Pod, spec: AnyContainer | None, found: RuntimeContainer) -> RuntimeContainer:
        if spec is None or found.state != ContainerState.EXITED:
            return found
        return replace(found, message=await self.message(pod, spec, found, self._log_path(pod, found)))

    async def message(self, pod: Pod, container: AnyContainer, exited: RuntimeContainer, log_path: str) -> str:
        """The runtime's message for an exited container, followed by its own. Never raises."""
        return await in_thread(self._message, pod, container, exited, log_path)

    def _message(self, pod: Pod, container: AnyContainer, exited: RuntimeContainer, log_path: str) -> str:
        content: bytes | None = None
        if container.termination_message_path:
            try:
                path = pod_dir(self._root, pod.metadata.uid).termination_file(container.name, exited.attempt)
                content = read_end(path, MAX_FILE_BYTES)
            except FileNotFoundError:
                pass
            except OSError as error:
                return join_messages(
                    exited.message, f"Error on reading termination log {error.filename}: {error.strerror}"
                )
        own = text_of_file(content or b"")
        if should_read_log(container, exit_code=exited.exit_code, reason=exited.reason, file=content):
            own = _end_of_log(log_path)
        return join_messages(exited.message, own)


def should_read_log(container: AnyContainer, *, exit_code: int, reason: str, file: bytes | None) -> bool:
    """Whether the message comes from the log: the policy says so, the container ran and failed, its file is empty."""
    falls_back = container.termination_message_policy == "FallbackToLogsOnError"
    return falls_back and exit_code != 0 and reason != "ContainerCannotRun" and not file


def text_of_file(content: bytes) -> str:
    """The end of a termination message file; bytes that are not UTF-8 are replaced."""
    return content[-MAX_FILE_BYTES:].decode(errors="replace")


def text_of_log(lines: Iterable[bytes]) -> str:
    """The end of a container's output, from the last lines of its log file."""
    printed = LogFilter(LogQuery()).take(list(lines)[-MAX_LOG_LINES:])
    return printed[-MAX_LOG_BYTES:].decode(errors="replace")


def join_messages(runtime_message: str, own: str) -> str:
    """The runtime's message, then the container's own."""
    return f"{runtime_message}: {own}" if runtime_message and own else runtime_message or own


def _end_of_log(path: str) -> str:
    try:
        return text_of_log(read_last_lines(path, MAX_LOG_LINES))
    except OSError as error:
        return f"Error on reading termination message from logs: {error.strerror}"
