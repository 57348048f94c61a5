"""What an ended container said last: the file it wrote into, or the end of its log.

Upstream: getTerminationMessage and readLastStringFromContainerLogs in pkg/kubelet/kuberuntime/kuberuntime_container.go
"""

from collections.abc import Iterable

from pykubelet.api.generated.core import Container, EphemeralContainer
from pykubelet.runtime.loglines import LogCut, LogQuery

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
    printed = LogCut(LogQuery()).take(list(lines)[-MAX_LOG_LINES:])
    return printed[-MAX_LOG_BYTES:].decode(errors="replace")


def joined(runtime_message: str, own: str) -> str:
    """What the runtime says of the end, and then the container itself."""
    return f"{runtime_message}: {own}" if runtime_message and own else runtime_message or own
