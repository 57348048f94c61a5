"""What an ended container said last: the file it wrote into, or the end of its log.

Upstream: getTerminationMessage and readLastStringFromContainerLogs in pkg/kubelet/kuberuntime/kuberuntime_container.go

Reads what ended containers said last, for their statuses.

Upstream: convertToKubeContainerStatus in pkg/kubelet/kuberuntime/kuberuntime_container.go

What a runtime has of a pod, together with what its ended containers said last.

Upstream: toKubeContainerStatus in pkg/kubelet/kuberuntime/kuberuntime_container.go, at each look at a pod
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from pykubelet.api.generated.core import Container, EphemeralContainer, Pod
from pykubelet.kubelet.logs.log_lines import LogFilter, LogQuery
from pykubelet.kubelet.volumemanager.pod_dirs import in_thread, pod_dir, read_end, read_last_lines
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimePod

AnyContainer = Container | EphemeralContainer
LogPath = Callable[[Pod, RuntimeContainer], str]
"""Where the log of a container is."""


class TerminationMessageSource(Protocol):
    """Reads the last words of containers."""

    async def message(self, pod: Pod, container: AnyContainer, exited: RuntimeContainer, log_path: str) -> str:
        """The message of a container that has exited; never raises."""


class TerminationMessageFiller:
    """Adds termination messages to what the runtime tells."""

    def __init__(self, *, messages: TerminationMessageSource, log_path: LogPath) -> None:
        self._messages, self._log_path = messages, log_path

    async def heard(self, pod: Pod, observed: RuntimePod) -> RuntimePod:
        """The same, with the message of each container that has exited."""
        if all(container.state != ContainerState.EXITED for container in observed.containers):
            return observed
        spec = pod.spec
        listed: tuple[AnyContainer, ...] = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
        wanted = {container.name: container for container in listed}
        containers = [await self._told(pod, wanted.get(one.name), one) for one in observed.containers]
        return replace(observed, containers=tuple(containers))

    async def _told(self, pod: Pod, wanted: AnyContainer | None, seen: RuntimeContainer) -> RuntimeContainer:
        if wanted is None or seen.state != ContainerState.EXITED:
            return seen
        return replace(seen, message=await self._messages.message(pod, wanted, seen, self._log_path(pod, seen)))


MAX_FILE_BYTES = 4096
MAX_LOG_BYTES = 2048
MAX_LOG_LINES = 80
_FALL_BACK = "FallbackToLogsOnError"
# It never ran, so that whatever log there is says nothing about it.
_NEVER_RAN = "ContainerCannotRun"


def asks_log(container: Container | EphemeralContainer, *, exit_code: int, reason: str, file: bytes | None) -> bool:
    """Whether the log is to be asked: the pod wants it, the container failed, and said nothing in its file."""
    return container.termination_message_policy == _FALL_BACK and exit_code != 0 and reason != _NEVER_RAN and not file


def text_of_file(content: bytes) -> str:
    """The end of a file, as a status may hold it; bytes that are no text are marked."""
    return content[-MAX_FILE_BYTES:].decode(errors="replace")


def text_of_log(lines: Iterable[bytes]) -> str:
    """The end of what a container printed, from the last lines of its log file."""
    printed = LogFilter(LogQuery()).take(list(lines)[-MAX_LOG_LINES:])
    return printed[-MAX_LOG_BYTES:].decode(errors="replace")


def joined(runtime_message: str, own: str) -> str:
    """What the runtime says of the end, and then the container itself."""
    return f"{runtime_message}: {own}" if runtime_message and own else runtime_message or own


class TerminationMessages:
    """The last words of containers, below the node's root folder."""

    def __init__(self, root: str) -> None:
        self._root = root

    async def message(
        self, pod: Pod, container: Container | EphemeralContainer, exited: RuntimeContainer, log_path: str
    ) -> str:
        """The message of a container that has exited: the runtime's, and its own. Never raises."""
        return await in_thread(self._message, pod, container, exited, log_path)

    def _message(
        self, pod: Pod, container: Container | EphemeralContainer, exited: RuntimeContainer, log_path: str
    ) -> str:
        content: bytes | None = None
        if container.termination_message_path:
            try:
                path = pod_dir(self._root, pod.metadata.uid).termination_file(container.name, exited.attempt)
                content = read_end(path, MAX_FILE_BYTES)
            except FileNotFoundError:
                pass
            except OSError as error:
                return joined(exited.message, f"Error on reading termination log {error.filename}: {error.strerror}")
        own = text_of_file(content or b"")
        if asks_log(container, exit_code=exited.exit_code, reason=exited.reason, file=content):
            own = _end_of_log(log_path)
        return joined(exited.message, own)


def _end_of_log(path: str) -> str:
    try:
        return text_of_log(read_last_lines(path, MAX_LOG_LINES))
    except OSError as error:
        return f"Error on reading termination message from logs: {error.strerror}"
