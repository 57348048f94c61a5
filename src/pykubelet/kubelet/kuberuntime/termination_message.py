"""Reads termination messages of exited containers: from their file, or from the end of their log.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import AnyContainer
from pykubelet.kubelet.logs.log_lines import LogFilter, LogQuery
from pykubelet.kubelet.volumemanager.pod_dirs import in_thread, pod_dir, read_end, read_last_lines
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimePod

LogPath = Callable[[Pod, RuntimeContainer], str]
"""Returns the path of a container's log."""

MAX_FILE_BYTES = 4096
MAX_LOG_BYTES = 2048
MAX_LOG_LINES = 80
_FALL_BACK = "FallbackToLogsOnError"
# The container never ran, so an existing log is not about it.
_NEVER_RAN = "ContainerCannotRun"


class TerminationMessageFiller:
    """Adds the termination messages of exited containers to what the runtime reports of a pod."""

    def __init__(self, *, messages: "TerminationMessages", log_path: LogPath) -> None:
        self._messages, self._log_path = messages, log_path

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
        return replace(found, message=await self._messages.message(pod, spec, found, self._log_path(pod, found)))


class TerminationMessages:
    """Reads the termination messages of containers below the kubelet's root directory."""

    def __init__(self, root: str) -> None:
        self._root = root

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
    """Whether the message comes from the log: the policy says so, the container failed, and its file is empty."""
    return container.termination_message_policy == _FALL_BACK and exit_code != 0 and reason != _NEVER_RAN and not file


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
