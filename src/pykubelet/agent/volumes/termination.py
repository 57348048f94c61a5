"""Reads what ended containers said last, for their statuses.

Upstream: convertToKubeContainerStatus in pkg/kubelet/kuberuntime/kuberuntime_container.go
"""

from pykubelet.agent.volumes.container_files import read_end, read_last_lines
from pykubelet.agent.volumes.pod_dirs import pod_dir
from pykubelet.agent.volumes.termination_message import (
    MAX_FILE_BYTES,
    MAX_LOG_LINES,
    asks_log,
    joined,
    text_of_file,
    text_of_log,
)
from pykubelet.agent.volumes.turns import in_thread
from pykubelet.api.generated.core import Container, EphemeralContainer, Pod
from pykubelet.runtime.protocol import RuntimeContainer


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
