"""Tells the log what an API server would be told: for a node without one."""

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import ObjectReference
from pykubelet.kube.recorder import WARNING

log = get_logger(__name__)


class LogRecorder:
    """Writes events to the log; an EventRecorder."""

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        object_name = "/".join(filter(None, (involved.namespace, involved.name)))
        write = log.warning if event_type == WARNING else log.info
        write("event", object=f"{involved.kind} {object_name}", reason=reason, event=message)
