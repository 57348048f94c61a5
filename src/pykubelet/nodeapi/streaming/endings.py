"""How a command ended, as it is told to whoever ran it.

From protocol version 4 on as a Status with the exit code; before, a sentence for people, and nothing if all is well.

Upstream: staging/src/k8s.io/kubelet/pkg/cri/streaming/remotecommand/{exec,attach,httpstream}.go
"""

from collections.abc import Sequence

from pykubelet.api.wire import Document, encode

SUCCESS: Document = {"metadata": {}, "status": "Success"}


def exit_status(command: Sequence[str], code: int) -> Document:
    """The Status of a command that ended by itself."""
    if code == 0:
        return SUCCESS
    words = " ".join(command)
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: error executing command [{words}], exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failure_status(what: str) -> Document:
    """The Status of something that did not work."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {what}",
        "reason": "InternalError",
        "details": {"causes": [{"message": what}]},
        "code": 500,
    }


def ending(status: Document, *, as_status: bool) -> bytes:
    """What to write to the error stream."""
    if as_status:
        return encode(status)
    return b"" if status["status"] == "Success" else str(status["message"]).encode()
